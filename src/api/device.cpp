// Choosing and listing devices.
#include "tensorgrad/device.hpp"

#include <cstdlib>

#include "runtime/backend.hpp"
#include "tensorgrad/error.hpp"

namespace tensorgrad {

namespace {

struct Entry {
  const char* name;
  std::shared_ptr<Backend> (*open)();
};

constexpr Entry kDevices[] = {
    {"webgpu", open_webgpu}, {"cpu", open_cpu}, {"reference", open_reference}, {"null", open_null}};

}  // namespace

Device::Device(std::string name, std::shared_ptr<Backend> backend)
    : name_(std::move(name)), backend_(std::move(backend)) {}

Device Device::cpu() { return {"cpu", open_cpu()}; }
Device Device::webgpu() { return {"webgpu", open_webgpu()}; }
Device Device::reference() { return {"reference", open_reference()}; }
Device Device::null() { return {"null", open_null()}; }

Device Device::of(std::string name, std::shared_ptr<Backend> backend) {
  return {std::move(name), std::move(backend)};
}

Device Device::named(const std::string& name) {
  if (name == "best") return best();
  for (const Entry& entry : kDevices) {
    if (name == entry.name) return {name, entry.open()};
  }
  throw DeviceError("There is no device named \"" + name +
                    "\". Choose best, webgpu, cpu, reference or null.");
}

Device Device::best() {
  if (const char* wanted = std::getenv("TENSORGRAD_DEVICE");
      wanted && *wanted && std::string(wanted) != "best") {
    return named(wanted);
  }
  try {
    Device gpu = webgpu();
    if (!gpu.is_software()) return gpu;
  } catch (const DeviceError&) {
    // No GPU here: `list` tells why. The CPU is always there.
  }
  return cpu();
}

std::vector<Device::Info> Device::list() {
  std::vector<Info> infos;
  for (const Entry& entry : kDevices) {
    Info info;
    info.name = entry.name;
    try {
      const Device device = named(entry.name);
      info.available = true;
      info.description = device.description();
      info.software = device.is_software();
    } catch (const DeviceError& error) {
      info.reason = error.what();
    }
    infos.push_back(std::move(info));
  }
  return infos;
}

std::string Device::description() const { return backend_->description(); }
bool Device::is_software() const { return backend_->is_software(); }
const Target& Device::target() const { return backend_->target(); }

Device::Counters Device::counters() const {
  const DeviceCounters c = backend_->counters();
  return {c.buffers, c.buffer_bytes, c.dispatches, c.submits};
}

}  // namespace tensorgrad
