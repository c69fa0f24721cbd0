// Where the values of a tape lie: in the memory they are stored to, or in a register.
#pragma once

#include "codegen/cpu/layout.hpp"

namespace tensorgrad::cpu {

/// Whether two bindings of a kernel share memory.
bool overlap(const Kernel& kernel, int a, int b);

/// A value that is stored as it lies is computed in its place at once, instead of copied there.
void forward_stores(const Kernel& kernel, Tape& tape);

/// Gives the registers their places, which they share where they do not live at one time. Returns
/// how many have the size of a tile.
int place_registers(const Layout& layout, Tape& tape);

}  // namespace tensorgrad::cpu
