// Index maps: simplification keeps their values, and undoes reshapes.
#include "tensorgrad/index.hpp"

#include <gtest/gtest.h>

#include "schedule/fusion.hpp"

namespace tensorgrad::test {
namespace {

/// The value of an index at a point, by the definition of its atoms.
std::int64_t value(const Index& index, const std::vector<std::int64_t>& point) {
  std::int64_t sum = index.constant();
  for (const Index::Term& t : index.terms()) {
    std::int64_t v = 0;
    if (t.atom->kind == IndexAtom::Kind::Var) {
      v = point[static_cast<std::size_t>(t.atom->id)];
    } else {
      const std::int64_t arg = value(*t.atom->arg, point), d = t.atom->divisor;
      const std::int64_t q = arg >= 0 ? arg / d : -((-arg + d - 1) / d);
      v = t.atom->kind == IndexAtom::Kind::Div ? q : arg - q * d;
    }
    sum += t.coefficient * v;
  }
  return sum;
}

TEST(Index, SimplifiesWhatDividesEvenly) {
  const Index i = Index::var(0, 5), j = Index::var(1, 8);
  EXPECT_EQ((i * 8 + j).div(8).to_string(), "i0");
  EXPECT_EQ((i * 8 + j).mod(8).to_string(), "i1");
  EXPECT_EQ((i * 8 + j).div(4).to_string(), "(i1)/4 + 2*i0");
  EXPECT_EQ((i * 8 + j).div(8) * 8 + (i * 8 + j).mod(8), i * 8 + j);
}

/// All shapes of up to three axes with so many elements.
std::vector<Shape> shapes_of(std::int64_t size) {
  std::vector<Shape> shapes;
  for (std::int64_t a = 1; a <= size; ++a) {
    for (std::int64_t b = 1; size % a == 0 && b <= size / a; ++b) {
      if (size / a % b == 0) shapes.push_back(Shape{a, b, size / a / b});
    }
  }
  return shapes;
}

TEST(Index, ReshapesThereAndBackAreTheIdentity) {
  for (std::int64_t size : {12, 30, 64, 112, 240}) {
    const std::vector<Shape> shapes = shapes_of(size);
    for (const Shape& a : shapes) {
      std::vector<Index> at;
      for (int axis = 0; axis < 3; ++axis) at.push_back(Index::var(axis, a[axis]));
      for (const Shape& b : shapes) {
        ASSERT_EQ(ravel(unravel(ravel(at, a), b), b).to_string(), ravel(at, a).to_string())
            << a.to_string() << " as " << b.to_string();
      }
    }
  }
}

TEST(Index, SimplificationKeepsValues) {
  const std::int64_t extents[] = {3, 4, 6};
  const Index i = Index::var(0, 3), j = Index::var(1, 4), k = Index::var(2, 6);
  for (std::int64_t a : {0, 1, 4, 24, -3}) {
    for (std::int64_t b : {1, 6, 5}) {
      for (std::int64_t c : {-7, 0, 2, 13}) {
        for (std::int64_t d : {2, 3, 4, 6, 12, 24}) {
          const Index x = i * a + j * b + k + c;
          for (std::int64_t p = 0; p < extents[0] * extents[1] * extents[2]; ++p) {
            const std::vector<std::int64_t> point{p / 24, p / 6 % 4, p % 6};
            const std::int64_t v = value(x, point), q = v >= 0 ? v / d : -((-v + d - 1) / d);
            ASSERT_EQ(value(x.div(d), point), q)
                << "(" << x.to_string() << ")/" << d << " = " << x.div(d).to_string();
            ASSERT_EQ(value(x.mod(d), point), v - q * d) << "(" << x.to_string() << ")%" << d;
            ASSERT_EQ(value(x.div(d) * d + x.mod(d), point), v);
            const Index y = x.div(d) + i * 5 + j;  // a quotient inside another
            const std::int64_t w = q + point[0] * 5 + point[1];
            ASSERT_EQ(value(y.div(3), point), w >= 0 ? w / 3 : -((-w + 2) / 3)) << y.to_string();
            ASSERT_EQ(value(y.div(3) * 3 + y.mod(3), point), w) << y.to_string();
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace tensorgrad::test
