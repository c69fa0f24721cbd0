#include "options.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tensorgrad/error.hpp"

namespace tensorgrad::cli {

namespace {

constexpr const char* kHelpFlag = "--help";

/// Insertions, deletions and replacements that turn one word into the other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t above = row[j + 1];
      row[j + 1] = std::min({above + 1, row[j] + 1, diagonal + (a[i] == b[j] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

template <class T>
bool parse_number(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  return result.ec == std::errc() && result.ptr == end;
}

/// Puts a value where it belongs. Gives what it should have been, or an empty string if it is
/// right.
std::string assign(const std::string& text, const Options::Target& target) {
  struct Visitor {
    const std::string& text;
    const char* operator()(bool* value) const {
      *value = text == "true";
      return *value || text == "false" ? "" : "true or false";
    }
    const char* operator()(std::int64_t* value) const {
      return parse_number(text, *value) && *value >= 1 ? "" : "a whole number, 1 or more";
    }
    const char* operator()(std::uint64_t* value) const {
      return parse_number(text, *value) ? "" : "a whole number, 0 or more";
    }
    const char* operator()(double* value) const {
      const bool good = parse_number(text, *value) && std::isfinite(*value) && *value > 0;
      return good ? "" : "a positive number";
    }
    const char* operator()(std::string* value) const {
      *value = text;
      return text.empty() ? "a value" : "";
    }
  };
  return std::visit(Visitor{text}, target);
}

nlohmann::ordered_json json_of(const Options::Target& target) {
  return std::visit([](const auto* value) { return nlohmann::ordered_json(*value); }, target);
}

/// As it would be typed.
std::string text_of(const nlohmann::ordered_json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string key_of(const std::string& option) { return option.substr(2); }  // without the dashes

/// `adamw, adam or sgd`.
std::string alternatives(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  }
  return text;
}

/// The default as help shows it; empty if there is nothing to show.
std::string default_text(const Options::Target& target) {
  struct Visitor {
    std::string operator()(const bool*) const { return ""; }
    std::string operator()(const std::int64_t* value) const {
      return *value > 0 ? std::to_string(*value) : "";
    }
    std::string operator()(const std::uint64_t* value) const { return std::to_string(*value); }
    std::string operator()(const double* value) const {
      char text[32];
      std::snprintf(text, sizeof text, "%g", *value);
      return text;
    }
    std::string operator()(const std::string* value) const { return *value; }
  };
  return std::visit(Visitor{}, target);
}

}  // namespace

Options::Options(std::string command, std::string about)
    : command_(std::move(command)), about_(std::move(about)) {}

Options& Options::argument(std::string name, std::string help, std::string* value) {
  arguments_.push_back({std::move(name), std::move(help), value});
  return *this;
}

Options& Options::optional_argument(std::string name, std::string help, std::string* value) {
  arguments_.push_back({std::move(name), std::move(help), value, false});
  return *this;
}

Options& Options::option(std::string name, std::string placeholder, std::string help,
                         Target value) {
  options_.push_back({std::move(name), std::move(placeholder), std::move(help), value});
  return *this;
}

Options& Options::setting(std::string name, std::string placeholder, std::string help, Target value,
                          std::vector<std::string> choices) {
  options_.push_back(
      {std::move(name), std::move(placeholder), std::move(help), value, true, std::move(choices)});
  return *this;
}

Options& Options::flag(std::string name, std::string help, bool* value) {
  return option(std::move(name), "", std::move(help), value);
}

Options& Options::example(std::string line, std::string meaning) {
  examples_.push_back({std::move(line), std::move(meaning)});
  return *this;
}

void Options::fail(const std::string& what) const {
  throw UsageError(what + " See `" + command_ + " --help`.");
}

const Options::Option& Options::find(const std::string& name) const {
  std::vector<std::string> names{kHelpFlag};
  for (const Option& option : options_) {
    if (option.name == name) return option;
    names.push_back(option.name);
  }
  const std::string near = closest(name, names);
  fail("`" + command_ + "` has no option " + name +
       (near.empty() ? "." : "; did you mean " + near + "?"));
}

std::string Options::try_set(const Option& option, const std::string& text) {
  const std::string wanted = assign(text, option.value);
  const auto& choices = option.choices;
  if (choices.empty() || std::find(choices.begin(), choices.end(), text) != choices.end()) {
    return wanted;
  }
  return alternatives(choices);
}

void Options::set(const Option& option, const std::string& text) {
  const std::string wanted = try_set(option, text);
  if (!wanted.empty()) fail(option.name + " takes " + wanted + ", not \"" + text + "\".");
}

bool Options::parse(const Arguments& args) {
  std::size_t position = 0;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (arg == kHelpFlag || arg == "-h") {
      std::fputs(help().c_str(), stdout);
      return false;
    }
    if (arg.size() < 2 || arg[0] != '-') {
      if (position == arguments_.size()) {
        fail("`" + command_ + "` does not know what to do with \"" + arg + "\".");
      }
      *arguments_[position++].value = arg;
      continue;
    }
    const std::size_t equals = arg.find('=');
    const Option& option = find(arg.substr(0, equals));
    given_.insert(option.name);
    if (bool* const* on = std::get_if<bool*>(&option.value)) {
      if (equals != std::string::npos) fail(option.name + " takes no value.");
      **on = true;
    } else if (equals != std::string::npos) {
      set(option, arg.substr(equals + 1));
    } else if (++i < args.size()) {
      set(option, args[i]);
    } else {
      fail(option.name + " needs a value: " + option.name + " " + option.placeholder + ".");
    }
  }
  if (position < arguments_.size() && arguments_[position].required) {
    fail("`" + command_ + "` needs " + arguments_[position].name + ": " +
         arguments_[position].help + ".");
  }
  return true;
}

nlohmann::ordered_json Options::settings() const {
  nlohmann::ordered_json values = nlohmann::ordered_json::object();
  for (const Option& option : options_) {
    if (option.is_setting) values[key_of(option.name)] = json_of(option.value);
  }
  return values;
}

void Options::restore(const nlohmann::ordered_json& kept, const std::string& source,
                      const std::set<std::string>& free) {
  for (const Option& option : options_) {
    const std::string key = key_of(option.name);
    if (!option.is_setting || !kept.contains(key)) continue;
    const nlohmann::ordered_json asked = json_of(option.value);
    if (asked == kept[key]) continue;
    if (given(option.name)) {
      if (free.count(option.name)) continue;
      fail(option.name + " " + text_of(asked) + " contradicts " + source +
           ", which was made with " + option.name + " " + text_of(kept[key]) +
           ". Leave it out, or begin anew.");
    }
    const std::string wanted = try_set(option, text_of(kept[key]));
    if (!wanted.empty()) {
      throw IoError(source + ": the setting " + key + " is " + kept[key].dump() + ", not " +
                    wanted + ".");
    }
  }
}

std::string Options::help() const {
  std::string text = "usage: " + command_;
  std::size_t width = std::string_view(kHelpFlag).size();
  for (const Argument& argument : arguments_) {
    text += argument.required ? " " + argument.name : " [" + argument.name + "]";
    width = std::max(width, argument.name.size());
  }
  text += " [OPTIONS]\n\n" + about_ + "\n\n";

  const auto left = [](const Option& option) {
    return option.name + (option.placeholder.empty() ? "" : " " + option.placeholder);
  };
  for (const Option& option : options_) width = std::max(width, left(option).size());
  for (const Argument& argument : arguments_) {
    text += help_row(argument.name, width, argument.help);
  }
  for (const Option& option : options_) {
    const std::string value = default_text(option.value);
    text += help_row(left(option), width,
                     option.help + (value.empty() ? "" : " (default " + value + ")"));
  }
  text += help_row(kHelpFlag, width, "this text");

  if (!examples_.empty()) text += "\nExamples:\n";
  for (const Example& example : examples_) {
    text += "  " + example.line + "\n      " + example.meaning + "\n";
  }
  return text;
}

std::string closest(std::string_view typed, const std::vector<std::string>& names) {
  std::string best;
  std::size_t least = typed.size() / 3 + 2;  // a third of it wrong, and one more
  for (const std::string& name : names) {
    const std::size_t distance = edit_distance(typed, name);
    if (distance < least) {
      least = distance;
      best = name;
    }
  }
  return best;
}

std::string help_row(const std::string& name, std::size_t width, const std::string& text) {
  std::string row = "  " + name + std::string(width - std::min(width, name.size()), ' ') + "  ";
  // Lines after the first stand under the first.
  const std::string indent(row.size(), ' ');
  for (const char c : text) {
    row += c;
    if (c == '\n') row += indent;
  }
  return row + "\n";
}

}  // namespace tensorgrad::cli
