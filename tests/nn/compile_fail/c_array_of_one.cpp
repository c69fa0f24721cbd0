// expect: tensorgrad: a C array member cannot be walked; use std::array
#include "walk.hpp"

struct Model {
  Tensor W;
  Tensor b[1];
};

void test(Model& model) { walk(model); }
