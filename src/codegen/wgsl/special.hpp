// What the generators of special kernels share.
#pragma once

#include <string>
#include <vector>

#include "codegen/wgsl/module.hpp"

namespace tensorgrad::wgsl {

/// The element of an operand at an index, one u32 expression (a name, or in brackets) an axis.
std::string element(const Module& module, const StridedOperand& operand,
                    const std::vector<std::string>& index);

}  // namespace tensorgrad::wgsl
