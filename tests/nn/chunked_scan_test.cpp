// Mamba-2's scan by chunks against the recurrence it stands for, written out in plain loops.
#include <gtest/gtest.h>

#include <cmath>

#include "support/evaluate.hpp"
#include "tensorgrad/mamba.hpp"

namespace tensorgrad::test {
namespace {

struct Sizes {
  std::int64_t batch, length, heads, dim, groups, states;
};

Array random(Shape shape, double low, double high, std::uint64_t seed) {
  Rng rng(seed);
  Values values(static_cast<std::size_t>(shape.size()));
  for (double& value : values) value = low + rng.uniform() * (high - low);
  return {std::move(shape), values};
}

/// x, dt, A_log, B, C, D and the initial state.
std::vector<Array> arguments(const Sizes& s) {
  return {random({s.batch, s.length, s.heads, s.dim}, -1, 1, 1),
          random({s.batch, s.length, s.heads}, 0.01, 0.9, 2),
          random({s.heads}, -1, 1, 3),
          random({s.batch, s.length, s.groups, s.states}, -1, 1, 4),
          random({s.batch, s.length, s.groups, s.states}, -1, 1, 5),
          random({s.heads}, -1, 1, 6),
          random({s.batch, s.heads, s.dim, s.states}, -1, 1, 7)};
}

struct Scanned {
  Values y, state;
};

/// h ← e^{Δa}·h + Δ·x·Bᵀ, y = h·C + D·x, one number at a time.
Scanned recurrence(const Sizes& s, const std::vector<Array>& args) {
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  const Values &x = args[0].values, &dt = args[1].values, &A_log = args[2].values,
               &B = args[3].values, &C = args[4].values, &D = args[5].values;
  Scanned result{Values(x.size()), args[6].values};
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t t = 0; t < s.length; ++t) {
      for (std::int64_t h = 0; h < s.heads; ++h) {
        const std::int64_t group = h / (s.heads / s.groups);
        const double step = dt[at((b * s.length + t) * s.heads + h)];
        const double decay = std::exp(-step * std::exp(A_log[at(h)]));
        for (std::int64_t p = 0; p < s.dim; ++p) {
          const std::int64_t place = ((b * s.length + t) * s.heads + h) * s.dim + p;
          double y = D[at(h)] * x[at(place)];
          for (std::int64_t n = 0; n < s.states; ++n) {
            const std::int64_t bc = ((b * s.length + t) * s.groups + group) * s.states + n;
            double& state = result.state[at(((b * s.heads + h) * s.dim + p) * s.states + n)];
            state = decay * state + step * x[at(place)] * B[at(bc)];
            y += state * C[at(bc)];
          }
          result.y[at(place)] = y;
        }
      }
    }
  }
  return result;
}

Function chunked(std::int64_t chunk, bool state) {
  return [=](const std::vector<Tensor>& x) {
    const ScanResult scan = nn::chunked_scan(x[0], x[1], x[2], x[3], x[4], x[5],
                                             {.chunk = chunk, .initial_state = x[6]});
    return state ? scan.final_state : scan.y;
  };
}

TEST(ChunkedScan, IsTheRecurrenceForEveryLengthAroundTheChunk) {
  for (const std::int64_t length : {1, 2, 7, 8, 9, 15, 16, 17, 24}) {
    SCOPED_TRACE("length " + std::to_string(length));
    const Sizes s{2, length, 4, 3, 2, 5};
    const std::vector<Array> args = arguments(s);
    const Scanned want = recurrence(s, args);
    expect_near(evaluate(args, chunked(8, false)).values, want.y);
    expect_near(evaluate(args, chunked(8, true)).values, want.state);
  }
}

TEST(ChunkedScan, GroupsOfHeadsShareBAndC) {
  for (const std::int64_t groups : {1, 2, 3, 6}) {
    SCOPED_TRACE("groups " + std::to_string(groups));
    const Sizes s{1, 5, 6, 2, groups, 3};
    const std::vector<Array> args = arguments(s);
    const Scanned want = recurrence(s, args);
    expect_near(evaluate(args, chunked(2, false)).values, want.y);
    expect_near(evaluate(args, chunked(2, true)).values, want.state);
  }
}

TEST(ChunkedScan, TheChunkDoesNotMatter) {
  const Sizes s{1, 13, 2, 3, 1, 4};
  const std::vector<Array> args = arguments(s);
  const Scanned want = recurrence(s, args);
  for (const std::int64_t chunk : {1, 2, 5, 13, 64}) {
    SCOPED_TRACE("chunk " + std::to_string(chunk));
    expect_near(evaluate(args, chunked(chunk, false)).values, want.y);
  }
}

TEST(ChunkedScan, StartsFromZeroUnlessTold) {
  const Sizes s{2, 6, 2, 2, 1, 3};
  std::vector<Array> args = arguments(s);
  for (double& value : args[6].values) value = 0;
  const Values got = evaluate(args, [](const std::vector<Tensor>& x) {
                       return nn::chunked_scan(x[0], x[1], x[2], x[3], x[4], x[5], {.chunk = 4}).y;
                     }).values;
  expect_near(got, recurrence(s, args).y);
}

/// A decay so fast that its inverse is no number: what is masked must stay masked.
TEST(ChunkedScan, FastDecaysGiveNumbersAndGradients) {
  const Sizes s{1, 9, 2, 2, 1, 3};
  std::vector<Array> args = arguments(s);
  args[2].values = {9, 12};  // e^{−Δ·e^12}
  const Scanned want = recurrence(s, args);
  expect_near(evaluate(args, chunked(4, false)).values, want.y);
  for (const Values& gradient : gradients(args, chunked(4, false))) {
    for (const double value : gradient) EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(ChunkedScan, ErrorsNameTheOperand) {
  const auto with = [](Shape x, Shape dt, Shape B, std::int64_t chunk) {
    return [=] {
      const int line_heads = 4;
      nn::chunked_scan(zeros(x), zeros(dt), zeros({line_heads}), zeros(B), zeros(B),
                       zeros({line_heads}), {.chunk = chunk});
    };
  };
  expect_contains(error_of(with({2, 5, 4}, {2, 5, 4}, {2, 5, 2, 3}, 8)),
                  {"chunked_scan: x must be [batch, length, heads, dim]", "f32[2, 5, 4]"});
  expect_contains(error_of(with({2, 5, 4, 6}, {2, 5, 4}, {2, 5, 3, 3}, 8)),
                  {"groups divide the heads"});
  expect_contains(error_of(with({2, 5, 4, 6}, {2, 4, 4}, {2, 5, 2, 3}, 8)),
                  {"dt must be f32[2, 5, 4]", "not f32[2, 4, 4]"});
  expect_contains(error_of(with({2, 5, 4, 6}, {2, 5, 4}, {2, 5, 2, 3}, 0)),
                  {"the chunk must be 1 or more, not 0"});
}

}  // namespace
}  // namespace tensorgrad::test
