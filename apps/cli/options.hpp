// Command lines: an option is declared once, with its help and where its value goes, and that gives
// parsing, checks and `--help`.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tensorgrad::cli {

using Arguments = std::vector<std::string>;

/// A command line that makes no sense: one sentence for stderr, exit status 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The options and arguments of one command.
class Options {
 public:
  /// Where a value goes. What stands there before parsing is the default, and help shows it.
  /// Whole numbers must be 1 or more (seeds: 0 or more), rates positive.
  using Target = std::variant<bool*, std::int64_t*, std::uint64_t*, double*, std::string*>;

  /// `command` as it is typed (`tensorgrad train sin`); `about` says what it does, in paragraphs.
  Options(std::string command, std::string about);

  /// A required argument, by position.
  Options& argument(std::string name, std::string help, std::string* value);
  /// An option: `--steps N`, or a flag if it goes to a bool.
  Options& option(std::string name, std::string placeholder, std::string help, Target value);
  Options& flag(std::string name, std::string help, bool* value);
  /// A line of `--help`'s examples: what to type, and what it does.
  Options& example(std::string line, std::string meaning);

  /// Fills the targets. False if `--help` was asked for and printed; throws UsageError.
  bool parse(const Arguments& args) const;

  std::string help() const;

 private:
  struct Argument {
    std::string name, help;
    std::string* value;
  };
  struct Option {
    std::string name, placeholder, help;
    Target value;
  };
  struct Example {
    std::string line, meaning;
  };

  const Option& find(const std::string& name) const;
  void set(const Option& option, const std::string& text) const;
  [[noreturn]] void fail(const std::string& what) const;

  std::string command_, about_;
  std::vector<Argument> arguments_;
  std::vector<Option> options_;
  std::vector<Example> examples_;
};

/// The name most like a mistyped one, or an empty string if none is close.
std::string closest(std::string_view typed, const std::vector<std::string>& names);

/// `name` padded to `width` columns, then `text`: a row of help.
std::string help_row(const std::string& name, std::size_t width, const std::string& text);

}  // namespace tensorgrad::cli
