// The commands, one file each. Each takes the words after its name and gives the exit status.
#pragma once

#include "options.hpp"

namespace tensorgrad::cli {

int run_train(const Arguments& args);
int run_generate(const Arguments& args);
int run_devices(const Arguments& args);
int run_inspect(const Arguments& args);
int run_compare(const Arguments& args);
int run_version(const Arguments& args);
int run_bench(const Arguments& args);

}  // namespace tensorgrad::cli
