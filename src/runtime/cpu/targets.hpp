// Which vector units the kernels are compiled for, and which of them this machine runs.
//
// Highway compiles a file once for each unit (foreach_target.h). The choice at run time is made
// here and not by Highway: its own needs libhwy, which every program that uses tensorgrad would
// have to find and ship. So Highway is headers only. Included before any of those headers.
#pragma once

// SSSE3 machines take the baseline's code: they are too few to compile everything once more.
#ifdef TENSORGRAD_FEW_VECTOR_UNITS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3)
#else
#define HWY_DISABLED_TARGETS HWY_SSSE3
#endif
#if defined(__EMSCRIPTEN__)
#define HWY_COMPILE_ONLY_EMU128  // Highway 1.0 has no doubles in WebAssembly's vectors
#elif !defined(__x86_64__) && !defined(__i386__)
#define HWY_COMPILE_ONLY_STATIC  // one unit, that of the compiler's flags
#endif

#include <cstdint>
#include <initializer_list>

#include "hwy/targets.h"

namespace tensorgrad::cpu {

/// The units of this machine among those compiled for, as Highway's bits: HWY_AVX2 | HWY_SSE4 …
std::int64_t machine_targets();

/// A function as compiled for one unit; null if it was not.
template <class Function>
struct Variant {
  std::int64_t target;
  Function function;
};

/// The first that is among the targets. The baseline, which comes last, always is.
template <class Function>
Function choose_variant(std::int64_t targets, std::initializer_list<Variant<Function>> variants) {
  Function baseline = nullptr;
  for (const auto& [target, function] : variants) {
    if (function == nullptr) continue;
    if ((target & targets) != 0) return function;
    baseline = function;
  }
  return baseline;
}

/// The best variant of a function that was compiled for every unit, where HWY_ONCE is set.
#define TENSORGRAD_BEST_VARIANT(targets, function)                             \
  ::tensorgrad::cpu::choose_variant<decltype(&HWY_STATIC_DISPATCH(function))>( \
      targets, {{HWY_AVX3, HWY_CHOOSE_AVX3(function)},                         \
                {HWY_AVX2, HWY_CHOOSE_AVX2(function)},                         \
                {HWY_SSE4, HWY_CHOOSE_SSE4(function)},                         \
                {HWY_STATIC_TARGET, &HWY_STATIC_DISPATCH(function)}})

}  // namespace tensorgrad::cpu
