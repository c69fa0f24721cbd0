// expect: tensorgrad: a reference member cannot be walked; hold the object itself
#include "walk.hpp"

struct Model {
  Tensor W;
  const Tensor& tied;
};

void test(Model& model) { walk(model); }
