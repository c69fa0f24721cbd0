// The devices a program may run on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tensorgrad {

class Backend;
struct Target;

/// A device, opened when it is first used. Cheap to copy.
class Device {
 public:
  /// The fastest device here: a hardware GPU if WebGPU has one, else the CPU. A software adapter is
  /// never the best. The environment variable TENSORGRAD_DEVICE (`cpu`, `webgpu`, `reference`,
  /// `null`) overrides it.
  static Device best();
  static Device cpu();
  /// Throws DeviceError with the reason if there is no adapter.
  static Device webgpu();
  /// Op by op in double precision: slow, and the meaning of every op.
  static Device reference();
  /// Runs nothing, checks everything.
  static Device null();
  /// A device by its name, as TENSORGRAD_DEVICE and `--device` take it; `best` too.
  static Device named(const std::string& name);
  /// A device of another backend: for tools and tests.
  static Device of(std::string name, std::shared_ptr<Backend> backend);

  struct Info {
    std::string name;         ///< `webgpu`
    std::string description;  ///< `NVIDIA H200 (Vulkan)`
    bool available = false;
    bool software = false;
    std::string reason;  ///< why it is not available
  };
  /// Every device, with the reason where one cannot be used here.
  static std::vector<Info> list();

  const std::string& name() const { return name_; }
  std::string description() const;
  bool is_software() const;
  /// What planning needs to know about it.
  const Target& target() const;

  /// What it has done since it was opened: kernels run, buffers made.
  struct Counters {
    std::int64_t buffers = 0, buffer_bytes = 0, dispatches = 0, submits = 0;
  };
  Counters counters() const;

  const std::shared_ptr<Backend>& backend() const { return backend_; }

 private:
  Device(std::string name, std::shared_ptr<Backend> backend);
  std::string name_;
  std::shared_ptr<Backend> backend_;
};

}  // namespace tensorgrad
