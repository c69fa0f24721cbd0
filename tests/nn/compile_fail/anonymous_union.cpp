// expect: tensorgrad: a union cannot be walked
#include "walk.hpp"

struct Model {
  Tensor W;
  union {
    int id;
    float scale;
  };
};

void test(Model& model) { walk(model); }
