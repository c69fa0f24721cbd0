// A shader while it is being printed: its bindings, the functions it uses, its workgroup memory and
// its main function. Every generator fills one; `finish` puts the parts together.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "codegen/wgsl/print.hpp"
#include "codegen/wgsl/writer.hpp"

namespace tensorgrad::wgsl {

/// A kernel's binding as the shader sees it: an element of `array` counted from `start`. `as_bits`:
/// the array is of u32 because bindings of several dtypes share it.
struct ArrayRef {
  std::string array;
  std::int64_t start = 0;
  bool as_bits = false;
};

class Module {
 public:
  Module(const Kernel& kernel, const WgslLimits& limits);

  const Kernel& kernel;
  const WgslLimits& limits;
  std::set<std::string> prelude;  ///< functions of the prelude that are called
  Writer functions;               ///< functions of this kernel
  Writer main{1};                 ///< the body of the main function

  /// From now on the elements of this array are quads, vec4<f32>. Every access to it must be by
  /// whole quads.
  void use_quads(const std::string& array) { quads_.insert(array); }
  bool has_quads(const std::string& array) const { return quads_.count(array) > 0; }
  bool has_quads(int binding) const { return has_quads(array(binding).array); }

  const ArrayRef& array(int binding) const { return arrays_[static_cast<std::size_t>(binding)]; }

  /// Memory that the threads of a workgroup share.
  void share(const std::string& name, const std::string& type, std::int64_t count,
             std::uint32_t element_bytes);

  /// Decides the grid and prints how `name` is the number of this workgroup, from 0 to groups - 1.
  void workgroups(std::int64_t groups, std::uint32_t size, const std::string& name);

  WgslKernel finish();

 private:
  [[noreturn]] void fail(const std::string& what) const;

  WgslKernel result_;
  std::vector<ArrayRef> arrays_;
  std::vector<std::string> shared_;
  std::set<std::string> quads_;  // names of arrays
};

}  // namespace tensorgrad::wgsl
