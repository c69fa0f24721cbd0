#include <algorithm>

#include "example.hpp"

namespace tensorgrad::cli {

const std::vector<Example>& examples() {
  static const std::vector<Example> table = {
      {"addition", "a small transformer learns to add two-digit numbers", train_addition,
       compile_addition},
      {"chars", "a language model learns a text, character by character", train_chars,
       compile_chars},
      {"mnist", "a small convolutional network learns handwritten digits", train_mnist,
       compile_mnist},
      {"sin", "a small MLP learns the sine", train_sin, compile_sin},
  };
  return table;
}

const Example& find_example(const std::string& name) {
  std::string known;
  std::vector<std::string> names;
  for (const Example& example : examples()) {
    if (example.name == name) return example;
    known += (known.empty() ? "" : ", ") + example.name;
    names.push_back(example.name);
  }
  const std::string near = closest(name, names);
  throw UsageError("There is no example named \"" + name + "\"" +
                   (near.empty() ? "; there are: " + known + "." : "; did you mean " + near + "?"));
}

std::string list_examples() {
  std::size_t width = 0;
  for (const Example& example : examples()) width = std::max(width, example.name.size());
  std::string text;
  for (const Example& example : examples()) text += help_row(example.name, width, example.summary);
  return text;
}

}  // namespace tensorgrad::cli
