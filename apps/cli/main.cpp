// The program `tensorgrad`: a table of commands, and what becomes of errors.
#include <cstdio>
#include <exception>
#include <new>
#include <stdexcept>

#include "commands.hpp"
#include "conformance.hpp"

namespace tensorgrad::cli {

namespace {

struct Command {
  std::string name;
  const char* summary;
  int (*run)(const Arguments& args);
};

const std::vector<Command>& commands() {
  static const std::vector<Command> table = {
      {"train", "train an example: addition, chars, mnist, sin", run_train},
      {"generate", "continue tokens with a published language model", run_generate},
      {"inspect", "show and draw the parts of an example, or what is in a checkpoint", run_inspect},
      {"compare", "find the first op that two devices compute differently", run_compare},
      {"devices", "list what programs can run on here", run_devices},
      {"bench", "measure named workloads", run_bench},
      {"conformance", "compare a device with reference values", run_conformance},
      {"version", "print the version", run_version},
  };
  return table;
}

std::string help() {
  std::string text =
      "usage: tensorgrad COMMAND [OPTIONS]\n\n"
      "Trains and runs neural networks on any GPU through WebGPU, and on the CPU.\n\n";
  for (const Command& command : commands()) text += help_row(command.name, 11, command.summary);
  return text +
         "\nEach command has its own help: `tensorgrad train --help`. To begin with:\n\n"
         "  tensorgrad train addition\n"
         "      teaches a small transformer to add, in about a minute\n"
         "  tensorgrad inspect sin\n"
         "      shows what the compiler makes of a small program\n";
}

int run(const Arguments& args) {
  if (args.empty()) {
    std::fputs(help().c_str(), stderr);
    return 2;
  }
  std::string name = args[0];
  Arguments rest(args.begin() + 1, args.end());
  if (name == "help" && !rest.empty()) {  // `help train sin` is `train sin --help`
    name = rest[0];
    rest.erase(rest.begin());
    rest.push_back("--help");
  }
  if (name == "--help" || name == "-h" || name == "help") {
    std::fputs(help().c_str(), stdout);
    return 0;
  }
  if (name == "--version") name = "version";
  std::vector<std::string> names;
  for (const Command& command : commands()) {
    if (command.name == name) return command.run(rest);
    names.push_back(command.name);
  }
  const std::string near = closest(name, names);
  throw UsageError("There is no command \"" + name + "\"" +
                   (near.empty() ? "." : "; did you mean " + near + "?") +
                   " See `tensorgrad --help`.");
}

}  // namespace

}  // namespace tensorgrad::cli

namespace {

int fail(const char* what, int status) {
  std::fflush(stdout);
  std::fprintf(stderr, "tensorgrad: %s\n", what);
  return status;
}

constexpr const char* kTooLarge =
    "There is not enough memory for this. Try a smaller --batch, or a smaller model.";

}  // namespace

int main(int argc, char** argv) {
  try {
    return tensorgrad::cli::run({argv + 1, argv + argc});
  } catch (const tensorgrad::cli::UsageError& error) {
    return fail(error.what(), 2);
  } catch (const std::bad_alloc&) {
    return fail(kTooLarge, 1);
  } catch (const std::length_error&) {
    return fail(kTooLarge, 1);
  } catch (const std::exception& error) {
    return fail(error.what(), 1);
  }
}
