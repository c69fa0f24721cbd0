// `frozen`: a module whose parameters are not trained, wherever they stand in it.
#include <gtest/gtest.h>

#include <array>

#include "tensorgrad/autograd.hpp"
#include "tensorgrad/nn.hpp"

namespace tensorgrad::test {
namespace {

struct Body {
  nn::Linear first{2, 3};
  std::array<nn::Linear, 2> more{nn::Linear{3, 3}, nn::Linear{3, 3, {.bias = false}}};
  Tensor scale = param({3}, {.init = init::ones, .decay = true});
};

struct Model {
  Body body = frozen(Body{});
  nn::Linear head{3, 1};
};

TEST(Frozen, LeavesOnlyTheRestToTrain) {
  const auto graph = trace([]() -> Outputs {
    Model model;
    materialize_params(model);
    const Body& b = model.body;
    const Tensor x = tensor_input("x", {4, 2});
    return mean(model.head(b.more[1](b.more[0](b.first(x))) * b.scale));
  });
  std::vector<std::string> trained;
  for (const ParamInfo& param : graph->params) {
    if (param.trainable) trained.push_back(param.name);
  }
  EXPECT_EQ(graph->params.size(), 8u);
  EXPECT_EQ(trained, (std::vector<std::string>{"head.W", "head.b"}));
  append_grad(*graph);
  EXPECT_EQ(graph->gradients.size(), 2u);
}

TEST(Frozen, KeepsEverythingElseOfADeclaration) {
  const Body before;
  const Body after = frozen(before);
  EXPECT_TRUE(before.scale.spec()->trainable);
  EXPECT_FALSE(after.scale.spec()->trainable);
  EXPECT_TRUE(after.scale.spec()->decay);
  EXPECT_EQ(after.first.W.spec()->shape, (Shape{2, 3}));
  EXPECT_EQ(after.first.W.spec()->layout, ParamLayout::InOut);
  EXPECT_FALSE(after.more[1].b.has_value());
}

}  // namespace
}  // namespace tensorgrad::test
