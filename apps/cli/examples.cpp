#include <algorithm>

#include "example.hpp"

namespace tensorgrad::cli {

const std::vector<Example>& examples() {
  static const std::vector<Example> table = {
      {"addition", "a small transformer learns to add two-digit numbers", train_addition,
       compile_addition},
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

void add_train_options(Options& options, TrainOptions& train) {
  options
      .option("--device", "NAME", "where to train: best, webgpu, cpu, reference or null",
              &train.device)
      .option("--steps", "N", "steps to train", &train.steps)
      .option("--batch", "N", "examples a step", &train.batch)
      .option("--lr", "RATE", "the highest learning rate", &train.lr)
      .option("--seed", "N", "of first parameters and data; equal seeds give equal losses",
              &train.seed)
      .option("--log", "FILE", "write every loss as a line of JSON", &train.log)
      .flag("--find-nonfinite",
            "if a loss is no number, take the last steps again and name the op that made it so;\n"
            "keeps a copy of all parameters every 16 steps for that",
            &train.find_nonfinite);
}

}  // namespace tensorgrad::cli
