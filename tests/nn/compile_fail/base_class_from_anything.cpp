// expect: tensorgrad: a struct with a base class cannot be walked; make the base a member
#include "walk.hpp"

struct Base {
  template <class T>
  Base(T&&);
};

struct Model : Base {
  Tensor W;
};

void test(Model& model) { walk(model); }
