// Command lines: an option is declared once, with its help and where its value goes, and that gives
// parsing, checks and `--help`.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <set>
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
  /// An argument that may be left out; those come after the required ones.
  Options& optional_argument(std::string name, std::string help, std::string* value);
  /// An option: `--steps N`, or a flag if it goes to a bool.
  Options& option(std::string name, std::string placeholder, std::string help, Target value);
  Options& flag(std::string name, std::string help, bool* value);
  /// An option that is part of what is done and not only of how: checkpoints keep it, and a
  /// resumed run takes it from there. `choices`: the only values it takes.
  Options& setting(std::string name, std::string placeholder, std::string help, Target value,
                   std::vector<std::string> choices = {});
  /// A line of `--help`'s examples: what to type, and what it does.
  Options& example(std::string line, std::string meaning);

  /// Fills the targets. False if `--help` was asked for and printed; throws UsageError.
  bool parse(const Arguments& args);
  /// Whether the command line that was parsed has this option.
  bool given(const std::string& name) const { return given_.count(name) > 0; }

  /// The values of all settings, by their names without dashes.
  nlohmann::ordered_json settings() const;
  /// Takes the settings that the command line does not give from `kept`, which `settings` made for
  /// the file `source`. One that is given must be the same, unless it is in `free`: otherwise
  /// UsageError. Throws IoError if `kept` is not what `settings` makes.
  void restore(const nlohmann::ordered_json& kept, const std::string& source,
               const std::set<std::string>& free);

  std::string help() const;

 private:
  struct Argument {
    std::string name, help;
    std::string* value;
    bool required = true;
  };
  struct Option {
    std::string name, placeholder, help;
    Target value;
    bool is_setting = false;
    std::vector<std::string> choices = {};
  };
  struct Example {
    std::string line, meaning;
  };

  const Option& find(const std::string& name) const;
  /// Sets the value. Gives what it should have been, or an empty string if it is right.
  static std::string try_set(const Option& option, const std::string& text);
  void set(const Option& option, const std::string& text);
  [[noreturn]] void fail(const std::string& what) const;

  std::string command_, about_;
  std::vector<Argument> arguments_;
  std::vector<Option> options_;
  std::vector<Example> examples_;
  std::set<std::string> given_;  // names of options
};

/// The name most like a mistyped one, or an empty string if none is close.
std::string closest(std::string_view typed, const std::vector<std::string>& names);

/// `name` padded to `width` columns, then `text`: a row of help.
std::string help_row(const std::string& name, std::size_t width, const std::string& text);

}  // namespace tensorgrad::cli
