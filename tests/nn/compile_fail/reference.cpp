// expect: tensorgrad: a reference member cannot be walked; hold the object itself
#include "walk.hpp"

struct Model {
  Tensor W;
  Tensor& tied;
  int n = 0;
};

void test(Model& model) { walk(model); }
