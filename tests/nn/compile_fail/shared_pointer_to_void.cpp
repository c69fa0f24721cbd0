// expect: tensorgrad: a member of this type cannot be walked
#include "walk.hpp"

struct Model {
  std::shared_ptr<void> W;
};

void test(Model& model) { walk(model); }
