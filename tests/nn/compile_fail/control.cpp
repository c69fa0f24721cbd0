// expect success
#include "walk.hpp"

struct Model {
  Tensor W, b;
};

void test(Model& model) { walk(model); }
