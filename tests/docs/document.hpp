// Documents that tests keep true. A block after `<!-- output: name -->` must be what the program
// really prints, one after `<!-- snippet: name -->` code that is compiled and run.
// TENSORGRAD_UPDATE_GOLDEN=1 writes the documents anew.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace tensorgrad::test {

/// The text of a file of the source tree (`docs/errors.md`).
inline std::string source_file(const std::string& name) {
  std::ifstream file(std::filesystem::path(TENSORGRAD_SOURCE_DIR) / name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Holds a file of the source tree to a text.
inline void check_text(const std::string& name, const std::string& want) {
  if (std::getenv("TENSORGRAD_UPDATE_GOLDEN")) {
    std::ofstream(std::filesystem::path(TENSORGRAD_SOURCE_DIR) / name) << want;
    return;
  }
  EXPECT_EQ(source_file(name), want)
      << "run this test with TENSORGRAD_UPDATE_GOLDEN=1 to renew " << name;
}

/// The name in a line `<!-- output: name -->` or `<!-- snippet: name -->`, else an empty string.
inline std::string marked(const std::string& line) {
  for (const std::string mark : {"<!-- output: ", "<!-- snippet: "}) {
    if (line.rfind(mark, 0) == 0) return line.substr(mark.size(), line.find(" -->") - mark.size());
  }
  return "";
}

/// The document with the block after each mark replaced by what `blocks` has under its name.
inline std::string filled_in(const std::string& document,
                             const std::map<std::string, std::string>& blocks) {
  std::istringstream lines(document);
  std::string result, pending;
  bool skipping = false;
  for (std::string line; std::getline(lines, line);) {
    const bool fence = line.rfind("```", 0) == 0;
    if (skipping && !fence) continue;
    result += line + "\n";
    if (skipping) {
      skipping = false;
    } else if (fence && !pending.empty()) {
      result += blocks.at(pending);
      pending.clear();
      skipping = true;
    } else if (const std::string name = marked(line); !name.empty()) {
      pending = name;
    }
  }
  return result;
}

/// Holds a document to such blocks.
inline void check_document(const std::string& name,
                           const std::map<std::string, std::string>& blocks) {
  const std::string text = source_file(name);
  ASSERT_FALSE(text.empty()) << name;
  check_text(name, filled_in(text, blocks));
}

}  // namespace tensorgrad::test
