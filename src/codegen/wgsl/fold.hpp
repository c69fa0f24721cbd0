// What a reduction starts from and how it joins two values, as WGSL.
#pragma once

#include <set>
#include <string>

#include "tensorgrad/kernel.hpp"

namespace tensorgrad::wgsl {

/// `sum`, `argmax`
const char* reduce_name(ReduceKind kind);

/// Whether the reduction gives a position; it then keeps a value and its position as it goes.
bool is_arg(ReduceKind kind);

/// The value of an empty row.
std::string start_of(ReduceKind kind, DType dtype, std::set<std::string>& prelude);

/// Two values as one; not for positions.
std::string joined(ReduceKind kind, DType dtype, const std::string& a, const std::string& b,
                   std::set<std::string>& prelude);

/// The prelude's function that says whether one value with its position goes before another.
std::string first_function(ReduceKind kind, DType dtype, std::set<std::string>& prelude);

}  // namespace tensorgrad::wgsl
