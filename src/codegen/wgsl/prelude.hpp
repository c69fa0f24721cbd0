// WGSL functions of our own, where the built-in ones are too loose (sin is off by 2e-4, tanh is NaN
// from 88) or leave open what the graph's semantics state (NaN, division by zero).
//
// Errors are in units in the last place (ulp) of results that are normal numbers, measured on
// SwiftShader over wide ranges; tests/webgpu/prelude_test.cpp holds them. Results below 2^-126 may
// be 0. Nothing here needs a fused multiply-add or is spoiled by one, and nothing relies on a
// compiler that keeps (a + b) - a: there are compilers that do not.
#pragma once

#include <set>
#include <span>
#include <string>

namespace tensorgrad::wgsl {

struct PreludeFunction {
  const char* name;   ///< `tg_exp`
  const char* needs;  ///< the other prelude functions it calls, separated by spaces
  const char* source;
};

/// All of them, each after those it needs.
std::span<const PreludeFunction> prelude();

/// The functions of these names and what they need, in the prelude's order.
std::string prelude_source(const std::set<std::string>& names);

}  // namespace tensorgrad::wgsl
