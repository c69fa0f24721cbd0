// From nothing to a working device: the library, an adapter, its limits and features, the device,
// and the self-test.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "runtime/webgpu/context.hpp"
#include "runtime/webgpu/self_test.hpp"
#include "tensorgrad/error.hpp"

namespace tensorgrad::webgpu {
namespace {

constexpr dawn::PowerPreference kPreferences[] = {dawn::PowerPreference::High,
                                                  dawn::PowerPreference::Low};

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool contains(const std::string& text, const std::string& part) {
  return lower(text).find(lower(part)) != std::string::npos;
}

const char* name_of(dawn::BackendType backend) {
  switch (backend) {
    case dawn::BackendType::Undefined:
      return "undefined";
    case dawn::BackendType::Null:
      return "null";
    case dawn::BackendType::WebGpu:
      return "WebGPU";
    case dawn::BackendType::D3D11:
      return "D3D11";
    case dawn::BackendType::D3D12:
      return "D3D12";
    case dawn::BackendType::Metal:
      return "Metal";
    case dawn::BackendType::Vulkan:
      return "Vulkan";
    case dawn::BackendType::OpenGL:
      return "OpenGL";
    case dawn::BackendType::OpenGLES:
      return "OpenGL ES";
  }
  return "unknown";
}

struct FoundAdapter {
  dawn::Adapter adapter = nullptr;
  std::string message;
};

/// Asks Dawn for an adapter; null, with Dawn's words, if there is none that computes.
FoundAdapter request_adapter(Context& context, dawn::PowerPreference power) {
  const auto pending = std::make_shared<Pending<FoundAdapter>>();
  dawn::AdapterOptions options;
  options.power = power;
  dawn::CallbackInfo<dawn::AdapterCallback> callback;
  callback.callback = [](dawn::RequestStatus, dawn::Adapter adapter, dawn::StringView message,
                         void* user, void*) {
    Pending<FoundAdapter>::finish(user, {adapter, std::string(message.view())});
  };
  callback.user1 = Pending<FoundAdapter>::share(pending);
  context.api.instance_request_adapter(context.instance, &options, callback);
  context.wait_until([&] { return pending->done; });
  return pending->value;
}

AdapterInfo describe(const Context& context, dawn::Adapter adapter, dawn::BackendType& backend) {
  dawn::AdapterInfo raw;
  AdapterInfo info;
  if (context.api.adapter_get_info(adapter, &raw) != dawn::Status::Success) return info;
  info.name = raw.device.view();
  info.vendor = raw.vendor.view();
  info.driver = raw.description.view();
  info.backend = name_of(raw.backend);
  info.vendor_id = raw.vendor_id;
  info.device_id = raw.device_id;
  info.subgroup_min_size = raw.subgroup_min_size;
  info.subgroup_max_size = raw.subgroup_max_size;
  info.is_software = raw.type == dawn::AdapterType::Cpu || contains(info.name, "swiftshader") ||
                     contains(info.name, "llvmpipe");
  backend = raw.backend;
  context.api.adapter_info_free_members(raw);
  return info;
}

/// Calls `use(adapter, info)` with each adapter until it takes one, and returns the reason if there
/// was none to offer. Where no driver is, Dawn offers its null backend, which computes nothing.
template <class Use>
std::string offer_adapters(Context& context, Use use) {
  if (std::string problem = vulkan_problem(context.library); !problem.empty()) return problem;
  std::string message;
  bool offered = false;
  for (const dawn::PowerPreference power : kPreferences) {
    const FoundAdapter found = request_adapter(context, power);
    if (found.adapter == nullptr) {
      message = found.message;
      continue;
    }
    dawn::BackendType backend{};
    const AdapterInfo info = describe(context, found.adapter, backend);
    if (backend == dawn::BackendType::Null) {
      context.api.adapter_release(found.adapter);
      continue;
    }
    offered = true;
    if (use(found.adapter, info)) return {};
    context.api.adapter_release(found.adapter);
  }
  if (offered) return {};
  const std::string logged = context.reports.logged();
  return "no adapter: Dawn accepts none of this machine's GPUs" +
         (message.empty() ? "" : ": " + message) + (logged.empty() ? "" : ": " + logged);
}

void choose_adapter(Context& context, const std::string& wanted) {
  std::vector<std::string> others;
  const std::string reason =
      offer_adapters(context, [&](dawn::Adapter adapter, const AdapterInfo& info) {
        if (!contains(info.name, wanted)) {
          if (std::find(others.begin(), others.end(), info.name) == others.end()) {
            others.push_back(info.name);
          }
          return false;
        }
        context.adapter = adapter;
        context.info = info;
        return true;
      });
  if (context.adapter != nullptr) return;
  if (!reason.empty()) throw DeviceError("webgpu: " + reason + ".");
  std::string list;
  for (const std::string& name : others) list += (list.empty() ? "" : ", ") + name;
  throw DeviceError("webgpu: no adapter has \"" + wanted + "\" in its name; there is: " + list +
                    ".");
}

/// Asks for all the compute limits that the adapter has, and leaves the rest at the default.
dawn::Limits wanted_limits(const dawn::Limits& offered) {
  dawn::Limits wanted;
  std::memset(&wanted, 0xff, sizeof wanted);  // all bits set: "the default"
  wanted.next = nullptr;
  wanted.bindings_per_bind_group = offered.bindings_per_bind_group;
  wanted.storage_buffers_per_stage = offered.storage_buffers_per_stage;
  wanted.uniform_buffers_per_stage = offered.uniform_buffers_per_stage;
  wanted.uniform_binding_bytes = offered.uniform_binding_bytes;
  wanted.storage_binding_bytes = offered.storage_binding_bytes;
  wanted.uniform_offset_alignment = offered.uniform_offset_alignment;
  wanted.storage_offset_alignment = offered.storage_offset_alignment;
  wanted.buffer_bytes = offered.buffer_bytes;
  wanted.workgroup_storage_bytes = offered.workgroup_storage_bytes;
  wanted.invocations_per_workgroup = offered.invocations_per_workgroup;
  std::copy_n(offered.workgroup_size, 3, wanted.workgroup_size);
  wanted.workgroups_per_dimension = offered.workgroups_per_dimension;
  return wanted;
}

GpuLimits limits_from(const dawn::Limits& raw) {
  GpuLimits limits;
  limits.buffer_bytes = raw.buffer_bytes;
  limits.storage_binding_bytes = raw.storage_binding_bytes;
  limits.uniform_binding_bytes = raw.uniform_binding_bytes;
  limits.storage_buffers_per_stage = raw.storage_buffers_per_stage;
  limits.uniform_buffers_per_stage = raw.uniform_buffers_per_stage;
  limits.bindings_per_bind_group = raw.bindings_per_bind_group;
  limits.storage_offset_alignment = raw.storage_offset_alignment;
  limits.uniform_offset_alignment = raw.uniform_offset_alignment;
  limits.workgroup_storage_bytes = raw.workgroup_storage_bytes;
  limits.invocations_per_workgroup = raw.invocations_per_workgroup;
  std::copy_n(raw.workgroup_size, 3, limits.workgroup_size.begin());
  limits.workgroups_per_dimension = raw.workgroups_per_dimension;
  return limits;
}

// Dawn calls these from its own threads and cannot take an exception.
std::size_t cache_load(const void* key, std::size_t key_bytes, void* value, std::size_t value_bytes,
                       void* user) noexcept {
  try {
    return static_cast<DiskCache*>(user)->load({static_cast<const char*>(key), key_bytes}, value,
                                               value_bytes);
  } catch (...) {
    return 0;
  }
}

void cache_store(const void* key, std::size_t key_bytes, const void* value, std::size_t value_bytes,
                 void* user) noexcept {
  try {
    static_cast<DiskCache*>(user)->store({static_cast<const char*>(key), key_bytes},
                                         {static_cast<const char*>(value), value_bytes});
  } catch (...) {
  }
}

void create_device(Context& context) {
  const DawnFunctions& api = context.api;
  dawn::Limits offered{};
  if (api.adapter_get_limits(context.adapter, &offered) != dawn::Status::Success) {
    throw DeviceError("webgpu: \"" + context.info.name + "\" does not tell its limits.");
  }
  check_limits(offered);
  const dawn::Limits wanted = wanted_limits(offered);

  std::vector<dawn::Feature> features;
  for (const dawn::Feature feature :
       {dawn::Feature::Subgroups, dawn::Feature::TimestampQuery, dawn::Feature::ShaderF16}) {
    if (api.adapter_has_feature(context.adapter, feature) != 0) features.push_back(feature);
  }

  // Kernels are right by themselves, so the clamps and guards that a browser needs are left out
  // unless asked for.
  const char* const fast[] = {"disable_robustness", "skip_validation", "disable_workgroup_init"};
  const char* const exact[] = {"timestamp_quantization"};
  dawn::TogglesDescriptor toggles;
  toggles.enabled = fast;
  toggles.enabled_count = context.checked ? 0 : std::size(fast);
  toggles.disabled = exact;
  toggles.disabled_count = std::size(exact);

  dawn::CacheDescriptor cache;
  if (context.cache != nullptr) {
    cache.isolation_key = std::string_view("tensorgrad");
    cache.load = cache_load;
    cache.store = cache_store;
    cache.user = context.cache.get();
    toggles.chain.next = &cache.chain;
  }

  dawn::DeviceDescriptor descriptor;
  descriptor.next = &toggles.chain;
  descriptor.label = std::string_view("tensorgrad");
  descriptor.feature_count = features.size();
  descriptor.features = features.data();
  descriptor.limits = &wanted;
  descriptor.lost.mode = dawn::CallbackMode::Spontaneous;
  descriptor.lost.callback = [](const dawn::Device*, dawn::LostReason, dawn::StringView message,
                                void* user,
                                void*) { static_cast<Reports*>(user)->lost(message.view()); };
  descriptor.lost.user1 = &context.reports;
  descriptor.uncaptured_error.callback = [](const dawn::Device*, dawn::ErrorType,
                                            dawn::StringView message, void* user, void*) {
    static_cast<Reports*>(user)->error(message.view());
  };
  descriptor.uncaptured_error.user1 = &context.reports;

  struct Made {
    dawn::Device device = nullptr;
    std::string message;
  };
  const auto pending = std::make_shared<Pending<Made>>();
  dawn::CallbackInfo<dawn::DeviceCallback> callback;
  callback.callback = [](dawn::RequestStatus, dawn::Device device, dawn::StringView message,
                         void* user, void*) {
    Pending<Made>::finish(user, {device, std::string(message.view())});
  };
  callback.user1 = Pending<Made>::share(pending);
  api.adapter_request_device(context.adapter, &descriptor, callback);
  context.wait_until([&] { return pending->done; });
  context.device = pending->value.device;
  if (context.device == nullptr) {
    throw DeviceError("webgpu: \"" + context.info.name +
                      "\" gives no device: " + pending->value.message + ".");
  }
  context.queue = api.device_get_queue(context.device);

  dawn::Limits granted{};
  api.device_get_limits(context.device, &granted);
  check_limits(granted);
  context.limits = limits_from(granted);
  const auto has = [&](dawn::Feature feature) {
    return api.device_has_feature(context.device, feature) != 0;
  };
  context.features = {.subgroups = has(dawn::Feature::Subgroups),
                      .timestamp_query = has(dawn::Feature::TimestampQuery),
                      .shader_f16 = has(dawn::Feature::ShaderF16)};
}

/// Runs the self-test on a kind of device that has not passed it in this process.
void self_test_once(Gpu& gpu, Context& context) {
  static std::mutex mutex;
  static std::set<std::string> passed;
  const std::string kind = context.library.path + '\n' + context.info.name + '\n' +
                           context.info.driver + (context.checked ? "\nchecked" : "\nfast");
  const std::lock_guard lock(mutex);
  if (passed.contains(kind)) return;
  self_test(gpu);
  passed.insert(kind);
  context.counters = {.staging_bytes = context.counters.staging_bytes};
}

}  // namespace

bool checked_by_default() {
  const char* value = std::getenv("TENSORGRAD_WEBGPU_CHECKED");
  return value != nullptr && *value != '\0' && std::string_view(value) != "0";
}

std::string default_cache_folder() {
  namespace fs = std::filesystem;
  if (const char* chosen = std::getenv("TENSORGRAD_CACHE"))
    return std::string_view(chosen) == "off" ? "" : chosen;
  const auto under = [](const char* variable, const char* folder) -> std::string {
    const char* base = std::getenv(variable);
    return base == nullptr || *base != '/' ? std::string() : (fs::path(base) / folder).string();
  };
  const std::string cache = under("XDG_CACHE_HOME", "tensorgrad");
  return cache.empty() ? under("HOME", ".cache/tensorgrad") : cache;
}

AdapterList list_adapters() {
  AdapterList list;
  constexpr std::string_view kPrefix = "webgpu: ";  // of every DeviceError here
  try {
    Context context(load_dawn());
    list.reason = offer_adapters(context, [&](dawn::Adapter, const AdapterInfo& info) {
      if (std::find(list.adapters.begin(), list.adapters.end(), info) == list.adapters.end()) {
        list.adapters.push_back(info);
      }
      return false;
    });
    if (!list.reason.empty()) list.reason += '.';
  } catch (const DeviceError& error) {
    list.reason = std::string_view(error.what()).substr(kPrefix.size());
  }
  return list;
}

Gpu Gpu::open(const GpuOptions& options) {
  auto context = std::make_shared<Context>(load_dawn());
  context->checked = options.checked;
  choose_adapter(*context, options.adapter);
  if (!options.cache_folder.empty()) {
    context->cache =
        std::make_unique<DiskCache>(std::filesystem::path(options.cache_folder) / "shaders");
  }
  create_device(*context);
  Gpu gpu(context);
  self_test_once(gpu, *context);
  return gpu;
}

}  // namespace tensorgrad::webgpu
