// Loaded by the dynamic linker (LD_AUDIT) into a program under test: hides every library of this
// system but those of the C library and those below the folders in BARE_SYSTEM_KEEP, separated by
// colons. So a program runs as where nothing else is installed, without root and without a chroot.
#include <link.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

constexpr const char* kCLibrary[] = {"ld-linux-x86-64.so.2", "libc.so.6",       "libm.so.6",
                                     "libdl.so.2",           "libpthread.so.0", "librt.so.1"};

bool is_of_the_c_library(const char* path) {
  const char* slash = std::strrchr(path, '/');
  for (const char* name : kCLibrary) {
    if (std::strcmp(slash + 1, name) == 0) return true;
  }
  return false;
}

bool is_kept(const char* path) {
  const char* folder = std::getenv("BARE_SYSTEM_KEEP");
  while (folder != nullptr && *folder != '\0') {
    const std::size_t length = std::strcspn(folder, ":");
    if (std::strncmp(path, folder, length) == 0) return true;
    folder += length + (folder[length] == ':');
  }
  return false;
}

}  // namespace

extern "C" {

unsigned int la_version(unsigned int) { return LAV_CURRENT; }

// Asked for each place that a library may be in; null says that it is not there.
char* la_objsearch(const char* name, std::uintptr_t*, unsigned int) {
  const bool is_path = std::strchr(name, '/') != nullptr;
  const bool visible = !is_path || is_of_the_c_library(name) || is_kept(name);
  return visible ? const_cast<char*>(name) : nullptr;
}

}  // extern "C"
