// expect: tensorgrad: TENSORGRAD_MEMBERS takes names of members
#include "walk.hpp"

template <class A, class B>
struct Layer {
  Tensor W;
};

struct Model : Layer<int, int> {
  TENSORGRAD_MEMBERS(Layer<int, int>::W)
};

void test(Model& model) { walk(model); }
