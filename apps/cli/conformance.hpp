// `tensorgrad conformance`: runs reference values made elsewhere (op cases, training trajectories,
// models) on a device and compares.
#pragma once

#include <string>
#include <vector>

/// `args` are the words after `conformance`. Gives the exit status: 0 if every case passed, 1 if
/// one failed, 2 if nothing could be run (wrong arguments, no such device or folder, no case).
int run_conformance(const std::vector<std::string>& args);
