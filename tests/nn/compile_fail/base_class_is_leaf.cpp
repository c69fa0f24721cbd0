// expect: tensorgrad: a struct with a base class cannot be walked; make the base a member
#include "walk.hpp"

struct Model : Tensor {
  int id;
};

void test(Model& model) { walk(model); }
