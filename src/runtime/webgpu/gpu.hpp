// A GPU through WebGPU: what the backend needs of Dawn and nothing more. Buffers, compiled shaders,
// bind groups, lists of dispatches submitted as one pass, and reads that complete later.
//
// Handles (`Buffer`, `Pipeline`, `BindGroup`) are shared references: copies are cheap, and each
// keeps the device alive. Everything here may be called from several threads; one mutex inside a
// `Gpu` serialises the calls, and waits let go of it between polls.
//
// Errors are DeviceError. What Dawn reports late (a lost device, a failed validation) is kept and
// thrown by the next call; a lost device throws from then on and never makes a wait hang. A call
// that breaks the rules stated here (a range outside a buffer) is an InternalError, because with
// validation off nobody else would notice.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tensorgrad::webgpu {

struct Context;
struct BufferState;
struct PipelineState;
struct BindGroupState;

namespace dawn {
using CommandEncoder = struct CommandEncoderObject*;
struct ComputePassDescriptor;
}  // namespace dawn

/// What is read back at a time; two such pieces are under way.
constexpr std::uint64_t kReadPiece = 16u << 20;

// --- Adapters ------------------------------------------------------------------------------------

struct AdapterInfo {
  std::string name;     // "NVIDIA H200", "SwiftShader Device (Subzero)"
  std::string vendor;   // "nvidia", "google"
  std::string driver;   // the driver's own description
  std::string backend;  // "Vulkan", "Metal", …
  bool is_software = false;
  std::uint32_t vendor_id = 0;
  std::uint32_t device_id = 0;
  std::uint32_t subgroup_min_size = 0;
  std::uint32_t subgroup_max_size = 0;

  friend bool operator==(const AdapterInfo&, const AdapterInfo&) = default;
};

struct AdapterList {
  std::vector<AdapterInfo> adapters;
  std::string reason;  // why there is none, a sentence; empty if there is one
};

/// The adapters of this machine, as far as WebGPU can name them (the fast one and the frugal one),
/// the fastest first. Never throws for a missing library or driver: the reason says what is
/// missing.
AdapterList list_adapters();

// --- Opening -------------------------------------------------------------------------------------

/// Whether TENSORGRAD_WEBGPU_CHECKED asks for validation (any value but empty and 0).
bool checked_by_default();

/// Where compiled shaders are kept between runs: the folder that TENSORGRAD_CACHE names (`off` or
/// empty: nowhere), else `tensorgrad` in the user's cache folder. Empty if there is no such place.
std::string default_cache_folder();

struct GpuOptions {
  std::string adapter = {};  // part of the adapter's name, in any case; empty takes the fastest
  bool checked = checked_by_default();  // index clamps and validation on: for tests
  std::string cache_folder = {};        // where compiled shaders are kept; empty: nowhere
};

/// The device's limits: all that the adapter has was asked for.
struct GpuLimits {
  std::uint64_t buffer_bytes = 0;
  std::uint64_t storage_binding_bytes = 0;
  std::uint64_t uniform_binding_bytes = 0;
  std::uint32_t storage_buffers_per_stage = 0;
  std::uint32_t uniform_buffers_per_stage = 0;
  std::uint32_t bindings_per_bind_group = 0;
  std::uint32_t storage_offset_alignment = 0;
  std::uint32_t uniform_offset_alignment = 0;
  std::uint32_t workgroup_storage_bytes = 0;
  std::uint32_t invocations_per_workgroup = 0;
  std::array<std::uint32_t, 3> workgroup_size{};
  std::uint32_t workgroups_per_dimension = 0;
};

/// What the device has beyond the standard. Switched on wherever the adapter has it.
struct GpuFeatures {
  bool subgroups = false;
  bool timestamp_query = false;
  bool shader_f16 = false;
};

/// What was done since the device was opened. Staging buffers for reads count apart.
struct GpuCounters {
  std::uint64_t buffers_created = 0;
  std::uint64_t buffer_bytes_created = 0;
  std::uint64_t buffers_alive = 0;
  std::uint64_t buffer_bytes_alive = 0;
  std::uint64_t staging_bytes = 0;
  std::uint64_t pipelines_compiled = 0;
  std::uint64_t pipelines_shared = 0;  // found already compiled: equal source
  std::uint64_t dispatches = 0;
  std::uint64_t submits = 0;
  std::uint64_t disk_cache_hits = 0;
};

// --- Handles -------------------------------------------------------------------------------------

/// Memory on the device, readable and writable by shaders and copies. Zeros until written.
class Buffer {
 public:
  Buffer() = default;
  explicit operator bool() const { return state_ != nullptr; }
  std::uint64_t bytes() const;

 private:
  friend class Gpu;
  std::shared_ptr<BufferState> state_;
};

/// A compiled shader.
class Pipeline {
 public:
  Pipeline() = default;
  explicit operator bool() const { return state_ != nullptr; }
  const std::string& label() const;

  friend bool operator==(const Pipeline&, const Pipeline&) = default;

 private:
  friend class Gpu;
  std::shared_ptr<PipelineState> state_;
};

/// The buffers a dispatch works on. Keeps them alive.
class BindGroup {
 public:
  BindGroup() = default;
  explicit operator bool() const { return state_ != nullptr; }

 private:
  friend class Gpu;
  std::shared_ptr<BindGroupState> state_;
};

// --- Shaders and commands ------------------------------------------------------------------------

enum class BufferKind { Storage, Uniform };  // a uniform buffer can be bound either way

/// How a shader declares the variable of a binding.
enum class Access : std::uint8_t {
  Read,       // var<storage, read>
  ReadWrite,  // var<storage, read_write>
  Uniform,    // var<uniform>
};

/// A compute shader. Its bindings are `@group(0) @binding(i)`, one access each, in order; that they
/// agree with the WGSL is seen only by a checked device.
struct ShaderSource {
  std::string label = {};
  std::string wgsl = {};
  std::string entry = "main";
  std::vector<Access> bindings = {};
};

/// A part of a buffer as a binding. 0 bytes mean the rest of the buffer.
struct Binding {
  Buffer buffer;
  std::uint64_t offset = 0;  // a multiple of the limits' offset alignment
  std::uint64_t bytes = 0;
};

struct Dispatch {
  Pipeline pipeline;
  BindGroup bind_group;
  std::uint32_t x = 1, y = 1, z = 1;  // workgroups
};

using Commands = std::vector<Dispatch>;

/// A part of a buffer to be read back; offset and bytes are multiples of 4.
struct ReadRange {
  Buffer buffer;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// What a read delivers: the ranges one after another, valid during the callback only; or why not.
struct ReadResult {
  std::span<const std::byte> bytes;
  std::string failure;
  bool ok() const { return failure.empty(); }
};

/// Called exactly once for every read that was accepted, in the order of the reads, from inside
/// some call on the Gpu (poll, done, wait, submit, or its end). Be short, do not throw, and take no
/// lock that another thread may hold while it waits on this Gpu. Calling the Gpu is allowed.
using ReadCallback = std::function<void(const ReadResult&)>;

/// A read under way. Tickets complete in order.
using Ticket = std::uint64_t;

// --- The device ----------------------------------------------------------------------------------

class Gpu {
 public:
  /// Opens a device on the best adapter, and checks once per process and adapter that it computes.
  static Gpu open(const GpuOptions& options = {});

  Gpu(Gpu&&) noexcept = default;
  Gpu& operator=(Gpu&&) noexcept = default;

  const AdapterInfo& adapter() const;
  const GpuLimits& limits() const;
  const GpuFeatures& features() const;
  bool checked() const;
  GpuCounters counters() const;

  /// A buffer of zeros; bytes are a positive multiple of 4.
  Buffer create_buffer(std::uint64_t bytes, BufferKind kind = BufferKind::Storage,
                       const std::string& label = {});

  /// Copies host memory to a buffer, after what was submitted and before what will be. The memory
  /// is free again on return. Offset and size are multiples of 4.
  void write(const Buffer& target, std::uint64_t offset, std::span<const std::byte> data);

  /// Copies between two different buffers on the device; offsets and bytes are multiples of 4.
  void copy(const Buffer& source, std::uint64_t source_offset, const Buffer& target,
            std::uint64_t target_offset, std::uint64_t bytes);

  /// Zeros part of a buffer; 0 bytes mean the rest of it.
  void clear(const Buffer& target, std::uint64_t offset = 0, std::uint64_t bytes = 0);

  /// Compiles shaders in parallel, in order of `sources`; equal sources give the same pipeline, now
  /// and later. A failing one throws with its label, the message and the lines of WGSL around it.
  std::vector<Pipeline> compile(std::span<const ShaderSource> sources);
  Pipeline compile(const ShaderSource& source);

  /// Buffers for a pipeline's bindings, in order. A buffer may not appear both as Read and as
  /// ReadWrite in one group.
  BindGroup bind(const Pipeline& pipeline, std::span<const Binding> bindings);

  /// Runs the dispatches in order, as one pass and one submit. Returns at once.
  void submit(std::span<const Dispatch> commands);

  /// The same, followed in the same submit by copies of `ranges` to a staging buffer; `callback`
  /// gets the bytes when they are there. Waits if 64 reads are under way.
  Ticket submit(std::span<const Dispatch> commands, std::span<const ReadRange> ranges,
                ReadCallback callback);

  /// The same dispatches `count` times in one submit. Before the i-th time part i of `inputs` is
  /// copied to `target`, each part as long as that is; after it `result` to element i of `results`.
  struct Repeat {
    std::uint32_t count = 1;
    Buffer inputs, target;  // or none
    ReadRange result;
    Buffer results;
  };
  void submit(std::span<const Dispatch> commands, const Repeat& repeat);

  /// Reads part of a buffer, blocking. Any size; large ones go through in pieces.
  void read(const Buffer& source, std::uint64_t offset, std::span<std::byte> into);

  /// Handles what has completed, without waiting.
  void poll();
  /// Polls, and says whether the callback of this read has been called.
  bool done(Ticket ticket);
  /// Returns when the callback of this read has been called; throws if the device failed.
  void wait(Ticket ticket);
  /// Returns when everything that was submitted has been computed.
  void wait_idle();

  /// Runs the dispatches, each in a pass of its own, and gives the nanoseconds each took on the
  /// device. Needs the timestamp_query feature.
  std::vector<double> profile(std::span<const Dispatch> commands);

  /// Loses the device as a failing driver would: for tests.
  void simulate_loss();

 private:
  explicit Gpu(std::shared_ptr<Context> context) : context_(std::move(context)) {}

  template <class Body>
  void encode(Body body);  // body(encoder), between making an encoder and submitting it
  void encode_pass(dawn::CommandEncoder encoder, std::span<const Dispatch> commands,
                   const dawn::ComputePassDescriptor* descriptor = nullptr);
  std::size_t reads_under_way() const;

  std::shared_ptr<Context> context_;
};

}  // namespace tensorgrad::webgpu
