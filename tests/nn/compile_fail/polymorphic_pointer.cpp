// expect: tensorgrad: a pointer to a class with virtual functions cannot be walked
#include "walk.hpp"

struct Layer {
  virtual ~Layer() = default;
  Tensor W;
  TENSORGRAD_MEMBERS(W)
};

struct Model {
  std::unique_ptr<Layer> layer;
};

void test(Model& model) { walk(model); }
