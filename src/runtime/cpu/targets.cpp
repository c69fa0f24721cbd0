#include "runtime/cpu/targets.hpp"

namespace tensorgrad::cpu {
namespace {

std::int64_t detect() {
  std::int64_t targets = HWY_STATIC_TARGET;
#if HWY_ARCH_X86
  // The features that Highway compiles each unit with. F16C is not asked for: every machine with
  // the others has it, and Clang 14 cannot ask.
  __builtin_cpu_init();
  const bool sse4 = __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.1") &&
                    __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("aes") &&
                    __builtin_cpu_supports("pclmul");
  const bool avx2 = sse4 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool avx3 = avx2 && __builtin_cpu_supports("avx512f") &&
                    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512bw");
  if (sse4) targets |= HWY_SSE4;
  if (avx2) targets |= HWY_AVX2;
  if (avx3) targets |= HWY_AVX3;
#endif
  return targets & HWY_TARGETS;
}

}  // namespace

std::int64_t machine_targets() {
  static const std::int64_t targets = detect();
  return targets;
}

}  // namespace tensorgrad::cpu
