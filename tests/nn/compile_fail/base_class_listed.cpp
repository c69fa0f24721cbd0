// expect: tensorgrad: a struct with a base class cannot be walked; make the base a member
#include "walk.hpp"

// The base's list must not stand for the members of the derived class.
struct Layer {
  Tensor W;
  TENSORGRAD_MEMBERS(W)
};

struct Model : Layer {
  Tensor b;
};

void test(Model& model) { walk(model); }
