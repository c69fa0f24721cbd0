// expect: tensorgrad: a C array member cannot be walked; use std::array
#include "walk.hpp"

struct NoDefault {
  explicit NoDefault(int, int);
  Tensor W;
  TENSORGRAD_MEMBERS(W)
};

struct Model {
  NoDefault first;
  NoDefault layers[2];
  NoDefault last;
};

void test(Model& model) { walk(model); }
