// expect: tensorgrad: a struct with a base class cannot be walked; make the base a member
#include "walk.hpp"

struct Tag {};

struct Model : Tag {
  Tensor W;
};

void test(Model& model) { walk(model); }
