// expect: tensorgrad: a C array member cannot be walked; use std::array
#include "walk.hpp"

class Model {
 public:
  Model();
  TENSORGRAD_MEMBERS(W_)

 private:
  Tensor W_[2];
};

void test(Model& model) { walk(model); }
