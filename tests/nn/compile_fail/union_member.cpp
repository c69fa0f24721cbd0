// expect: tensorgrad: a union cannot be walked
#include "walk.hpp"

union Either {
  int id;
  float scale;
};

struct Model {
  Tensor W;
  Either either;
};

void test(Model& model) { walk(model); }
