// expect: cannot be walked; list its members in its body with TENSORGRAD_MEMBERS(W, b)
#include "walk.hpp"

class Model {
  Tensor W;
};

void test(Model& model) { walk(model); }
