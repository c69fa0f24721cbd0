// Runs tapes: the block interpreter. A BoundTape is a tape with its memory and functions; it is
// shared by all workers, each of which brings its own registers. Nothing is allocated in a run.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "codegen/cpu/tape.hpp"
#include "runtime/cpu/math.hpp"

namespace tensorgrad::cpu {

/// The first index out of range that a run met.
struct Failure {
  std::atomic<bool> failed{false};
  RangeTest test;
  std::int64_t value = 0;

  void record(const RangeTest& range, std::int64_t index) {
    if (failed.exchange(true)) return;
    test = range;
    value = index;
  }
};

/// What a worker lends to a tape.
struct WorkerMemory {
  char* registers = nullptr;  ///< Tape::register_bytes, 64-byte aligned
  void** slots = nullptr;     ///< one for each of the tape's slots
  float** bases = nullptr;    ///< room for the bindings, for callers that move one
  Failure* failure = nullptr;
};

class BoundTape {
 public:
  /// bases[k] is element 0 of binding k.
  BoundTape(Tape tape, std::vector<float*> bases);

  const Tape& tape() const { return tape_; }
  const std::vector<float*>& bases() const { return bases_; }

  /// Runs the outer points of some boxes. `bases` replaces the tape's own if given.
  void run(const WorkerMemory& memory, const Box* boxes, std::size_t count,
           float* const* bases = nullptr) const;

  // Long reductions of few outer blocks are shared out by inner steps: each part leaves its
  // accumulators of all outer blocks in `partials`, then `finish` combines them in order.
  std::int64_t partial_lanes() const { return partial_lanes_; }  ///< of one part
  void run_part(const WorkerMemory& memory, std::int64_t first_step, std::int64_t last_step,
                float* partials) const;
  void finish(const WorkerMemory& memory, const float* partials, int parts) const;

 private:
  struct Bound {
    Instruction i;
    Fn1 f1 = nullptr;
    Fn2 f2 = nullptr;
    Fn3 f3 = nullptr;
    bool by_rows = false;  ///< an operand is a number for each row
  };
  struct BoundSection {
    Section::Kind kind;
    std::vector<Address> addresses;
    std::vector<Bound> instructions;
    std::vector<int> reductions;  ///< those that accumulate over its steps
  };
  enum class Mode : std::uint8_t { All, Part, Finish };
  struct State;

  void begin(State& s, const WorkerMemory& memory, float* const* bases) const;
  void run_box(State& s, const Box& box) const;
  void run_block(State& s) const;
  void run_steps(State& s, const BoundSection& section) const;
  void move_accumulators(State& s, const BoundSection& section) const;
  void execute(State& s, const BoundSection& section) const;
  void execute_rows(State& s, const Bound& b) const;
  void set_lanes(State& s) const;

  void gather(State& s, const Instruction& i) const;
  void gather_rows(State& s, const Instruction& i) const;
  void gather_lanes(State& s, const Instruction& i) const;
  void scatter(State& s, const Instruction& i) const;
  void scatter_lanes(State& s, const Instruction& i) const;
  void add_rows(State& s, const Instruction& i) const;
  void clip_test(State& s, const Instruction& i) const;
  void in_range(State& s, const Instruction& i) const;
  void number(State& s, const Instruction& i) const;
  void reduce(State& s, const Instruction& i) const;

  Tape tape_;
  std::vector<float*> bases_;
  const Math& math_;
  std::vector<BoundSection> sections_;
  std::int64_t partial_lanes_ = 0;
};

/// The functions of an elementwise op for lanes of a dtype; exactly one of the pointers is set.
struct OpFunctions {
  Fn1 unary = nullptr;
  const Forms2* binary = nullptr;
  const Forms3* ternary = nullptr;
};
OpFunctions functions_of(const Math& math, OpKind op, DType from, DType to);
const Forms3* functions_of(const Math& math, Pair pair);

}  // namespace tensorgrad::cpu
