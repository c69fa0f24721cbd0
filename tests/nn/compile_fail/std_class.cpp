// expect: vector, array, optional, tuple, pair, map, unique_ptr and shared_ptr are walked
#include "walk.hpp"

struct Model {
  std::weak_ptr<Tensor> W;
};

void test(Model& model) { walk(model); }
