// `tensorgrad train EXAMPLE`: finds the example and hands it the rest of the words.
#include <cstdio>

#include "commands.hpp"
#include "example.hpp"

namespace tensorgrad::cli {

int run_train(const Arguments& args) {
  if (args.empty()) {
    throw UsageError("`tensorgrad train` needs the name of an example:\n" + list_examples() +
                     "See `tensorgrad train --help`.");
  }
  if (args[0] == "--help" || args[0] == "-h") {
    std::printf(
        "usage: tensorgrad train EXAMPLE [OPTIONS]\n\n"
        "Trains one of the examples, with its progress, the curve of the loss and a look at\n"
        "what was learned. Each has its own help: `tensorgrad train addition --help`.\n\n%s",
        list_examples().c_str());
    return 0;
  }
  if (args[0][0] == '-') {
    throw UsageError(
        "The name of an example comes before the options: `tensorgrad train addition " + args[0] +
        " …`.");
  }
  return find_example(args[0]).train({args.begin() + 1, args.end()});
}

}  // namespace tensorgrad::cli
