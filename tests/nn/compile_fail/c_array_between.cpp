// expect: tensorgrad: a C array member cannot be walked; use std::array
#include "walk.hpp"

struct Model {
  Tensor W;
  float scale[3];
  Tensor b;
};

void test(Model& model) { walk(model); }
