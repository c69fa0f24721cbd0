// expect: tensorgrad: a C array member cannot be walked; use std::array
#include "walk.hpp"

struct Layer {
  Tensor W, b;
};

struct Model {
  Layer layers[4];
  Tensor scale = 1.0;
};

void test(Model& model) { walk(model); }
