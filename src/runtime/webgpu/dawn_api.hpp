// The part of Dawn's C API that tensorgrad uses, declared by hand: compute only, no textures. It is
// matched to one binary (the Dawn of mid-2025 in the npm package bun-webgpu 0.1.7), which comes
// without a header. The numbers and the order of members are that library's ABI; the names are
// ours. A wrong guess here corrupts memory, so `self_test` (self_test.hpp) runs before a device is
// used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tensorgrad::webgpu::dawn {

// --- Handles: reference-counted objects of Dawn, one opaque type each ---------------------------

using Instance = struct InstanceObject*;
using Adapter = struct AdapterObject*;
using Device = struct DeviceObject*;
using Queue = struct QueueObject*;
using Buffer = struct BufferObject*;
using ShaderModule = struct ShaderModuleObject*;
using BindGroupLayout = struct BindGroupLayoutObject*;
using BindGroup = struct BindGroupObject*;
using PipelineLayout = struct PipelineLayoutObject*;
using ComputePipeline = struct ComputePipelineObject*;
using CommandEncoder = struct CommandEncoderObject*;
using CommandBuffer = struct CommandBufferObject*;
using ComputePass = struct ComputePassObject*;
using QuerySet = struct QuerySetObject*;

// --- Scalars, strings, chains --------------------------------------------------------------------

using Bool = std::uint32_t;

inline constexpr std::size_t kNulTerminated = SIZE_MAX;

/// Text with a length; `kNulTerminated` means "up to the zero byte". Null is Dawn's "no text".
struct StringView {
  const char* data = nullptr;
  std::size_t length = kNulTerminated;

  constexpr StringView() = default;
  constexpr StringView(std::string_view text) : data(text.data()), length(text.size()) {}

  std::string_view view() const {
    if (data == nullptr) return {};
    return length == kNulTerminated ? std::string_view(data) : std::string_view(data, length);
  }
};

/// Which extension struct a `Chain` is the head of.
enum class ChainType : std::uint32_t {
  ShaderSourceWgsl = 0x2,
  InstanceExtras = 0x50006,
  CacheDescriptor = 0x50007,
  TogglesDescriptor = 0x5000A,
};

/// The head of an extension struct; extensions of one descriptor form a linked list.
struct Chain {
  Chain* next = nullptr;
  ChainType type{};
};

struct Future {
  std::uint64_t id = 0;
};

// --- Enumerations --------------------------------------------------------------------------------

enum class Status : std::uint32_t { Success = 1, Error = 2 };
enum class AdapterType : std::uint32_t { Discrete = 1, Integrated = 2, Cpu = 3, Unknown = 4 };
enum class PowerPreference : std::uint32_t { Undefined = 0, Low = 1, High = 2 };
enum class FeatureLevel : std::uint32_t { Undefined = 0, Compatibility = 1, Core = 2 };
enum class CallbackMode : std::uint32_t { WaitAnyOnly = 1, ProcessEvents = 2, Spontaneous = 3 };
enum class RequestStatus : std::uint32_t { Success = 1, Cancelled = 2 };
enum class MapStatus : std::uint32_t { Success = 1, Cancelled = 2, Error = 3, Aborted = 4 };
enum class ErrorFilter : std::uint32_t { Validation = 1, OutOfMemory = 2, Internal = 3 };
enum class LostReason : std::uint32_t { Unknown = 1, Destroyed = 2, Cancelled = 3, NotCreated = 4 };
enum class QueryType : std::uint32_t { Occlusion = 1, Timestamp = 2 };
enum class MessageType : std::uint32_t { Error = 1, Warning = 2, Info = 3 };

enum class BackendType : std::uint32_t {
  Undefined = 0,
  Null = 1,
  WebGpu = 2,
  D3D11 = 3,
  D3D12 = 4,
  Metal = 5,
  Vulkan = 6,
  OpenGL = 7,
  OpenGLES = 8,
};

enum class ErrorType : std::uint32_t {
  None = 1,
  Validation = 2,
  OutOfMemory = 3,
  Internal = 4,
  Unknown = 5,
};

enum class BindingType : std::uint32_t {
  NotUsed = 0,
  Uniform = 2,
  Storage = 3,
  ReadOnlyStorage = 4,
};

/// Numbered as in this library. Later headers number them otherwise, and Dawn switches a wrong
/// feature on without an error, so a library with another numbering is refused (dawn_library.cpp).
enum class Feature : std::uint32_t {
  TimestampQuery = 0x3,
  ShaderF16 = 0xA,
  Subgroups = 0x11,
};

// Flags are 64 bits wide in the ABI.
namespace usage {
inline constexpr std::uint64_t kMapRead = 0x1;
inline constexpr std::uint64_t kCopySource = 0x4;
inline constexpr std::uint64_t kCopyTarget = 0x8;
inline constexpr std::uint64_t kUniform = 0x40;
inline constexpr std::uint64_t kStorage = 0x80;
inline constexpr std::uint64_t kQueryResolve = 0x200;
}  // namespace usage

inline constexpr std::uint64_t kMapModeRead = 0x1;
inline constexpr std::uint64_t kStageCompute = 0x4;

// --- Callbacks -----------------------------------------------------------------------------------
// Every asynchronous call takes a function and two pointers that come back with it. `Spontaneous`
// callbacks may come from any thread; `ProcessEvents` ones only inside that call.

struct CompilationInfo;

using AdapterCallback = void (*)(RequestStatus, Adapter, StringView message, void*, void*);
using DeviceCallback = void (*)(RequestStatus, Device, StringView message, void*, void*);
using PipelineCallback = void (*)(RequestStatus, ComputePipeline, StringView message, void*, void*);
using MapCallback = void (*)(MapStatus, StringView message, void*, void*);
using WorkDoneCallback = void (*)(RequestStatus, StringView message, void*, void*);
using ErrorScopeCallback = void (*)(RequestStatus, ErrorType, StringView message, void*, void*);
using CompilationCallback = void (*)(RequestStatus, const CompilationInfo*, void*, void*);
using LostCallback = void (*)(const Device*, LostReason, StringView message, void*, void*);
using ErrorCallback = void (*)(const Device*, ErrorType, StringView message, void*, void*);
using LogCallback = void (*)(std::uint32_t level, StringView message, void*, void*);

template <class Function>
struct CallbackInfo {
  Chain* next = nullptr;
  CallbackMode mode = CallbackMode::ProcessEvents;
  Function callback = nullptr;
  void* user1 = nullptr;
  void* user2 = nullptr;
};

/// The callback for errors outside any error scope has no mode: it is always spontaneous.
struct UncapturedErrorInfo {
  Chain* next = nullptr;
  ErrorCallback callback = nullptr;
  void* user1 = nullptr;
  void* user2 = nullptr;
};

// --- Instance, adapter, device -------------------------------------------------------------------

/// Toggles apply to the stage they are given at (instance, adapter or device); one given at the
/// wrong stage is dropped without a word.
struct TogglesDescriptor {
  Chain chain{nullptr, ChainType::TogglesDescriptor};
  std::size_t enabled_count = 0;
  const char* const* enabled = nullptr;
  std::size_t disabled_count = 0;
  const char* const* disabled = nullptr;
};

/// Where Dawn keeps what it compiled. Called from Dawn's worker threads too. Loading with a null
/// value asks for the size; 0 means "not there".
using CacheLoad = std::size_t (*)(const void* key, std::size_t key_bytes, void* value,
                                  std::size_t value_bytes, void* user);
using CacheStore = void (*)(const void* key, std::size_t key_bytes, const void* value,
                            std::size_t value_bytes, void* user);

struct CacheDescriptor {
  Chain chain{nullptr, ChainType::CacheDescriptor};
  StringView isolation_key;
  CacheLoad load = nullptr;
  CacheStore store = nullptr;
  void* user = nullptr;
};

/// Dawn's own part of an instance: here for the log, which says why there is no adapter and would
/// go to stderr otherwise. (A C++ struct in Dawn, so the first member sits in the chain's padding.)
struct InstanceExtras {
  Chain* next = nullptr;
  ChainType type = ChainType::InstanceExtras;
  std::uint32_t search_path_count = 0;
  const char* const* search_paths = nullptr;
  void* platform = nullptr;
  std::uint32_t backend_validation = 2;  // 2: off
  bool capture_on_startup = false;
  Chain* log_next = nullptr;
  LogCallback log = nullptr;
  void* log_user1 = nullptr;
  void* log_user2 = nullptr;
};

struct InstanceDescriptor {
  Chain* next = nullptr;
  Chain* capabilities_next = nullptr;
  Bool timed_wait = 0;  // whether wgpuInstanceWaitAny may block; we poll instead
  std::size_t timed_wait_futures = 0;
};

struct AdapterOptions {
  Chain* next = nullptr;
  FeatureLevel feature_level = FeatureLevel::Undefined;
  PowerPreference power = PowerPreference::Undefined;
  Bool force_fallback = 0;
  BackendType backend = BackendType::Undefined;
  void* compatible_surface = nullptr;
};

struct AdapterInfo {
  Chain* next = nullptr;
  StringView vendor;
  StringView architecture;
  StringView device;
  StringView description;
  BackendType backend{};
  AdapterType type{};
  std::uint32_t vendor_id = 0;
  std::uint32_t device_id = 0;
  std::uint32_t subgroup_min_size = 0;
  std::uint32_t subgroup_max_size = 0;
};

/// What an adapter offers, or what a device is asked for (all bits set: the default).
struct Limits {
  Chain* next;
  std::uint32_t texture_limits[4];
  std::uint32_t bind_groups;
  std::uint32_t bind_groups_plus_vertex_buffers;
  std::uint32_t bindings_per_bind_group;
  std::uint32_t dynamic_uniform_buffers;
  std::uint32_t dynamic_storage_buffers;
  std::uint32_t sampled_textures_per_stage;
  std::uint32_t samplers_per_stage;
  std::uint32_t storage_buffers_per_stage;
  std::uint32_t storage_textures_per_stage;
  std::uint32_t uniform_buffers_per_stage;
  std::uint64_t uniform_binding_bytes;
  std::uint64_t storage_binding_bytes;
  std::uint32_t uniform_offset_alignment;
  std::uint32_t storage_offset_alignment;
  std::uint32_t vertex_buffers;
  std::uint64_t buffer_bytes;
  std::uint32_t vertex_and_color_limits[5];
  std::uint32_t workgroup_storage_bytes;
  std::uint32_t invocations_per_workgroup;
  std::uint32_t workgroup_size[3];
  std::uint32_t workgroups_per_dimension;
  std::uint32_t later_limits[17];  // room for members that other builds add at the end
};

struct QueueDescriptor {
  Chain* next = nullptr;
  StringView label;
};

struct DeviceDescriptor {
  Chain* next = nullptr;
  StringView label;
  std::size_t feature_count = 0;
  const Feature* features = nullptr;
  const Limits* limits = nullptr;
  QueueDescriptor default_queue;
  CallbackInfo<LostCallback> lost;
  UncapturedErrorInfo uncaptured_error;
};

// --- Buffers, shaders, pipelines -----------------------------------------------------------------

struct BufferDescriptor {
  Chain* next = nullptr;
  StringView label;
  std::uint64_t usage = 0;
  std::uint64_t size = 0;
  Bool mapped_at_creation = 0;
};

struct ShaderSourceWgsl {
  Chain chain{nullptr, ChainType::ShaderSourceWgsl};
  StringView code;
};

struct ShaderModuleDescriptor {
  Chain* next = nullptr;
  StringView label;
};

struct CompilationMessage {
  Chain* next = nullptr;
  StringView message;
  MessageType type{};
  std::uint64_t line = 0;    // from 1; 0 when the message has no place
  std::uint64_t column = 0;  // from 1
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

struct CompilationInfo {
  Chain* next = nullptr;
  std::size_t message_count = 0;
  const CompilationMessage* messages = nullptr;
};

struct BindGroupLayoutEntry {
  Chain* next = nullptr;
  std::uint32_t binding = 0;
  std::uint64_t visibility = kStageCompute;
  std::uint32_t array_size = 0;
  // The buffer's part; sampler, texture and storage texture follow and stay zero.
  Chain* buffer_next = nullptr;
  BindingType buffer_type = BindingType::NotUsed;
  Bool has_dynamic_offset = 0;
  std::uint64_t min_binding_bytes = 0;
  std::uint64_t unused[8] = {};
};

struct BindGroupLayoutDescriptor {
  Chain* next = nullptr;
  StringView label;
  std::size_t entry_count = 0;
  const BindGroupLayoutEntry* entries = nullptr;
};

struct BindGroupEntry {
  Chain* next = nullptr;
  std::uint32_t binding = 0;
  Buffer buffer = nullptr;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  void* sampler = nullptr;
  void* texture_view = nullptr;
};

struct BindGroupDescriptor {
  Chain* next = nullptr;
  StringView label;
  BindGroupLayout layout = nullptr;
  std::size_t entry_count = 0;
  const BindGroupEntry* entries = nullptr;
};

struct PipelineLayoutDescriptor {
  Chain* next = nullptr;
  StringView label;
  std::size_t bind_group_layout_count = 0;
  const BindGroupLayout* bind_group_layouts = nullptr;
  std::uint32_t immediate_bytes = 0;
};

struct ComputePipelineDescriptor {
  Chain* next = nullptr;
  StringView label;
  PipelineLayout layout = nullptr;
  // The compute stage.
  Chain* stage_next = nullptr;
  ShaderModule module = nullptr;
  StringView entry_point;
  std::size_t constant_count = 0;
  const void* constants = nullptr;
};

// --- Commands ------------------------------------------------------------------------------------

struct CommandEncoderDescriptor {
  Chain* next = nullptr;
  StringView label;
};

struct CommandBufferDescriptor {
  Chain* next = nullptr;
  StringView label;
};

struct QuerySetDescriptor {
  Chain* next = nullptr;
  StringView label;
  QueryType type{};
  std::uint32_t count = 0;
};

struct TimestampWrites {
  Chain* next = nullptr;
  QuerySet query_set = nullptr;
  std::uint32_t begin_index = 0;
  std::uint32_t end_index = 0;
};

struct ComputePassDescriptor {
  Chain* next = nullptr;
  StringView label;
  const TimestampWrites* timestamps = nullptr;
};

// What the layouts come out as on a 64-bit machine, against a slip of the pen above.
static_assert(sizeof(void*) == 8, "the declarations are those of a 64-bit Dawn");
static_assert(sizeof(CallbackInfo<MapCallback>) == 40 && sizeof(UncapturedErrorInfo) == 32);
static_assert(offsetof(InstanceExtras, search_paths) == 16 && offsetof(InstanceExtras, log) == 48);
static_assert(sizeof(InstanceDescriptor) == 32 && sizeof(AdapterInfo) == 96);
static_assert(sizeof(AdapterOptions) == 32 && sizeof(DeviceDescriptor) == 144);
static_assert(offsetof(Limits, uniform_binding_bytes) == 64);
static_assert(offsetof(Limits, buffer_bytes) == 96);
static_assert(offsetof(Limits, workgroups_per_dimension) == 144);
static_assert(sizeof(BufferDescriptor) == 48 && sizeof(CompilationMessage) == 64);
static_assert(sizeof(BindGroupLayoutEntry) == 120 && sizeof(BindGroupEntry) == 56);
static_assert(sizeof(ComputePipelineDescriptor) == 80 && sizeof(PipelineLayoutDescriptor) == 48);

// --- Functions -----------------------------------------------------------------------------------
// X(our name, the rest of the exported name after "wgpu", type). The table in dawn_library.hpp is
// filled from this list; a function that is not here is not used.

#define TENSORGRAD_DAWN_FUNCTIONS(X)                                                               \
  X(create_instance, CreateInstance, Instance(const InstanceDescriptor*))                          \
  X(instance_release, InstanceRelease, void(Instance))                                             \
  X(instance_process_events, InstanceProcessEvents, void(Instance))                                \
  X(instance_request_adapter, InstanceRequestAdapter,                                              \
    Future(Instance, const AdapterOptions*, CallbackInfo<AdapterCallback>))                        \
  X(adapter_release, AdapterRelease, void(Adapter))                                                \
  X(adapter_get_info, AdapterGetInfo, Status(Adapter, AdapterInfo*))                               \
  X(adapter_info_free_members, AdapterInfoFreeMembers, void(AdapterInfo))                          \
  X(adapter_get_limits, AdapterGetLimits, Status(Adapter, Limits*))                                \
  X(adapter_has_feature, AdapterHasFeature, Bool(Adapter, Feature))                                \
  X(adapter_request_device, AdapterRequestDevice,                                                  \
    Future(Adapter, const DeviceDescriptor*, CallbackInfo<DeviceCallback>))                        \
  X(device_release, DeviceRelease, void(Device))                                                   \
  X(device_destroy, DeviceDestroy, void(Device))                                                   \
  X(device_get_queue, DeviceGetQueue, Queue(Device))                                               \
  X(device_get_limits, DeviceGetLimits, Status(Device, Limits*))                                   \
  X(device_has_feature, DeviceHasFeature, Bool(Device, Feature))                                   \
  X(device_push_error_scope, DevicePushErrorScope, void(Device, ErrorFilter))                      \
  X(device_pop_error_scope, DevicePopErrorScope, Future(Device, CallbackInfo<ErrorScopeCallback>)) \
  X(device_create_buffer, DeviceCreateBuffer, Buffer(Device, const BufferDescriptor*))             \
  X(device_create_shader_module, DeviceCreateShaderModule,                                         \
    ShaderModule(Device, const ShaderModuleDescriptor*))                                           \
  X(device_create_bind_group_layout, DeviceCreateBindGroupLayout,                                  \
    BindGroupLayout(Device, const BindGroupLayoutDescriptor*))                                     \
  X(device_create_bind_group, DeviceCreateBindGroup,                                               \
    BindGroup(Device, const BindGroupDescriptor*))                                                 \
  X(device_create_pipeline_layout, DeviceCreatePipelineLayout,                                     \
    PipelineLayout(Device, const PipelineLayoutDescriptor*))                                       \
  X(device_create_compute_pipeline_async, DeviceCreateComputePipelineAsync,                        \
    Future(Device, const ComputePipelineDescriptor*, CallbackInfo<PipelineCallback>))              \
  X(device_create_command_encoder, DeviceCreateCommandEncoder,                                     \
    CommandEncoder(Device, const CommandEncoderDescriptor*))                                       \
  X(device_create_query_set, DeviceCreateQuerySet, QuerySet(Device, const QuerySetDescriptor*))    \
  X(queue_release, QueueRelease, void(Queue))                                                      \
  X(queue_submit, QueueSubmit, void(Queue, std::size_t count, const CommandBuffer*))               \
  X(queue_write_buffer, QueueWriteBuffer,                                                          \
    void(Queue, Buffer, std::uint64_t offset, const void* data, std::size_t bytes))                \
  X(queue_on_submitted_work_done, QueueOnSubmittedWorkDone,                                        \
    Future(Queue, CallbackInfo<WorkDoneCallback>))                                                 \
  X(buffer_release, BufferRelease, void(Buffer))                                                   \
  X(buffer_map_async, BufferMapAsync,                                                              \
    Future(Buffer, std::uint64_t mode, std::size_t offset, std::size_t bytes,                      \
           CallbackInfo<MapCallback>))                                                             \
  X(buffer_get_const_mapped_range, BufferGetConstMappedRange,                                      \
    const void*(Buffer, std::size_t offset, std::size_t bytes))                                    \
  X(buffer_unmap, BufferUnmap, void(Buffer))                                                       \
  X(shader_module_release, ShaderModuleRelease, void(ShaderModule))                                \
  X(shader_module_get_compilation_info, ShaderModuleGetCompilationInfo,                            \
    Future(ShaderModule, CallbackInfo<CompilationCallback>))                                       \
  X(bind_group_layout_release, BindGroupLayoutRelease, void(BindGroupLayout))                      \
  X(bind_group_release, BindGroupRelease, void(BindGroup))                                         \
  X(pipeline_layout_release, PipelineLayoutRelease, void(PipelineLayout))                          \
  X(compute_pipeline_release, ComputePipelineRelease, void(ComputePipeline))                       \
  X(command_encoder_release, CommandEncoderRelease, void(CommandEncoder))                          \
  X(command_encoder_begin_compute_pass, CommandEncoderBeginComputePass,                            \
    ComputePass(CommandEncoder, const ComputePassDescriptor*))                                     \
  X(command_encoder_copy_buffer, CommandEncoderCopyBufferToBuffer,                                 \
    void(CommandEncoder, Buffer source, std::uint64_t source_offset, Buffer target,                \
         std::uint64_t target_offset, std::uint64_t bytes))                                        \
  X(command_encoder_clear_buffer, CommandEncoderClearBuffer,                                       \
    void(CommandEncoder, Buffer, std::uint64_t offset, std::uint64_t bytes))                       \
  X(command_encoder_resolve_query_set, CommandEncoderResolveQuerySet,                              \
    void(CommandEncoder, QuerySet, std::uint32_t first, std::uint32_t count, Buffer,               \
         std::uint64_t offset))                                                                    \
  X(command_encoder_finish, CommandEncoderFinish,                                                  \
    CommandBuffer(CommandEncoder, const CommandBufferDescriptor*))                                 \
  X(command_buffer_release, CommandBufferRelease, void(CommandBuffer))                             \
  X(compute_pass_release, ComputePassEncoderRelease, void(ComputePass))                            \
  X(compute_pass_set_pipeline, ComputePassEncoderSetPipeline, void(ComputePass, ComputePipeline))  \
  X(compute_pass_set_bind_group, ComputePassEncoderSetBindGroup,                                   \
    void(ComputePass, std::uint32_t index, BindGroup, std::size_t offset_count,                    \
         const std::uint32_t* offsets))                                                            \
  X(compute_pass_dispatch, ComputePassEncoderDispatchWorkgroups,                                   \
    void(ComputePass, std::uint32_t x, std::uint32_t y, std::uint32_t z))                          \
  X(compute_pass_end, ComputePassEncoderEnd, void(ComputePass))                                    \
  X(query_set_release, QuerySetRelease, void(QuerySet))

// Each function's type, named after it.
#define TENSORGRAD_DAWN_TYPE(name, symbol, ...) using name##_type = __VA_ARGS__;
TENSORGRAD_DAWN_FUNCTIONS(TENSORGRAD_DAWN_TYPE)
#undef TENSORGRAD_DAWN_TYPE

}  // namespace tensorgrad::webgpu::dawn
