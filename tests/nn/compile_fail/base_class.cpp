// expect: tensorgrad: a struct with a base class cannot be walked; make the base a member
#include "walk.hpp"

struct Layer {
  Tensor W;
};

struct Model : Layer {
  Tensor b;
};

void test(Model& model) { walk(model); }
