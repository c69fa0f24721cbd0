// docs/cli.md has every command and every option of the program, and no others.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "cli/run_program.hpp"

namespace tensorgrad::test {
namespace {

using Names = std::set<std::string>;

/// `--steps` at the beginning of a row, after `prefix`.
std::string option_of(const std::string& line, const std::string& prefix) {
  if (line.rfind(prefix + "--", 0) != 0) return "";
  return line.substr(prefix.size(), line.find_first_of(" `=", prefix.size()) - prefix.size());
}

/// The options that the help of a command lists.
Names options_in_help(std::vector<std::string> words) {
  words.push_back("--help");
  const ProgramResult help = run_program("tensorgrad", words);
  EXPECT_EQ(help.status, 0) << help.err;
  Names names;
  std::stringstream lines(help.out);
  for (std::string line; std::getline(lines, line);) {
    const std::string name = option_of(line, "  ");
    if (!name.empty()) names.insert(name);
  }
  return names;
}

/// The options that the document lists, by the heading they stand under: without marks, and without
/// arguments.
std::map<std::string, Names> options_in_document() {
  std::map<std::string, Names> found;
  std::string heading;
  std::stringstream lines(
      detail::read_file(std::filesystem::path(TENSORGRAD_SOURCE_DIR) / "docs/cli.md"));
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("#", 0) == 0) {
      heading.clear();
      for (const char c : line.substr(line.find(' ') + 1)) {
        if (c != '`') heading += c;
      }
      while (!heading.empty() && (isupper(heading.back()) || heading.back() == ']')) {
        heading.erase(heading.rfind(' '));  // an argument
      }
      found[heading];
    }
    const std::string name = option_of(line, "| `");
    if (!name.empty()) found[heading].insert(name);
  }
  return found;
}

TEST(CliDocument, HasEveryOptionOfEveryCommandAndNoOther) {
  const auto document = options_in_document();
  const Names shared = document.at("Options of every training");
  EXPECT_GT(shared.size(), 10u);
  const std::vector<std::vector<std::string>> commands = {
      {"train", "addition"}, {"train", "chars"}, {"train", "mnist"}, {"train", "sin"},
      {"inspect"},           {"generate"},       {"compare"},        {"bench"},
      {"devices"},           {"conformance"},    {"version"}};
  for (const std::vector<std::string>& words : commands) {
    std::string command = "tensorgrad";
    for (const std::string& word : words) command += " " + word;
    ASSERT_TRUE(document.count(command)) << command << " has no section";
    Names described = document.at(command);
    if (words[0] == "train") described.insert(shared.begin(), shared.end());
    EXPECT_EQ(described, options_in_help(words)) << command;
  }
}

TEST(CliDocument, HasASectionForEveryCommand) {
  const ProgramResult help = run_program("tensorgrad", {"--help"});
  const auto document = options_in_document();
  const auto rows = [](const std::string& text) {  // "  name  what it does", until an empty line
    Names names;
    std::stringstream lines(text);
    for (std::string line; std::getline(lines, line) && (names.empty() || !line.empty());) {
      if (line.rfind("  ", 0) != 0 || line[2] == ' ') continue;
      names.insert(line.substr(2, line.find(' ', 2) - 2));
    }
    return names;
  };
  const Names commands = rows(help.out);
  EXPECT_TRUE(commands.count("train")) << help.out;
  for (const std::string& command : commands) {
    EXPECT_TRUE(document.count("tensorgrad " + command)) << command;
  }
  const Names examples = rows(run_program("tensorgrad", {"train", "--help"}).out);
  EXPECT_TRUE(examples.count("sin"));
  for (const std::string& example : examples) {
    EXPECT_TRUE(document.count("tensorgrad train " + example)) << example;
  }
}

}  // namespace
}  // namespace tensorgrad::test
