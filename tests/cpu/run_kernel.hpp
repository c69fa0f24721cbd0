// Runs one kernel on a CPU device and in the plain evaluator.
#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cpu/backend.hpp"
#include "support/kernel_eval.hpp"

namespace tensorgrad::testing {

inline std::uint32_t word_of(double value, DType dtype) {
  std::uint32_t word;
  const auto as_float = static_cast<float>(value);
  const auto as_int = static_cast<std::int32_t>(value);
  std::memcpy(&word, dtype == f32 ? static_cast<const void*>(&as_float) : &as_int, 4);
  return word;
}

inline double value_of(std::uint32_t word, DType dtype) {
  float as_float;
  std::int32_t as_int;
  std::memcpy(&as_float, &word, 4);
  std::memcpy(&as_int, &word, 4);
  return dtype == f32 ? static_cast<double>(as_float) : as_int;
}

/// The dtype of each element, by buffer, as the bindings say.
inline std::vector<std::vector<DType>> element_types(const Kernel& kernel,
                                                     const HostBuffers& buffers) {
  std::vector<std::vector<DType>> types;
  for (const auto& [id, values] : buffers) {
    types.resize(std::max(types.size(), static_cast<std::size_t>(id) + 1));
    types[static_cast<std::size_t>(id)].assign(values.size(), f32);
  }
  for (const Binding& b : kernel.bindings) {
    auto& of_buffer = types[static_cast<std::size_t>(b.buffer)];
    std::fill_n(of_buffer.begin() + b.offset, b.elements, b.dtype);
  }
  return types;
}

class LoadedKernel {
 public:
  LoadedKernel(std::shared_ptr<Backend> backend, const Kernel& kernel, const HostBuffers& buffers,
               std::shared_ptr<const Graph> graph = nullptr)
      : backend_(std::move(backend)), types_(element_types(kernel, buffers)) {
    auto plan = std::make_shared<Plan>();
    plan->kernels = {kernel};
    plan->graph = std::move(graph);
    for (std::size_t b = 0; b < types_.size(); ++b) {
      plan->buffers.push_back({"b" + std::to_string(b), BufferRole::Temp,
                               static_cast<std::int64_t>(types_[b].size()) * 4});
      buffers_.push_back(backend_->create_buffer(plan->buffers.back()));
    }
    program_ = backend_->load(plan, buffers_);
    write(buffers);
  }

  void write(const HostBuffers& values) {
    for (const auto& [id, list] : values) {
      const auto b = static_cast<std::size_t>(id);
      std::vector<std::uint32_t> words;
      for (std::size_t k = 0; k < list.size(); ++k) words.push_back(word_of(list[k], types_[b][k]));
      backend_->write(*buffers_[b], 0, static_cast<std::int64_t>(words.size()), f32, words.data());
    }
  }
  void run() { backend_->run(*program_, Phases::All); }
  std::vector<std::vector<std::uint32_t>> words() {
    std::vector<std::vector<std::uint32_t>> all;
    for (std::size_t b = 0; b < buffers_.size(); ++b) {
      all.emplace_back(types_[b].size());
      read_now(*backend_, {{buffers_[b].get(), 0, static_cast<std::int64_t>(types_[b].size()), f32,
                            all.back().data()}});
    }
    return all;
  }
  double value(std::uint32_t word, std::size_t buffer, std::size_t element) const {
    return value_of(word, types_[buffer][element]);
  }
  std::string description() const { return cpu::kernel_descriptions(*program_).front(); }

 private:
  std::shared_ptr<Backend> backend_;
  std::vector<std::vector<DType>> types_;
  std::vector<std::shared_ptr<DeviceBuffer>> buffers_;
  std::unique_ptr<Program> program_;
};

/// The first element that differs from what the evaluator gives, as a sentence; empty if none does.
/// Values are compared on the scale of the largest finite one in their buffer.
inline std::string compare_with_evaluator(std::shared_ptr<Backend> backend, const Kernel& kernel,
                                          const HostBuffers& buffers, double tolerance = 1e-5) {
  HostBuffers want = buffers;
  evaluate(kernel, want);
  LoadedKernel loaded(std::move(backend), kernel, buffers);
  loaded.run();
  const auto words = loaded.words();
  for (const auto& [id, expected] : want) {
    const auto b = static_cast<std::size_t>(id);
    double scale = 0.1;  // what cancels to nothing is compared on the scale of what cancelled
    for (double v : expected) {
      if (std::isfinite(v)) scale = std::max(scale, std::fabs(v));
    }
    for (std::size_t k = 0; k < expected.size(); ++k) {
      const double got = loaded.value(words[b][k], b, k), e = expected[k];
      const bool same = std::isnan(e)   ? std::isnan(got)
                        : std::isinf(e) ? got == e
                                        : std::fabs(got - e) <= tolerance * scale;
      if (!same) {
        return "buffer " + std::to_string(id) + "[" + std::to_string(k) + "] is " +
               std::to_string(got) + ", not " + std::to_string(e) + " (" + loaded.description() +
               ")\n" + kernel.to_string();
      }
    }
  }
  return "";
}

}  // namespace tensorgrad::testing
