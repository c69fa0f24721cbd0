// expect: tensorgrad: a C array member cannot be walked; use std::array
#include "walk.hpp"

struct Model {
  std::unique_ptr<Tensor> W[2];
  Tensor b;
};

void test(Model& model) { walk(model); }
