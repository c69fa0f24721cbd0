// expect: tensorgrad: a struct with a base class cannot be walked; make the base a member
#include "walk.hpp"

struct NoDefault {
  explicit NoDefault(int, int);
  Tensor W;
  TENSORGRAD_MEMBERS(W)
};

struct Model : NoDefault {
  NoDefault b;
};

void test(Model& model) { walk(model); }
