// expect: tensorgrad: a C array member cannot be walked; use std::array
#include "walk.hpp"

struct Model {
  Tensor W;
  Tensor heads[2][3];
  char name[8];
};

void test(Model& model) { walk(model); }
