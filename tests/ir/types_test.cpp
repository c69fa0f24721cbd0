// Shapes, types, sites and the random source.
#include <gtest/gtest.h>

#include <cmath>

#include "ir/text.hpp"
#include "support/evaluate.hpp"

namespace tensorgrad::test {

TEST(Shape, CountsElementsAndStrides) {
  EXPECT_EQ((Shape{2, 3, 4}).size(), 24);
  EXPECT_EQ((Shape{2, 3, 4}).strides(), (std::vector<std::int64_t>{12, 4, 1}));
  EXPECT_EQ(Shape{}.size(), 1);
  EXPECT_TRUE(Shape{}.strides().empty());
}

TEST(Types, PrintAsTheUserReadsThem) {
  EXPECT_EQ((TensorType{i32, {256, 64}}).to_string(), "i32[256, 64]");
  EXPECT_EQ((TensorType{boolean, {}}).to_string(), "bool[]");
  EXPECT_EQ((TensorType{f32, {3, 5}}).bytes(), 60);
}

TEST(Site, ShowsTheFileWithoutItsFolders) {
  EXPECT_EQ((Site{"src/models/mlp.cpp", 12}).to_string(), "mlp.cpp:12");
  EXPECT_EQ((Site{"mlp.cpp", 3}).to_string(), "mlp.cpp:3");
  EXPECT_EQ(Site{}.to_string(), "");
  EXPECT_EQ(Site::here().line, __LINE__);
}

TEST(NumberText, IsShortAndReadsBack) {
  EXPECT_EQ(number_text(0.1f), "0.1");
  EXPECT_EQ(number_text(1.0 / 3.0), "0.3333333333333333");
  EXPECT_EQ(number_text(-2), "-2");
  EXPECT_EQ(number_text(INFINITY), "inf");
  EXPECT_EQ(number_text(-INFINITY), "-inf");
  EXPECT_EQ(number_text(NAN), "nan");
}

TEST(Tensor, GivesAxesFromEitherEnd) {
  Graph graph;
  trace_into(graph, [] {
    const Tensor x = tensor_input("x", {2, 3});
    EXPECT_EQ(x.shape(0), 2);
    EXPECT_EQ(x.shape(-1), 3);
    EXPECT_THROW(x.shape(2), ShapeError);
  });
}

TEST(Tensor, ThatIsEmptySaysSo) {
  try {
    Tensor().shape();
    FAIL();
  } catch (const Error& error) {
    expect_contains(error.what(), {"empty"});
  }
}

TEST(Rng, GivesTheSameNumbersEverywhere) {
  Rng rng(42);
  EXPECT_EQ(rng.next(), 13679457532755275413ULL);  // SplitMix64's own first value for 42
  double sum = 0, squares = 0;
  constexpr int kCount = 20000;
  for (int k = 0; k < kCount; ++k) {
    const double x = rng.normal();
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.03);
  EXPECT_NEAR(squares / kCount, 1, 0.03);
}

}  // namespace tensorgrad::test
