// Kernels made ready to run on the CPU: the general kind (a tape), and those with a hint that get
// an implementation of their own with tapes around it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cpu/pool.hpp"
#include "runtime/cpu/runner.hpp"

namespace tensorgrad::cpu {

/// What a kernel needs from each worker, in bytes, slots and bindings.
struct Needs {
  std::size_t registers = 0, slots = 0, bases = 0;
  std::size_t scratch = 0;  ///< bytes for each worker
  std::size_t shared = 0;   ///< bytes for all workers together

  void cover(const Needs& other);
  void cover(const Tape& tape, std::size_t bindings);
};

/// Where a run finds its workers and their memory.
struct Workers {
  Pool* pool = nullptr;
  std::vector<WorkerMemory> memory;  ///< by worker
  std::vector<char*> scratch;        ///< by worker
  char* shared = nullptr;
};

class CpuKernel {
 public:
  virtual ~CpuKernel() = default;
  virtual void run(const Workers& workers) const = 0;
  virtual Needs needs() const = 0;
  /// `tape rows [..]`, `gemm portable AVX3`: how it runs, for listings and tests.
  virtual std::string description() const = 0;
};

/// Work (Tape::work) below which a second worker is not woken.
inline constexpr double kLeastWork = 32 << 10;

struct KernelContext {
  int threads = 1;
  std::int64_t lanes = 0;  ///< TapeOptions::lanes
  double least_work = kLeastWork;
  std::vector<float*> buffers;  ///< by plan buffer
};

/// Whether a hint went unused because it did not fit: such kernels are right, but slow.
struct KernelNotes {
  bool unused_hint = false;
};

std::unique_ptr<CpuKernel> make_kernel(const Kernel& kernel, const KernelContext& context,
                                       KernelNotes* notes = nullptr);

// ---- the kinds

std::vector<float*> binding_bases(const Kernel& kernel, const KernelContext& context);
std::unique_ptr<CpuKernel> make_tape_kernel(const Kernel& kernel, const KernelContext& context);
std::unique_ptr<CpuKernel> make_special_kernel(const Kernel& kernel, const KernelContext& context);
/// Null where the hint does not fit.
std::unique_ptr<CpuKernel> make_matmul_kernel(const Kernel& kernel, const KernelContext& context);
std::unique_ptr<CpuKernel> make_scatter_kernel(const Kernel& kernel, const KernelContext& context);

/// A tape and how its outer blocks are shared out to the workers; or, where there are too few of
/// them, the steps of its reductions.
class TapeTasks {
 public:
  /// Blocks come in groups of `unit`, which one worker takes in order.
  TapeTasks(Tape tape, std::vector<float*> bases, const KernelContext& context,
            std::int64_t unit = 1);

  /// `moved` is the memory of binding `binding` in this run, if it is not the tape's own.
  void run(const Workers& workers, int binding = -1, float* moved = nullptr) const;
  Needs needs() const;
  const Tape& tape() const { return tape_.tape(); }

 private:
  void run_parts(const Workers& workers) const;

  BoundTape tape_;
  std::vector<std::vector<Box>> tasks_;
  int parts_ = 0;
};

/// The kernel that remains when a backend computes expression `id` itself: it is loaded from
/// element `index` of `binding` instead; what is then unused is blank, and there are no inner
/// variables.
Kernel without_reduction(const Kernel& kernel, ExprId id, int binding, const Index& index);

/// Blanks the expressions that neither stores nor `roots` use, so that their maps do not count.
void blank_unused(Kernel& kernel, const std::vector<ExprId>& roots = {});

/// Whether the hinted reduction is the kernel's only one and all stores are outer.
bool is_simple_epilogue(const Kernel& kernel, ExprId reduction);

/// Whether two bindings may share memory.
bool overlap(const Binding& a, const Binding& b);

}  // namespace tensorgrad::cpu
