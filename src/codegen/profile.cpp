#include "tensorgrad/profile.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

namespace tensorgrad {

namespace {

double special_flops(const SpecialHint& special) {
  const auto size = [](const StridedOperand& operand) {
    return static_cast<double>(operand.type.shape.size());
  };
  switch (special.op) {
    case OpKind::Attention:
    case OpKind::AttentionGradQ:
    case OpKind::AttentionGradKV: {
      // Products of all queries with all keys: two forward, three and four backward.
      const double products = special.op == OpKind::Attention        ? 2
                              : special.op == OpKind::AttentionGradQ ? 3
                                                                     : 4;
      const auto keys = static_cast<double>(special.inputs[1].type.shape[2]);
      const double all = 2 * products * size(special.inputs[0]) * keys;
      return std::get<AttentionAttr>(special.attrs).causal ? all / 2 : all;
    }
    default:
      return 2 * size(special.outputs.front());
  }
}

/// Of what is bound, which may be part of a larger tensor's memory or the other way around.
std::int64_t elements_read(const Kernel& kernel, int binding) {
  std::int64_t elements = 0;
  if (kernel.special) {
    for (const StridedOperand& input : kernel.special->inputs) {
      if (input.binding != binding) continue;
      std::int64_t own = 1;
      for (int axis = 0; axis < input.type.shape.rank(); ++axis) {
        if (input.strides[static_cast<std::size_t>(axis)] != 0) own *= input.type.shape[axis];
      }
      elements += own;
    }
  }
  for (const Expr& e : kernel.exprs) {
    if (e.kind != Expr::Kind::Load || e.binding != binding) continue;
    std::int64_t own = 1;
    for (std::size_t v = 0; v < kernel.vars.size(); ++v) {
      if (e.index.uses_var(static_cast<int>(v))) own *= kernel.vars[v].extent;
    }
    elements +=
        e.index.uses_data() ? kernel.bindings[static_cast<std::size_t>(binding)].elements : own;
  }
  return std::min(elements, kernel.bindings[static_cast<std::size_t>(binding)].elements);
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return result;
}

}  // namespace

KernelCost kernel_cost(const Kernel& kernel) {
  KernelCost cost;
  if (kernel.stores.empty() && !kernel.special) {  // a node, as the interpreter takes it
    for (const Binding& b : kernel.bindings) cost.bytes += 4 * b.elements;
    return cost;
  }
  for (std::size_t b = 0; b < kernel.bindings.size(); ++b)
    cost.bytes += 4 * elements_read(kernel, static_cast<int>(b));
  for (const Store& s : kernel.stores)
    cost.bytes += 4 * kernel.outer_size() * (s.inner ? kernel.inner_size() : 1);
  if (kernel.special) {
    for (const StridedOperand& output : kernel.special->outputs)
      cost.bytes += output.binding >= 0 ? 4 * output.type.shape.size() : 0;
    cost.flops = special_flops(*kernel.special);
    return cost;
  }
  const auto outer = static_cast<double>(kernel.outer_size()),
             inner = static_cast<double>(kernel.inner_size());
  for (const Expr& e : kernel.exprs) {
    if (e.kind != Expr::Kind::Op && e.kind != Expr::Kind::Reduce) continue;
    const bool every_point = e.inner || e.kind == Expr::Kind::Reduce;
    cost.flops += every_point ? outer * inner : outer;
  }
  return cost;
}

std::vector<KernelTotal> totals(const std::vector<KernelTime>& times) {
  std::map<std::string, KernelTotal> by_name;
  for (const KernelTime& time : times) {
    KernelTotal& total = by_name[time.name];
    total.name = time.name;
    ++total.count;
    total.cost.bytes += time.cost.bytes;
    total.cost.flops += time.cost.flops;
    total.seconds += time.seconds;
  }
  std::vector<KernelTotal> sorted;
  for (auto& [name, total] : by_name) sorted.push_back(std::move(total));
  std::stable_sort(sorted.begin(), sorted.end(), [](const KernelTotal& a, const KernelTotal& b) {
    return a.seconds > b.seconds;
  });
  return sorted;
}

std::string chrome_trace(const std::vector<KernelTime>& times) {
  std::string text = "{\"traceEvents\": [\n";
  double start = 0;  // microseconds
  for (std::size_t i = 0; i < times.size(); ++i) {
    const KernelTime& t = times[i];
    char line[256];
    std::snprintf(line, sizeof line,
                  "\", \"ph\": \"X\", \"pid\": 1, \"tid\": 1, \"ts\": %.3f, \"dur\": %.3f, "
                  "\"args\": {\"bytes\": %lld, \"flops\": %.0f, \"GB/s\": %.1f, \"GFLOP/s\": %.1f",
                  start, 1e6 * t.seconds, static_cast<long long>(t.cost.bytes), t.cost.flops,
                  t.seconds > 0 ? 1e-9 * static_cast<double>(t.cost.bytes) / t.seconds : 0,
                  t.seconds > 0 ? 1e-9 * t.cost.flops / t.seconds : 0);
    text += "{\"name\": \"" + escaped(t.name) + line + ", \"ops\": \"" + escaped(t.ops) +
            "\", \"site\": \"" + escaped(t.site) + "\"}}" + (i + 1 < times.size() ? ",\n" : "\n");
    start += 1e6 * t.seconds;
  }
  return text + "]}\n";
}

}  // namespace tensorgrad
