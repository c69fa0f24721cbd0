// expect: the members of this struct cannot be counted; use std::array if it has a C array
#include "walk.hpp"

struct Model {
  float table[1000];
  Tensor W;
};

void test(Model& model) { walk(model); }
