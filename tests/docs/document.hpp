// Documents that show what the program really prints: a block after `<!-- output: name -->` must be
// the output of that name. TENSORGRAD_UPDATE_GOLDEN=1 writes the document anew.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace tensorgrad::test {

/// The document with each such block replaced by its output.
inline std::string filled_in(const std::string& document,
                             const std::map<std::string, std::string>& outputs) {
  std::istringstream lines(document);
  std::string result, pending;
  bool skipping = false;
  for (std::string line; std::getline(lines, line);) {
    if (skipping) {
      if (line.rfind("```", 0) == 0) {
        result += line + "\n";
        skipping = false;
      }
      continue;
    }
    result += line + "\n";
    constexpr const char* kMark = "<!-- output: ";
    if (line.rfind(kMark, 0) == 0) {
      pending = line.substr(std::string(kMark).size());
      pending.resize(pending.find(" -->"));
    } else if (!pending.empty() && line.rfind("```", 0) == 0) {
      result += outputs.at(pending);
      pending.clear();
      skipping = true;
    }
  }
  return result;
}

/// Holds a document (`docs/errors.md`) to the outputs.
inline void check_document(const std::string& name,
                           const std::map<std::string, std::string>& outputs) {
  const std::string path = std::string(TENSORGRAD_SOURCE_DIR) + "/" + name;
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  std::stringstream text;
  text << file.rdbuf();
  const std::string want = filled_in(text.str(), outputs);
  if (std::getenv("TENSORGRAD_UPDATE_GOLDEN")) {
    std::ofstream(path) << want;
    return;
  }
  EXPECT_EQ(text.str(), want)
      << "run this test with TENSORGRAD_UPDATE_GOLDEN=1 to renew the document";
}

}  // namespace tensorgrad::test
