// expect: tensorgrad: a std::variant cannot be walked; use a std::optional for each
#include "walk.hpp"

struct Model {
  std::variant<std::monostate, Tensor> W;
};

void test(Model& model) { walk(model); }
