// A device with a fault: another backend whose plans are spoiled before they are loaded.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/backend.hpp"
#include "tensorgrad/device.hpp"

namespace tensorgrad::test {

class FaultyBackend final : public Backend {
 public:
  using Fault = std::function<void(Plan&)>;

  FaultyBackend(std::shared_ptr<Backend> sound, Fault fault)
      : sound_(std::move(sound)), fault_(std::move(fault)) {}

  const Target& target() const override { return sound_->target(); }
  std::string description() const override { return sound_->description() + ", with a fault"; }
  std::shared_ptr<DeviceBuffer> create_buffer(const BufferSpec& spec) override {
    return sound_->create_buffer(spec);
  }
  void write(DeviceBuffer& buffer, std::int64_t offset, std::int64_t count, DType dtype,
             const void* words) override {
    sound_->write(buffer, offset, count, dtype, words);
  }
  std::unique_ptr<Program> load(std::shared_ptr<const Plan> plan,
                                std::vector<std::shared_ptr<DeviceBuffer>> buffers) override {
    auto spoiled = std::make_shared<Plan>(*plan);
    fault_(*spoiled);
    return sound_->load(std::move(spoiled), std::move(buffers));
  }
  void run(Program& program, Phases phases) override { sound_->run(program, phases); }
  std::vector<double> profile(Program& program) override { return sound_->profile(program); }
  void read(const std::vector<ReadRequest>& requests, Completion done) override {
    sound_->read(requests, done);
  }
  void poll() override { sound_->poll(); }
  DeviceCounters counters() const override { return sound_->counters(); }

 private:
  std::shared_ptr<Backend> sound_;
  Fault fault_;
};

/// The device of a name with a fault, as "faulty".
inline Device faulty(const std::string& name, FaultyBackend::Fault fault) {
  return Device::of(
      "faulty", std::make_shared<FaultyBackend>(Device::named(name).backend(), std::move(fault)));
}

}  // namespace tensorgrad::test
