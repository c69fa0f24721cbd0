// A plan as text: memory, buffers, kernels.
#include <cstdio>

#include "tensorgrad/plan.hpp"

namespace tensorgrad {

const char* to_string(BufferRole role) {
  switch (role) {
    case BufferRole::Param:
      return "param";
    case BufferRole::Gradient:
      return "gradient";
    case BufferRole::Moment:
      return "moment";
    case BufferRole::Input:
      return "input";
    case BufferRole::State:
      return "state";
    case BufferRole::Literal:
      return "literal";
    case BufferRole::Output:
      return "output";
    case BufferRole::Temp:
      return "temp";
  }
  return "?";
}

MemoryReport Plan::memory() const {
  MemoryReport report;
  for (const BufferSpec& buffer : buffers) {
    if (buffer.external) continue;
    ++report.buffers;
    report.total += buffer.bytes;
    switch (buffer.role) {
      case BufferRole::Param:
        report.params += buffer.bytes;
        break;
      case BufferRole::Gradient:
        report.gradients += buffer.bytes;
        break;
      case BufferRole::Moment:
        report.moments += buffer.bytes;
        break;
      case BufferRole::Input:
        report.inputs += buffer.bytes;
        break;
      case BufferRole::State:
        report.states += buffer.bytes;
        break;
      case BufferRole::Literal:
        report.literals += buffer.bytes;
        break;
      case BufferRole::Output:
        report.outputs += buffer.bytes;
        break;
      case BufferRole::Temp:
        report.temps += buffer.bytes;
        break;
    }
  }
  report.kernels = kernel_count();
  return report;
}

std::string MemoryReport::to_string() const {
  const auto line = [](const char* what, std::int64_t bytes) {
    char text[64];
    std::snprintf(text, sizeof text, "%-10s %12.2f KiB\n", what, static_cast<double>(bytes) / 1024);
    return bytes > 0 ? std::string(text) : std::string();
  };
  return line("params", params) + line("gradients", gradients) + line("moments", moments) +
         line("inputs", inputs) + line("states", states) + line("literals", literals) +
         line("outputs", outputs) + line("temps", temps) + line("total", total) +
         std::to_string(buffers) + " buffers, " + std::to_string(kernels) + " kernels a step\n";
}

std::string Plan::to_string() const {
  std::string text;
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    text += "buffer " + std::to_string(b) + ": " + tensorgrad::to_string(buffers[b].role) + " " +
            buffers[b].name + ", " + std::to_string(buffers[b].bytes) + " bytes" +
            (buffers[b].external ? ", shared" : "") + "\n";
  }
  for (const Kernel& kernel : kernels) text += kernel.to_string();
  return text;
}

}  // namespace tensorgrad
