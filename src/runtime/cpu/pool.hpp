// The threads of a CPU device: started once, then fed lists of tasks.
//
// A step is a sequence of runs of some microseconds each, so a worker that has nothing to do
// spins for a moment before it sleeps, and a run allocates nothing. Which worker takes which
// task depends on the numbers alone, never on timing.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <type_traits>
#include <vector>

namespace tensorgrad::cpu {

// TENSORGRAD_THREADS if it is set, else the number of cores this process may use: its CPU
// affinity, one thread a core, and not more than its control group's quota allows. Throws
// tensorgrad::Error if the variable is not a number from 1 to 1024.
int default_threads();

class Pool {
 public:
  // `threads` counts the caller of run(), so threads - 1 are started.
  explicit Pool(int threads = default_threads());
  ~Pool();  // no run may be in progress
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int threads() const { return threads_; }

  using Task = void (*)(void* context, int64_t task, int worker);

  // Calls fn(context, task, worker) for every task in [0, tasks) and returns when all are
  // done. Worker w of T takes the tasks [w tasks / T, (w + 1) tasks / T) in order, where T is
  // threads() or tasks, whichever is less; worker 0 is the caller. Two calls with the same
  // worker never overlap, so scratch memory may be indexed by worker.
  //
  // Runs of several threads on one pool follow one another. A run inside a task of the same
  // pool is done by that task's worker alone, with its worker number.
  //
  // A task that throws ends its worker's share; the others go on, then the exception of the
  // lowest worker is rethrown here.
  void run(int64_t tasks, Task fn, void* context);

  // The same with a callable f(task, worker), which is not copied.
  template <class F>
  void run(int64_t tasks, F&& f) {
    using Callable = std::remove_reference_t<F>;
    run(
        tasks,
        [](void* context, int64_t task, int worker) {
          (*static_cast<Callable*>(context))(task, worker);
        },
        const_cast<std::remove_const_t<Callable>*>(std::addressof(f)));
  }

 private:
  struct Worker;

  void work(Worker& worker);
  void take_share(int worker) noexcept;
  void wait_for_workers();
  void stop();

  const int threads_;
  std::vector<std::unique_ptr<Worker>> workers_;  // [0] has no thread: it is the caller

  std::mutex one_run_;
  // The run in progress. Written under one_run_ while all workers are idle, and read by
  // those that were woken for it.
  Task fn_ = nullptr;
  void* context_ = nullptr;
  int64_t tasks_ = 0;
  int sharers_ = 0;
  bool stopping_ = false;

  struct Completion;
  std::unique_ptr<Completion> completion_;
};

}  // namespace tensorgrad::cpu
