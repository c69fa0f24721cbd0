#include "support/evaluate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tensorgrad/autograd.hpp"

namespace tensorgrad::test {

namespace {

/// A graph with the arguments as inputs in0, in1, … and what was made of them.
struct Traced {
  Graph graph;
  std::vector<Tensor> inputs;
  std::map<std::string, Values> feeds;
  Tensor result;

  Traced(const std::vector<Array>& args, const Function& f) {
    trace_into(graph, [&] {
      for (std::size_t i = 0; i < args.size(); ++i) {
        const std::string name = "in" + std::to_string(i);
        inputs.push_back(tensor_input(name, args[i].shape, args[i].dtype));
        feeds[name] = args[i].values;
      }
      result = f(inputs);
    });
  }

  std::vector<Values> run() const {
    verify(graph);
    return reference::Interpreter(graph).run(feeds);
  }
};

std::size_t at(TensorId id) { return static_cast<std::size_t>(id); }

}  // namespace

Array vector(Values values) {
  const auto size = static_cast<std::int64_t>(values.size());
  return {{size}, std::move(values)};
}

Array scalar(double value) { return {{}, {value}}; }

Array indices(Values values) {
  Array array = vector(std::move(values));
  array.dtype = i32;
  return array;
}

Result evaluate(const std::vector<Array>& args, const Function& f) {
  const Traced traced(args, f);
  return {traced.result.type(), traced.run()[at(traced.result.id())]};
}

Values evaluate(const std::function<Tensor()>& f) {
  return evaluate({}, [&](const std::vector<Tensor>&) { return f(); }).values;
}

std::vector<Values> gradients(const std::vector<Array>& args, const Function& f,
                              const Values& cotangent) {
  Traced traced(args, f);
  Tensor g;
  trace_into(traced.graph, [&] { g = tensor_input("cotangent", traced.result.shape()); });
  const auto size = static_cast<std::size_t>(traced.result.shape().size());
  traced.feeds["cotangent"] = cotangent.empty() ? Values(size, 1.0) : cotangent;
  const std::vector<Tensor> grads = append_vjp(traced.graph, {traced.result}, {g}, traced.inputs);
  const std::vector<Values> values = traced.run();
  std::vector<Values> result;
  for (const Tensor& grad : grads)
    result.push_back(grad.valid() ? values[at(grad.id())] : Values{});
  return result;
}

Values derivative(const Values& x, const Function& f) { return gradients({vector(x)}, f).front(); }

void expect_near(const Values& got, const Values& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << "element " << i << " is " << got[i];
    } else if (std::isinf(want[i])) {
      EXPECT_EQ(got[i], want[i]) << "element " << i;
    } else {
      EXPECT_NEAR(got[i], want[i], tolerance * std::max(1.0, std::abs(want[i]))) << "element " << i;
    }
  }
}

template <class Kind>
std::string error_of(const std::function<void()>& fn) {
  Graph graph;
  try {
    trace_into(graph, fn);
  } catch (const Kind& error) {
    return error.what();
  } catch (const std::exception& other) {
    ADD_FAILURE() << "an error of another kind: " << other.what();
    return other.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

template std::string error_of<ShapeError>(const std::function<void()>&);
template std::string error_of<Error>(const std::function<void()>&);
template std::string error_of<InternalError>(const std::function<void()>&);

void expect_contains(std::string_view text, std::initializer_list<std::string_view> parts) {
  for (std::string_view part : parts) {
    EXPECT_NE(text.find(part), std::string_view::npos) << "\"" << part << "\" is missing in:\n"
                                                       << text;
  }
}

std::string site(int line, const char* file) { return "\n  at " + Site{file, line}.to_string(); }

}  // namespace tensorgrad::test
