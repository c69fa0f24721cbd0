// expect: tensorgrad: a raw pointer member cannot be walked; hold the object itself
#include "walk.hpp"

struct Model {
  Tensor W;
  const float* data;
};

void test(Model& model) { walk(model); }
