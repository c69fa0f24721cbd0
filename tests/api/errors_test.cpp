// Mistakes speak: the op, the shapes, the place in the user's code, the remedy.
#include <gtest/gtest.h>

#include "tensorgrad/tensorgrad.hpp"

namespace tensorgrad::test {
namespace {

struct Small {
  nn::Linear l1{1, 8}, l2{8, 1};
  Tensor operator()(const Tensor& x) const { return l2(relu(l1(x))); }
};

Tensor loss(const Small& m, const Inputs& in) { return mean(square(m(in["x"]) - in["y"])); }

CompileOptions options() {
  return {
      .inputs = {{"x", {4, 1}}, {"y", {4, 1}}}, .optimizer = Adam{}, .device = Device::reference()};
}

std::string message(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

#define EXPECT_MESSAGE(text, part) EXPECT_NE((text).find(part), std::string::npos) << text

TEST(Errors, AShapeErrorNamesOpShapesPathAndSite) {
  const std::string text = message([] {
    compile(Small{}, [](const Small& m, const Inputs& in) { return mean(m.l2(in["x"])); },
            {.inputs = {{"x", {4, 1}}}, .device = Device::reference()});
  });
  EXPECT_MESSAGE(text,
                 "matmul: inner dimensions differ: lhs f32[4, 1] has 1, rhs f32[8, 1] has 8.");
  EXPECT_MESSAGE(text, "in parameter path l2");
  EXPECT_MESSAGE(text, "at errors_test.cpp:");
}

TEST(Errors, ALossThatIsNoScalar) {
  const std::string text = message([] {
    compile(
        Small{}, [](const Small& m, const Inputs& in) { return m(in["x"]) - in["y"]; }, options());
  });
  EXPECT_MESSAGE(text,
                 "the loss must be a single f32, but the forward function returned f32[4, 1]");
  EXPECT_MESSAGE(text, "mean");
}

TEST(Errors, FeedsThatDoNotFit) {
  auto train = compile(Small{}, loss, options());
  const std::vector<float> four(4), five(5);
  const std::vector<std::int32_t> ints(4);
  EXPECT_MESSAGE(message([&] {
                   train.step({{"x", four}});
                 }),
                 "Input \"y\" (f32[4, 1]) is missing from the feed.");
  EXPECT_MESSAGE(message([&] {
                   train.step({{"x", four}, {"y", four}, {"z", four}});
                 }),
                 "Input \"z\" is not declared; declared are: x, y.");
  EXPECT_MESSAGE(message([&] {
                   train.step({{"x", five}, {"y", four}});
                 }),
                 "Input \"x\" is f32[4, 1] and needs 4 values, but 5 are given.");
  EXPECT_MESSAGE(message([&] {
                   train.step({{"x", ints}, {"y", four}});
                 }),
                 "Input \"x\" is f32[4, 1], but the values given are int32.");
  EXPECT_MESSAGE(message([&] {
                   train.step({{"x", four}, {"x", four}, {"y", four}});
                 }),
                 "given twice");
  EXPECT_EQ(train.step_count(), 0) << "a refused feed is no step";
}

TEST(Errors, AnInputThatWasNotDeclared) {
  const std::string text = message([] {
    compile(
        Small{}, [](const Small& m, const Inputs& in) { return mean(m(in["z"])); }, options());
  });
  EXPECT_MESSAGE(text, "There is no input named \"z\"; declared are: x, y.");
}

TEST(Errors, NamesUsedTwice) {
  EXPECT_MESSAGE(message([] {
                   auto o = options();
                   o.inputs.push_back({"l1.W", {{4, 1}}});
                   compile(Small{}, loss, o);
                 }),
                 "the name \"l1.W\" is used twice");
}

TEST(Errors, AModelWithoutParameters) {
  struct Empty {};
  EXPECT_MESSAGE(message([] {
                   compile(
                       Empty{}, [](const Empty&, const Inputs& in) { return mean(in["x"]); },
                       options());
                 }),
                 "the model has no parameters to train");
}

TEST(Errors, ParametersTheLossDoesNotReachAreNamedInAWarning) {
  struct Two {
    nn::Linear used{1, 1}, idle{1, 1};
  };
  std::string warned;
  set_warning_handler([&](const std::string& text) { warned = text; });
  compile(Two{}, [](const Two& m, const Inputs& in) { return mean(m.used(in["x"])); },
          {.inputs = {{"x", {4, 1}}}, .optimizer = Adam{}, .device = Device::reference()});
  set_warning_handler({});
  EXPECT_MESSAGE(warned, "idle.W, idle.b");
}

TEST(Errors, CapturesThatWereNotRegistered) {
  auto train = compile(Small{}, loss, options());
  const std::vector<float> four(4);
  EXPECT_MESSAGE(message([&] {
                   train.step({{"x", four}, {"y", four}}, {.captures = true});
                 }),
                 "capture(\"name\", tensor)");
  EXPECT_EQ(train.step_count(), 0);
}

TEST(Errors, UploadsThatDoNotFit) {
  auto train = compile(Small{}, loss, options());
  ParamValues values = train.download_params();
  ParamValues missing = values;
  missing.erase("l2.b");
  EXPECT_MESSAGE(message([&] { train.upload_params(missing); }), "l2.b missing");
  EXPECT_MESSAGE(message([&] {
                   train.upload_params({{"other", {1.0f}}}, {.partial = true});
                 }),
                 "no parameter named other");
  values["l1.W"].pop_back();
  EXPECT_MESSAGE(message([&] { train.upload_params(values); }),
                 "l1.W is f32[1, 8] and needs 8 values, but 7 are given");
}

TEST(Errors, AParameterFromOutsideTheTrace) {
  Small outside;
  const std::string text = message([&] {
    compile(
        Small{}, [&](const Small&, const Inputs& in) { return mean(outside(in["x"])); }, options());
  });
  EXPECT_MESSAGE(text, "Use the model that is passed to the forward function");
}

TEST(Errors, AnIndexOutOfRangeIsNamedOnReferenceAndCpu) {
  struct Model {
    nn::Embedding table{5, 3};
  };
  for (const Device& device : {Device::reference(), Device::cpu()}) {
    auto forward = compile_forward(
        Model{}, [](const Model& m, const Inputs& in) { return m.table(in["ids"]); },
        {.inputs = {{"ids", {{2}, i32}}}, .device = device});
    const std::string text = message([&] {
      forward.run({{"ids", std::vector<std::int32_t>{1, 7}}});
    });
    EXPECT_MESSAGE(text, "7");
    EXPECT_MESSAGE(text, "errors_test.cpp:");
    EXPECT_EQ(forward.run({{"ids", std::vector<std::int32_t>{1, 4}}}).output.size(), 6u)
        << "usable afterwards";
  }
}

}  // namespace
}  // namespace tensorgrad::test
