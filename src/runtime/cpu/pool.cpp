#include "runtime/cpu/pool.hpp"

#include <algorithm>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <utility>

#ifdef __linux__
#include <sched.h>
#endif

#include "runtime/control_groups.hpp"
#include "tensorgrad/error.hpp"

namespace tensorgrad::cpu {
namespace {

constexpr auto kSpin = std::chrono::microseconds(30);
constexpr size_t kCacheLine = 64;
#if defined(__EMSCRIPTEN__) && !defined(__EMSCRIPTEN_PTHREADS__)
constexpr int kMaxThreads = 1;  // the calling one: there are no others
#else
constexpr int kMaxThreads = 1024;
#endif

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until ready() or the time is up; says which.
template <class Ready>
bool spin_until(Ready ready) {
  if (ready()) return true;
  const auto deadline = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      pause();
      if (ready()) return true;
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

// One side waits for a condition on an atomic, the other changes that atomic and then calls
// wake(). The waiter raises its flag before it looks again, the waker looks at the flag after
// the change; all four are sequentially consistent, so one of the two sees the other.
class Waiter {
 public:
  template <class Ready>
  void wait(Ready ready) {
    if (spin_until(ready)) return;
    std::unique_lock lock(mutex_);
    asleep_.store(true);
    changed_.wait(lock, ready);
    asleep_.store(false);
  }

  void wake() {
    if (!asleep_.load()) return;
    { std::lock_guard lock(mutex_); }  // the waiter is inside wait(), or has seen the change
    changed_.notify_one();
  }

 private:
  std::atomic<bool> asleep_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
};

// The pool whose task this thread is in, and as which worker.
thread_local const Pool* current_pool = nullptr;
thread_local int current_worker = 0;

#ifdef __linux__

// The logical CPUs of this process, and how many cores they are on (0 if unknown).
std::pair<int, int> affinity() {
  // The mask of a large machine needs more than the 1,024 bits of a plain cpu_set_t.
  for (int capacity = 1024; capacity <= (1 << 18); capacity *= 4) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(capacity));
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(capacity));
    if (set == nullptr) break;
    if (sched_getaffinity(0, bytes, set) != 0) {
      CPU_FREE(set);
      continue;
    }
    std::set<std::pair<int, int>> cores;
    bool known = true;
    for (int cpu = 0; cpu < capacity && known; ++cpu) {
      if (!CPU_ISSET_S(static_cast<size_t>(cpu), bytes, set)) continue;
      const std::string dir = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
      int package = -1, core = -1;
      known = static_cast<bool>(std::ifstream(dir + "physical_package_id") >> package) &&
              static_cast<bool>(std::ifstream(dir + "core_id") >> core);
      cores.insert({package, core});
    }
    const int cpus = CPU_COUNT_S(bytes, set);
    CPU_FREE(set);
    return {cpus, known ? static_cast<int>(cores.size()) : 0};
  }
  return {0, 0};
}

int whole_cpus(long long quota, long long period) {
  if (quota <= 0 || period <= 0) return INT_MAX;
  return static_cast<int>(std::clamp<long long>((quota + period - 1) / period, 1, INT_MAX));
}

// The quota of one control group in whole CPUs, rounded up; INT_MAX if it has none.
int group_quota_v2(const std::string& dir) {
  std::ifstream file(dir + "/cpu.max");
  std::string quota;
  long long period = 0;
  if (!(file >> quota >> period) || quota == "max") return INT_MAX;
  return whole_cpus(std::atoll(quota.c_str()), period);
}
int group_quota_v1(const std::string& dir) {
  long long quota = 0, period = 0;
  if (!(std::ifstream(dir + "/cpu.cfs_quota_us") >> quota)) return INT_MAX;
  if (!(std::ifstream(dir + "/cpu.cfs_period_us") >> period)) return INT_MAX;
  return whole_cpus(quota, period);
}

// The least quota of this process's control group and the groups around it.
int quota() {
  int least = INT_MAX;
  for_each_control_group("cpu", [&](const std::string& folder, bool unified) {
    least = std::min(least, unified ? group_quota_v2(folder) : group_quota_v1(folder));
  });
  return least;
}

int usable_cores() {
  const auto [cpus, cores] = affinity();
  // Two threads a core is all there is on x86; virtual machines may tell stranger things.
  const int trusted = cores > 0 && cores * 2 >= cpus ? cores : cpus;
  return std::min(trusted, quota());
}

#else

int usable_cores() { return static_cast<int>(std::thread::hardware_concurrency()); }

#endif

}  // namespace

int default_threads() {
  if (const char* text = std::getenv("TENSORGRAD_THREADS"); text != nullptr && *text != '\0') {
    char* end = nullptr;
    const long threads = std::strtol(text, &end, 10);
    if (*end != '\0' || threads < 1 || threads > 1024) {
      throw Error("TENSORGRAD_THREADS is \"" + std::string(text) +
                  "\"; expected a number from 1 to 1024.");
    }
    return static_cast<int>(threads);
  }
  return std::clamp(usable_cores(), 1, kMaxThreads);
}

struct alignas(kCacheLine) Pool::Worker {
  std::atomic<uint32_t> posted{0};  // counts the runs this worker was woken for
  Waiter waiter;
  int index = 0;
  std::exception_ptr error;
  std::thread thread;
};

struct alignas(kCacheLine) Pool::Completion {
  std::atomic<int> pending{0};  // workers that have not finished their share
  Waiter waiter;
};

Pool::Pool(int threads)
    : threads_(std::clamp(threads, 1, kMaxThreads)), completion_(std::make_unique<Completion>()) {
  try {
    for (int i = 0; i < threads_; ++i) {
      workers_.push_back(std::make_unique<Worker>());
      workers_.back()->index = i;
    }
    for (int i = 1; i < threads_; ++i) {
      Worker& worker = *workers_[static_cast<size_t>(i)];
      worker.thread = std::thread([this, &worker] { work(worker); });
    }
  } catch (...) {
    stop();
    throw;
  }
}

Pool::~Pool() { stop(); }

void Pool::stop() {
  stopping_ = true;
  for (const auto& worker : workers_) {
    if (!worker->thread.joinable()) continue;
    worker->posted.fetch_add(1);
    worker->waiter.wake();
    worker->thread.join();
  }
}

void Pool::run(int64_t tasks, Task fn, void* context) {
  if (tasks <= 0) return;
  if (current_pool == this) {
    for (int64_t task = 0; task < tasks; ++task) fn(context, task, current_worker);
    return;
  }
  std::lock_guard lock(one_run_);
  fn_ = fn;
  context_ = context;
  tasks_ = tasks;
  sharers_ = static_cast<int>(std::min<int64_t>(threads_, tasks));
  completion_->pending.store(sharers_ - 1, std::memory_order_relaxed);
  for (int i = 1; i < sharers_; ++i) {
    Worker& worker = *workers_[static_cast<size_t>(i)];
    worker.posted.fetch_add(1);
    worker.waiter.wake();
  }
  take_share(0);
  completion_->waiter.wait([this] { return completion_->pending.load() == 0; });

  std::exception_ptr first;
  for (int i = sharers_ - 1; i >= 0; --i) {
    auto& error = workers_[static_cast<size_t>(i)]->error;
    if (error) first = std::exchange(error, nullptr);
  }
  if (first) std::rethrow_exception(first);
}

void Pool::work(Worker& worker) {
  uint32_t done = 0;
  for (;;) {
    worker.waiter.wait([&] { return worker.posted.load() != done; });
    ++done;
    if (stopping_) return;
    take_share(worker.index);
    if (completion_->pending.fetch_sub(1) == 1) completion_->waiter.wake();
  }
}

void Pool::take_share(int index) noexcept {
  // A task of another pool may have led here; its place is restored at the end.
  const Pool* const outer_pool = std::exchange(current_pool, this);
  const int outer_worker = std::exchange(current_worker, index);
  try {
    const int64_t end = tasks_ * (index + 1) / sharers_;
    for (int64_t task = tasks_ * index / sharers_; task < end; ++task) {
      fn_(context_, task, index);
    }
  } catch (...) {
    workers_[static_cast<size_t>(index)]->error = std::current_exception();
  }
  current_pool = outer_pool;
  current_worker = outer_worker;
}

}  // namespace tensorgrad::cpu
