#include "runtime/cpu/pool.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tensorgrad/error.hpp"

namespace tensorgrad::cpu {
namespace {

TEST(Pool, RunsEveryTaskOnceOnItsWorker) {
  for (const int threads : {1, 2, 3, 7}) {
    Pool pool(threads);
    ASSERT_EQ(pool.threads(), threads);
    for (const int tasks : {0, 1, 2, 3, 8, 100}) {
      std::vector<int> worker_of(static_cast<size_t>(tasks), -1);
      std::vector<int> calls(static_cast<size_t>(tasks), 0);
      pool.run(tasks, [&](int64_t task, int worker) {
        worker_of[static_cast<size_t>(task)] = worker;
        ++calls[static_cast<size_t>(task)];
      });
      const int sharers = std::min(threads, tasks);
      for (int w = 0; w < sharers; ++w) {
        for (int t = tasks * w / sharers; t < tasks * (w + 1) / sharers; ++t) {
          EXPECT_EQ(worker_of[static_cast<size_t>(t)], w);
          EXPECT_EQ(calls[static_cast<size_t>(t)], 1);
        }
      }
    }
  }
}

TEST(Pool, TheCallerIsWorkerZero) {
  Pool pool(3);
  std::vector<std::thread::id> ids(3);
  pool.run(3, [&](int64_t, int worker) {
    ids[static_cast<size_t>(worker)] = std::this_thread::get_id();
  });
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  EXPECT_NE(ids[1], ids[0]);
  EXPECT_NE(ids[2], ids[1]);
}

TEST(Pool, ManySmallRunsSeeEachOthersWrites) {
  Pool pool(2);
  std::vector<int64_t> sums(64, 0);  // plain memory: the runs order the accesses
  for (int run = 0; run < 20000; ++run) {
    pool.run(64, [&](int64_t task, int) { sums[static_cast<size_t>(63 - task)] += task; });
    pool.run(64, [&](int64_t task, int) { sums[static_cast<size_t>(task)] += 1; });
  }
  for (int64_t i = 0; i < 64; ++i) EXPECT_EQ(sums[static_cast<size_t>(i)], 20000 * (63 - i + 1));
}

TEST(Pool, WakesWorkersThatSleep) {
  Pool pool(4);
  std::atomic<int> calls{0};
  for (int run = 0; run < 20; ++run) {
    pool.run(4, [&](int64_t, int) { ++calls; });
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // longer than they spin
  }
  EXPECT_EQ(calls, 80);
}

TEST(Pool, WaitsForAWorkerThatIsSlow) {
  Pool pool(2);
  bool done = false;
  pool.run(2, [&](int64_t, int worker) {
    if (worker == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    done = true;
  });
  EXPECT_TRUE(done);
}

TEST(Pool, AnExceptionReachesTheCallerAndThePoolGoesOn) {
  Pool pool(3);
  for (const int thrower : {0, 1, 2}) {
    std::atomic<int> calls{0};
    try {
      pool.run(6, [&](int64_t task, int worker) {
        ++calls;
        if (worker == thrower) throw std::runtime_error("task " + std::to_string(task));
      });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& e) {
      EXPECT_EQ(e.what(), "task " + std::to_string(2 * thrower));
    }
    EXPECT_EQ(calls, 5);  // the second task of the thrower is skipped
  }
  int calls = 0;
  pool.run(1, [&](int64_t, int) { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST(Pool, OfSeveralExceptionsTheLowestWorkersWins) {
  Pool pool(4);
  for (int run = 0; run < 100; ++run) {
    try {
      pool.run(4, [](int64_t, int worker) {
        if (worker > 0) throw worker;
      });
      FAIL() << "nothing was thrown";
    } catch (const int worker) {
      EXPECT_EQ(worker, 1);
    }
  }
}

TEST(Pool, SeveralCallersTakeTurns) {
  Pool pool(2);
  std::vector<int> counts(8, 0);  // plain memory: two runs at once would be a race
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int run = 0; run < 500; ++run) {
        pool.run(8, [&](int64_t task, int) { ++counts[static_cast<size_t>(task)]; });
      }
    });
  }
  for (auto& caller : callers) caller.join();
  for (const int count : counts) EXPECT_EQ(count, 2000);
}

TEST(Pool, ARunInsideATaskIsDoneByItsWorker) {
  Pool pool(2);
  std::vector<int> inner_worker(2, -1);
  std::vector<int> calls(2, 0);
  pool.run(2, [&](int64_t task, int worker) {
    pool.run(5, [&](int64_t, int inner) {
      inner_worker[static_cast<size_t>(task)] = inner;
      ++calls[static_cast<size_t>(task)];
    });
    EXPECT_EQ(inner_worker[static_cast<size_t>(task)], worker);
  });
  EXPECT_EQ(calls, (std::vector<int>{5, 5}));
}

TEST(Pool, StartsAndStopsWithoutARun) {
  for (int i = 0; i < 50; ++i) Pool pool(3);
}

class ThreadsVariable : public ::testing::Test {
 protected:
  void TearDown() override { unsetenv("TENSORGRAD_THREADS"); }
};

TEST_F(ThreadsVariable, SetsTheDefault) {
  setenv("TENSORGRAD_THREADS", "3", 1);
  EXPECT_EQ(default_threads(), 3);
  EXPECT_EQ(Pool().threads(), 3);
  unsetenv("TENSORGRAD_THREADS");
  EXPECT_GE(default_threads(), 1);
  EXPECT_LE(default_threads(), static_cast<int>(std::thread::hardware_concurrency()));
}

TEST_F(ThreadsVariable, IsNamedInTheErrorWhenItIsNoNumber) {
  for (const char* wrong : {"many", "0", "-2", "4x", "99999"}) {
    setenv("TENSORGRAD_THREADS", wrong, 1);
    try {
      default_threads();
      FAIL() << wrong << " was taken";
    } catch (const Error& e) {
      EXPECT_EQ(std::string(e.what()), "TENSORGRAD_THREADS is \"" + std::string(wrong) +
                                           "\"; expected a number from 1 to 1024.");
    }
  }
}

}  // namespace
}  // namespace tensorgrad::cpu
