// expect: cannot be walked; list its members in its body with TENSORGRAD_MEMBERS(W, b)
#include "walk.hpp"

struct Layer {
  Tensor W;
  TENSORGRAD_MEMBERS(W)
};

struct Model : Layer {
  Model();
  Tensor b;
};

void test(Model& model) { walk(model); }
