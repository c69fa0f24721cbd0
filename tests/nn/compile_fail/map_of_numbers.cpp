// expect: tensorgrad: a std::map can be walked only if its keys
#include "walk.hpp"

struct Model {
  std::map<int, Tensor> heads;
};

void test(Model& model) { walk(model); }
