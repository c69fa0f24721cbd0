// Linked into every program of a sanitizer build: defaults that environment variables can override.
// Graphics drivers, Dawn and OpenMP are not built with the sanitizers: what they keep until the
// process ends is no leak of ours, and their locks are invisible to the thread sanitizer.

// clang-format off
#define LIBRARIES_OF_OTHERS(KIND) \
  KIND ":libwebgpu_wrapper.so\n"  \
  KIND ":libvk_swiftshader.so\n"  \
  KIND ":libvulkan.so\n"          \
  KIND ":libnvidia-\n"            \
  KIND ":libgomp.so\n"            \
  KIND ":libdnnl.so\n"
// clang-format on

extern "C" {

const char* __asan_default_options() { return "detect_stack_use_after_return=1"; }

const char* __ubsan_default_options() { return "print_stacktrace=1"; }

const char* __lsan_default_options() { return "print_suppressions=0"; }

const char* __lsan_default_suppressions() { return LIBRARIES_OF_OTHERS("leak"); }

// Not called_from_lib: it ends the process when a library is unloaded, as SwiftShader is.
const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1"; }

const char* __tsan_default_suppressions() {
  return LIBRARIES_OF_OTHERS("race") LIBRARIES_OF_OTHERS("thread") LIBRARIES_OF_OTHERS("mutex");
}

}  // extern "C"
