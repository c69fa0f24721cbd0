// expect: tensorgrad: a pointer to a C array cannot be walked
#include "walk.hpp"

struct Model {
  std::unique_ptr<Tensor[]> W;
};

void test(Model& model) { walk(model); }
