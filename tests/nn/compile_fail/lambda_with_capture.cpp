// expect: cannot be walked; list its members in its body with TENSORGRAD_MEMBERS(W, b)
#include "walk.hpp"

const auto lambda = [W = Tensor(1.0)] { return W; };

struct Model {
  std::decay_t<decltype(lambda)> layer;
};

void test(Model& model) { walk(model); }
