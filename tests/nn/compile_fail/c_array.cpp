// expect: tensorgrad: a C array member cannot be walked; use std::array
#include "walk.hpp"

struct Model {
  Tensor W[2];
};

void test(Model& model) { walk(model); }
