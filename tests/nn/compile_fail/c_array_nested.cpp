// expect: tensorgrad: a C array member cannot be walked; use std::array
#include "walk.hpp"

struct Layer {
  Tensor W[2];
};

struct Model {
  std::vector<Layer> layers;
};

void test(Model& model) { walk(model); }
