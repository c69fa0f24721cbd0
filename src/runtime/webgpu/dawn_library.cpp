#include "runtime/webgpu/dawn_library.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <system_error>
#include <vector>

#include "tensorgrad/error.hpp"

namespace tensorgrad::webgpu {
namespace {

namespace fs = std::filesystem;

#if defined(__APPLE__)
constexpr const char* kDawnNames[] = {"libwebgpu_dawn.dylib", "libwebgpu_wrapper.dylib"};
#else
constexpr const char* kDawnNames[] = {"libwebgpu_dawn.so", "libwebgpu_wrapper.so"};
constexpr const char* kVulkanName = "libvulkan.so.1";
#endif

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

/// The file that holds a symbol of a loaded library; empty if the linker does not know.
std::string file_of(const void* symbol) {
  Dl_info info{};
  return dladdr(symbol, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : std::string();
}

void add_folder(std::vector<fs::path>& folders, const fs::path& folder) {
  if (folder.empty()) return;
  for (const fs::path& known : folders) {
    if (known == folder) return;
  }
  folders.push_back(folder);
}

/// Where Dawn may be: beside this library or the program (in a folder of builds), or in
/// `lib/tensorgrad` of where they are installed.
std::vector<fs::path> own_folders() {
  std::error_code ignored;
  static const char inside_this_library = 0;
  const fs::path library = fs::weakly_canonical(file_of(&inside_this_library), ignored);
  fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  if (program.empty()) program = library;  // there is no /proc

  std::vector<fs::path> folders;
  const fs::path bin = program.parent_path();
  add_folder(folders, library.parent_path());
  if (library != program) add_folder(folders, library.parent_path() / "tensorgrad");
  add_folder(folders, bin);
  add_folder(folders, bin.parent_path() / TENSORGRAD_LIBRARY_FOLDER / "tensorgrad");
  return folders;
}

/// Fills the table, or says which function is not there.
std::string resolve(void* handle, DawnFunctions& functions) {
#define TENSORGRAD_DAWN_RESOLVE(name, symbol, ...)                                            \
  functions.name =                                                                            \
      reinterpret_cast<std::add_pointer_t<dawn::name##_type>>(dlsym(handle, "wgpu" #symbol)); \
  if (functions.name == nullptr) return "the library lacks wgpu" #symbol;
  TENSORGRAD_DAWN_FUNCTIONS(TENSORGRAD_DAWN_RESOLVE)
#undef TENSORGRAD_DAWN_RESOLVE
  // Later Dawns renumber the features and change the instance's descriptor; this is their mark.
  if (dlsym(handle, "wgpuGetInstanceFeatures") != nullptr) {
    return "the library is a later Dawn than this tensorgrad was made for "
           "(it has wgpuGetInstanceFeatures)";
  }
  return {};
}

/// dlopen, also where Dawn's own needs are not installed and lie beside it.
void* open_library(const fs::path& file) {
  if (void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
#if defined(__linux__)
  if (!file.has_parent_path()) return nullptr;
  for (const char* name : {"libgcc_s.so.1", "libstdc++.so.6"}) {
    if (dlopen(name, RTLD_NOW | RTLD_LOCAL) != nullptr) continue;
    dlopen((file.parent_path() / name).c_str(), RTLD_NOW | RTLD_LOCAL);
  }
#endif
  return dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
}

/// Every library that was loaded, by the name it was asked for; never unloaded.
struct Loaded {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<DawnLibrary>> libraries;
};

Loaded& loaded() {
  static Loaded* all = new Loaded;  // outlives static destructors that may still use a device
  return *all;
}

/// Loads one candidate. Null if there is no such file; throws if it is there and is no good.
const DawnLibrary* try_load(const std::string& name, std::string& why) {
  Loaded& all = loaded();
  const std::lock_guard lock(all.mutex);
  if (const auto found = all.libraries.find(name); found != all.libraries.end()) {
    return found->second.get();
  }
  void* handle = open_library(name);
  if (handle == nullptr) {
    const char* message = dlerror();
    why = message == nullptr ? "it cannot be loaded" : message;
    return nullptr;
  }
  auto library = std::make_unique<DawnLibrary>();
  if (std::string problem = resolve(handle, library->functions); !problem.empty()) {
    dlclose(handle);
    throw DeviceError("webgpu: " + name + ": " + problem + ".");
  }
  library->path = file_of(reinterpret_cast<const void*>(library->functions.create_instance));
  if (library->path.empty()) library->path = name;
  return (all.libraries[name] = std::move(library)).get();
}

}  // namespace

const DawnLibrary& load_dawn() {
  std::string why;
  if (const std::string chosen = environment("TENSORGRAD_DAWN"); !chosen.empty()) {
    if (const DawnLibrary* library = try_load(chosen, why)) return *library;
    throw DeviceError("webgpu: no library: TENSORGRAD_DAWN is \"" + chosen + "\": " + why + ".");
  }

  std::vector<fs::path> files;
  for (const fs::path& folder : own_folders()) {
    for (const char* name : kDawnNames) files.push_back(folder / name);
  }
#ifdef TENSORGRAD_DAWN_DEFAULT_PATH
  files.emplace_back(TENSORGRAD_DAWN_DEFAULT_PATH);
#endif

  std::string looked_in;
  for (const fs::path& file : files) {
    looked_in += (looked_in.empty() ? "" : ", ") + file.string();
    std::error_code ignored;
    if (!fs::exists(file, ignored)) continue;
    if (const DawnLibrary* library = try_load(file.string(), why)) return *library;
    looked_in += " (" + why + ")";
  }
  for (const char* name : kDawnNames) {
    if (const DawnLibrary* library = try_load(name, why)) return *library;
  }
  throw DeviceError("webgpu: no library: looked in " + looked_in + ", and for " + kDawnNames[0] +
                    " and " + kDawnNames[1] +
                    " in the system's folders. TENSORGRAD_DAWN may name its path.");
}

#if defined(__linux__)

namespace {

/// Vulkan's loader, from the system or beside Dawn or the program. Once it is in the process, Dawn
/// finds it by its name wherever it came from.
void* vulkan_loader(const DawnLibrary& library) {
  if (void* handle = dlopen(kVulkanName, RTLD_NOW | RTLD_LOCAL)) return handle;
  std::vector<fs::path> folders{fs::path(library.path).parent_path()};
  for (const fs::path& folder : own_folders()) folders.push_back(folder);
  for (const fs::path& folder : folders) {
    const std::string file = (folder / kVulkanName).string();
    if (void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  }
  return nullptr;
}

/// The little of Vulkan that asks whether any driver is there.
struct VulkanInstanceInfo {
  std::uint32_t type = 1;  // VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO
  const void* next = nullptr;
  std::uint32_t flags = 0;
  const void* application = nullptr;
  std::uint32_t layer_count = 0;
  const char* const* layers = nullptr;
  std::uint32_t extension_count = 0;
  const char* const* extensions = nullptr;
};
using CreateInstance = std::int32_t(const VulkanInstanceInfo*, const void*, void**);
using EnumerateDevices = std::int32_t(void*, std::uint32_t*, void**);

std::string driver_problem(void* loader) {
  const auto create = reinterpret_cast<CreateInstance*>(dlsym(loader, "vkCreateInstance"));
  const auto enumerate =
      reinterpret_cast<EnumerateDevices*>(dlsym(loader, "vkEnumeratePhysicalDevices"));
  if (create == nullptr || enumerate == nullptr) {
    return "no Vulkan loader: libvulkan.so.1 lacks vkCreateInstance or what goes with it";
  }
  // The instance is kept for good: with the last one gone, the loader would unload the driver, and
  // load it again for every device that is opened.
  static void* instance = nullptr;
  const VulkanInstanceInfo info;
  std::uint32_t devices = 0;
  const bool created = instance != nullptr || create(&info, nullptr, &instance) == 0;
  if (created && enumerate(instance, &devices, nullptr) == 0 && devices > 0) return {};

  std::string reason = "no adapter: Vulkan's loader finds no driver with a device";
  bool listed = false;
  for (const char* name : {"VK_DRIVER_FILES", "VK_ICD_FILENAMES"}) {
    const std::string value = environment(name);
    if (value.empty()) continue;
    listed = true;
    std::error_code ignored;
    const bool missing = value.find(':') == std::string::npos && !fs::exists(value, ignored);
    reason += std::string("; ") + name + " is \"" + value + "\"";
    if (missing) reason += ", a file that does not exist";
  }
  if (!listed) reason += "; install the GPU's Vulkan driver, or name its file in VK_ICD_FILENAMES";
  return reason;
}

}  // namespace

std::string vulkan_problem(const DawnLibrary& library) {
  static std::mutex mutex;
  static bool found = false;  // only success is remembered: the environment may change
  const std::lock_guard lock(mutex);
  if (found) return {};
  static void* loader = nullptr;
  if (loader == nullptr) loader = vulkan_loader(library);
  if (loader == nullptr) return "no Vulkan loader: libvulkan.so.1 is not installed";
  std::string problem = driver_problem(loader);
  found = problem.empty();
  return problem;
}

#else

std::string vulkan_problem(const DawnLibrary&) { return {}; }  // Dawn uses Metal there

#endif

}  // namespace tensorgrad::webgpu
