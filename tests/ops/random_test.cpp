#include "tensorgrad/random.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "support/evaluate.hpp"
#include "tensorgrad/ops.hpp"

namespace tensorgrad::test {
namespace {

/// What `f` draws with the keys of seed and step.
Values draw(const std::function<Tensor()>& f, std::uint64_t seed = 1, std::int64_t step = 0) {
  Graph graph;
  Tensor result;
  trace_into(graph, [&] { result = f(); });
  std::map<std::string, Values> feeds;
  for (int stream = 0; stream < graph.random_streams; ++stream) {
    const auto key = random_key(seed, stream, step);
    feeds[random_input(stream)] = Values(key.begin(), key.end());
  }
  return reference::Interpreter(graph).run(feeds)[static_cast<std::size_t>(result.id())];
}

double mean_of(const Values& values) {
  double sum = 0;
  for (double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

/// The largest distance between the empirical and the given distribution, times √n: above 1.95 once
/// in a thousand draws (Kolmogorov).
double kolmogorov(Values values, const std::function<double(double)>& distribution) {
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  double distance = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double p = distribution(values[i]);
    distance =
        std::max({distance, p - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - p});
  }
  return distance * std::sqrt(n);
}

// The known answers of the Random123 library.
TEST(Threefry, GivesThePublishedAnswers) {
  EXPECT_EQ(threefry({0, 0}, {0, 0}), (Words{0x6b200159, 0x99ba4efe}));
  EXPECT_EQ(threefry({0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x1cb996fc, 0xbb002be7}));
  EXPECT_EQ(threefry({0x243f6a88, 0x85a308d3}, {0x13198a2e, 0x03707344}),
            (Words{0xc4923a9c, 0x483df7a0}));
}

TEST(RandomKey, DiffersBySeedStreamAndStep) {
  std::set<std::array<std::int32_t, 2>> keys;
  for (std::uint64_t seed : {0, 1, 2, 1000})
    for (int stream = 0; stream < 20; ++stream)
      for (std::int64_t step = 0; step < 50; ++step) keys.insert(random_key(seed, stream, step));
  EXPECT_EQ(keys.size(), 4u * 20 * 50);
}

TEST(RandomStream, IsReadFromItsInputsName) {
  EXPECT_EQ(random_stream(random_input(12)), 12);
  EXPECT_EQ(random_stream("random."), -1);
  EXPECT_EQ(random_stream("random.1x"), -1);
  EXPECT_EQ(random_stream("x"), -1);
}

TEST(Uniform, IsUniform) {
  const Values values = draw([] { return uniform({100, 200}, -1, 3); });
  EXPECT_LT(kolmogorov(values, [](double x) { return (x + 1) / 4; }), 1.95);
  EXPECT_GE(*std::min_element(values.begin(), values.end()), -1);
  EXPECT_LT(*std::max_element(values.begin(), values.end()), 3);
  EXPECT_GT(std::set<double>(values.begin(), values.end()).size(), 19900u);
}

TEST(Randn, IsNormal) {
  const Values values = draw([] { return randn({20000}); });
  EXPECT_LT(kolmogorov(values, [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }),
            1.95);
}

TEST(Uniform, OfTwoCallsOrTwoStepsIsIndependent) {
  const Values x = draw([] { return uniform({10000}) - uniform({10000}); });
  double squares = 0;
  for (double v : x) squares += v * v;
  EXPECT_NEAR(squares / 10000, 1.0 / 6, 0.01);  // 0 if they were equal
  const auto one = [] { return uniform({8}); };
  EXPECT_EQ(draw(one, 1, 5), draw(one, 1, 5));
  EXPECT_NE(draw(one, 1, 5), draw(one, 1, 6));
  EXPECT_NE(draw(one, 1, 5), draw(one, 2, 5));
}

TEST(Categorical, DrawsWithTheProbabilitiesOfTheLogits) {
  const std::vector<float> p{0.5f, 0.25f, 0, 0.125f, 0.125f};
  const int n = 40000;
  const Values drawn = draw([&] {
    return categorical(broadcast_to(log(constant(p, {5})), {n, 5}));
  });
  for (std::size_t k = 0; k < p.size(); ++k) {
    const auto count = std::count(drawn.begin(), drawn.end(), static_cast<double>(k));
    const double sigma = std::sqrt(n * p[k] * (1 - p[k]));
    EXPECT_NEAR(static_cast<double>(count), n * p[k], 4 * sigma) << k;
  }
}

TEST(Dropout, DropsItsShareAndKeepsTheMean) {
  const Values values = draw([] { return dropout(ones({40000}), 0.3); });
  const auto dropped = std::count(values.begin(), values.end(), 0.0);
  EXPECT_NEAR(static_cast<double>(dropped) / 40000, 0.3, 0.01);
  EXPECT_NEAR(mean_of(values), 1, 0.015);
  for (double v : values) EXPECT_TRUE(v == 0 || std::abs(v - 1 / 0.7) < 1e-6) << v;
}

TEST(Dropout, IsTheIdentityWhereNothingIsTrained) {
  Graph graph;
  graph.training = false;
  trace_into(graph, [] {
    const Tensor x = tensor_input("x", {4});
    EXPECT_EQ(dropout(x, 0.5).id(), x.id());
  });
  EXPECT_EQ(graph.random_streams, 0);
}

TEST(Dropout, RefusesWhatIsNoProbability) {
  const std::string text = error_of<ShapeError>([] { dropout(ones({2}), 1.5); });
  expect_contains(
      text, {"dropout: the probability must be between 0 and 1, not 1.5.", "random_test.cpp:"});
}

}  // namespace
}  // namespace tensorgrad::test
