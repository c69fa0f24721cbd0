#include "codegen/wgsl/module.hpp"

#include <algorithm>

#include "codegen/wgsl/prelude.hpp"
#include "tensorgrad/error.hpp"

namespace tensorgrad::wgsl {

namespace {

const char* stored_type(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return "f32";
    case DType::I32:
      return "i32";
    case DType::Bool:
      return "u32";
  }
  return "?";
}

/// Whether two bindings must be one: WebGPU refuses ranges of one buffer that overlap if either is
/// writable, and what is written through one could not be read through the other.
bool must_join(const WgslBinding& a, const WgslBinding& b) {
  if (a.buffer != b.buffer) return false;
  if (!a.writable && !b.writable) {
    return a.dtype == b.dtype && a.offset == b.offset && a.elements == b.elements;
  }
  return a.offset < b.offset + b.elements && b.offset < a.offset + a.elements;
}

void join(WgslBinding& into, const WgslBinding& other) {
  const std::int64_t end = std::max(into.offset + into.elements, other.offset + other.elements);
  into.offset = std::min(into.offset, other.offset);
  into.elements = end - into.offset;
  into.writable = into.writable || other.writable;
  if (into.dtype != other.dtype) into.dtype = DType::Bool;  // stored as u32
}

}  // namespace

Module::Module(const Kernel& k, const WgslLimits& l) : kernel(k), limits(l) {
  result_.name = kernel.name;
  // Which of our bindings each of the kernel's is part of. Joining may make new overlaps.
  std::vector<WgslBinding>& joined = result_.bindings;
  std::vector<std::size_t> part_of;
  for (const Binding& b : kernel.bindings) {
    if (b.elements > std::int64_t{1} << 31)
      fail("binds " + std::to_string(b.elements) + " elements, more than 2^31");
    part_of.push_back(joined.size());
    joined.push_back({b.buffer, b.offset, b.elements, b.dtype, b.written});
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < joined.size(); ++i) {
      for (std::size_t j = i + 1; j < joined.size(); ++j) {
        if (!must_join(joined[i], joined[j])) continue;
        join(joined[i], joined[j]);
        joined.erase(joined.begin() + static_cast<std::ptrdiff_t>(j));
        for (std::size_t& p : part_of) p = p == j ? i : p > j ? p - 1 : p;
        changed = true;
      }
    }
  }
  // One buffer may not be bound read-only and writable, even where the ranges are apart.
  for (WgslBinding& a : joined) {
    a.writable = std::any_of(joined.begin(), joined.end(), [&](const WgslBinding& b) {
      return b.buffer == a.buffer && b.writable;
    });
  }
  if (joined.size() > limits.bindings) {
    fail("needs " + std::to_string(joined.size()) + " buffers; the device allows " +
         std::to_string(limits.bindings));
  }
  for (std::size_t i = 0; i < kernel.bindings.size(); ++i) {
    const WgslBinding& whole = joined[part_of[i]];
    arrays_.push_back({(whole.writable ? "out" : "in") + std::to_string(part_of[i]),
                       kernel.bindings[i].offset - whole.offset,
                       kernel.bindings[i].dtype != whole.dtype});
  }
}

void Module::fail(const std::string& what) const {
  throw DeviceError("webgpu: the kernel \"" + kernel.name + "\" " + what + ".");
}

void Module::share(const std::string& name, const std::string& type, std::int64_t count,
                   std::uint32_t element_bytes) {
  shared_.push_back("var<workgroup> " + name + ": array<" + type + ", " + std::to_string(count) +
                    ">;");
  result_.workgroup_bytes += static_cast<std::uint32_t>(count) * element_bytes;
}

void Module::workgroups(std::int64_t groups, std::uint32_t size, const std::string& name) {
  const std::int64_t most = limits.workgroups;
  const std::int64_t y = std::min(most, (groups + most - 1) / most);
  const std::int64_t z = (groups + most * most - 1) / (most * most);
  if (z > most || groups * size > (std::int64_t{1} << 32)) fail("has more than 2^32 points");
  const std::int64_t rows = std::max<std::int64_t>(1, y * z);
  const std::int64_t x = (groups + rows - 1) / rows;
  result_.workgroup_size = size;
  result_.grid = {static_cast<std::uint32_t>(x),
                  static_cast<std::uint32_t>(std::max<std::int64_t>(1, y)),
                  static_cast<std::uint32_t>(std::max<std::int64_t>(1, z))};
  std::string number = "group.x";
  if (y > 1)
    number += " + " + unsigned_text(x) + " * " +
              (z > 1 ? "(group.y + " + unsigned_text(y) + " * group.z)" : "group.y");
  main.line("let " + name + " = " + number + ";");
  if (x * rows > groups) {
    main.open("if (" + name + " >= " + unsigned_text(groups) + ")");
    main.line("return;");
    main.close();
  }
}

WgslKernel Module::finish() {
  if (result_.workgroup_bytes > limits.workgroup_bytes) {
    fail("needs " + std::to_string(result_.workgroup_bytes) +
         " bytes of workgroup memory; the device allows " + std::to_string(limits.workgroup_bytes));
  }
  if (result_.workgroup_size > limits.invocations) {
    fail("needs workgroups of " + std::to_string(result_.workgroup_size) +
         " threads; the device allows " + std::to_string(limits.invocations));
  }
  Writer all;
  all.line("// kernel " + kernel.name);
  for (std::size_t i = 0; i < result_.bindings.size(); ++i) {
    const WgslBinding& b = result_.bindings[i];
    const std::string name = (b.writable ? "out" : "in") + std::to_string(i);
    all.line("@group(0) @binding(" + std::to_string(i) + ") var<storage, " +
             (b.writable ? "read_write" : "read") + "> " + name + ": array<" +
             (has_quads(name) ? "vec4<f32>" : stored_type(b.dtype)) + ">;");
  }
  if (!shared_.empty()) all.blank();
  for (const std::string& line : shared_) all.line(line);
  all.raw(prelude_source(prelude));
  if (!functions.empty()) all.blank();
  all.append(functions);
  all.blank();
  all.line("@compute @workgroup_size(" + std::to_string(result_.workgroup_size) + ")");
  all.line(
      "fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: "
      "u32) {");
  all.append(main);
  all.line("}");
  result_.source = all.text();
  result_.line_nodes = all.nodes();
  return std::move(result_);
}

}  // namespace tensorgrad::wgsl
