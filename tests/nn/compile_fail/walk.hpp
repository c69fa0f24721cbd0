// What the cases share: a stand-in for Tensor, and a walk over a model.
#pragma once

#include <string>
#include <tensorgrad/reflect.hpp>

class Tensor {
 public:
  Tensor(double value) : value_(value) {}
  double value() const { return value_; }

 private:
  double value_;
};

template <class Model>
void walk(Model& model) {
  tensorgrad::reflect::for_each_leaf<Tensor>(model, [](const std::string&, auto&) {});
}
