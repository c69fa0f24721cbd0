// expect: tensorgrad: a std::unordered_map cannot be walked
#include "walk.hpp"

struct Model {
  std::unordered_map<std::string, Tensor> heads;
};

void test(Model& model) { walk(model); }
