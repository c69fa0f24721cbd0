// Two devices op by op: a fault that is put into one of them is found where it was put.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "schedule/fusion.hpp"
#include "support/evaluate.hpp"
#include "support/faulty_backend.hpp"
#include "support/op_cases.hpp"
#include "tensorgrad/tensorgrad.hpp"

namespace tensorgrad::test {
namespace {

using Level = DeviceComparison::Level;

struct Model {
  nn::Embedding table{7, 4};
  nn::Linear l1{4, 6}, l2{6, 3};
};

Tensor model_loss(const Model& m, const Inputs& in) {
  const Tensor h = tanh(m.l1(m.table(in["ids"])));
  return cross_entropy(m.l2(softplus(h) * sigmoid(h)), in["labels"]);
}

struct Fixture {
  Training<Model> train = compile(Model{}, model_loss,
                                  {.inputs = {{"ids", {{5}, i32}}, {"labels", {{5}, i32}}},
                                   .optimizer = AdamW{.lr = 0.01, .clip_norm = 1.0},
                                   .seed = 3,
                                   .device = Device::cpu()});
  std::vector<std::int32_t> ids{1, 6, 0, 1, 3}, labels{0, 2, 1, 1, 0};

  DeviceComparison compare(const Device& first, const Device& second) {
    return train.compare_devices({{"ids", ids}, {"labels", labels}}, first, second);
  }
};

/// Replaces an op by another wherever a kernel has it.
FaultyBackend::Fault swap_ops(OpKind from, OpKind to) {
  return [=](Plan& plan) {
    for (Kernel& kernel : plan.kernels) {
      for (Expr& expr : kernel.exprs) {
        if (expr.kind == Expr::Kind::Op && expr.op == from) expr.op = to;
      }
    }
  };
}

NodeId first_of(const Graph& graph, OpKind op) {
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    if (graph.nodes()[n].op == op) return static_cast<NodeId>(n);
  }
  return -1;
}

TEST(CompareDevices, SoundDevicesAgree) {
  Fixture f;
  for (const auto& [first, second] : {std::pair("reference", "cpu"),
                                      {"cpu", "reference"},
                                      {"reference", "webgpu"},
                                      {"cpu", "webgpu"},
                                      {"webgpu", "cpu"}}) {
    const DeviceComparison result = f.compare(Device::named(first), Device::named(second));
    EXPECT_TRUE(result.agree) << result.text;
    EXPECT_GT(result.ops, 20);
    EXPECT_GT(result.ops, second == std::string("reference") ? 0 : result.kernels);
    EXPECT_LT(result.error, 1e-5);
    expect_contains(result.text, {std::string(second) + " agrees with " + first});
  }
}

TEST(CompareDevices, AFaultyOpIsNamed) {
  const std::pair<OpKind, OpKind> faults[] = {{OpKind::Tanh, OpKind::Sin},
                                              {OpKind::Softplus, OpKind::Relu},
                                              {OpKind::Sigmoid, OpKind::Tanh},
                                              {OpKind::Log, OpKind::Sqrt},
                                              {OpKind::Exp, OpKind::Expm1}};
  Fixture f;
  for (const auto& [from, to] : faults) {
    SCOPED_TRACE(to_string(from));
    const DeviceComparison result =
        f.compare(Device::reference(), faulty("cpu", swap_ops(from, to)));
    ASSERT_FALSE(result.agree);
    EXPECT_EQ(result.level, Level::Op);
    EXPECT_EQ(result.op, from) << result.text;
    EXPECT_EQ(result.node, first_of(*result.graph, from));
    EXPECT_EQ(result.site.to_string().rfind("compare_test.cpp:", 0), 0u);
    EXPECT_NE(result.first_value, result.second_value);
    expect_contains(result.text, {"faulty and reference differ in", to_string(from),
                                  "at compare_test.cpp:", "parameter path", "element ["});
  }
}

TEST(CompareDevices, AFaultyOpIsNamedOnWebGpuToo) {
  Fixture f;
  const DeviceComparison result =
      f.compare(Device::cpu(), faulty("webgpu", swap_ops(OpKind::Tanh, OpKind::Sin)));
  EXPECT_EQ(result.op, OpKind::Tanh) << result.text;
  EXPECT_EQ(result.node, first_of(*result.graph, OpKind::Tanh));
}

TEST(CompareDevices, FaultyReductionsProductsAndUpdatesAreNamed) {
  const auto in_reductions = [](bool products) {
    return [products](Plan& plan) {
      for (Kernel& kernel : plan.kernels) {
        if (kernel.matmul.has_value() != products || kernel.phase == Phase::Update) continue;
        kernel.matmul.reset();  // so that the expressions below are what runs
        for (Expr& expr : kernel.exprs) {
          if (expr.kind == Expr::Kind::Reduce && expr.reduce == ReduceKind::Sum)
            expr.reduce = ReduceKind::Max;
        }
      }
    };
  };
  Fixture f;
  EXPECT_EQ(f.compare(Device::cpu(), faulty("cpu", in_reductions(true))).op, OpKind::MatMul);
  EXPECT_EQ(f.compare(Device::cpu(), faulty("cpu", in_reductions(false))).op, OpKind::ReduceSum);
  const auto in_update = [](Plan& plan) {
    for (Kernel& kernel : plan.kernels) {
      if (kernel.name != "adam_update") continue;
      for (Expr& expr : kernel.exprs) {
        if (expr.kind == Expr::Kind::Op && expr.op == OpKind::Sqrt) expr.op = OpKind::Relu;
      }
    }
  };
  const DeviceComparison update = f.compare(Device::cpu(), faulty("cpu", in_update));
  EXPECT_EQ(update.op, OpKind::AdamUpdate) << update.text;
}

TEST(CompareDevices, AFaultOfFusedKernelsIsFoundAmongTheKernels) {
  Fixture f;
  const DeviceComparison result =
      f.compare(Device::reference(), faulty("cpu", [](Plan& plan) {
                  for (Kernel& kernel : plan.kernels) {
                    if (kernel.nodes.size() < 2) continue;
                    for (Expr& expr : kernel.exprs) {
                      if (expr.kind == Expr::Kind::Op && expr.op == OpKind::Tanh)
                        expr.op = OpKind::Sin;
                    }
                  }
                }));
  ASSERT_FALSE(result.agree);
  EXPECT_EQ(result.level, Level::Kernel);
  EXPECT_NE(result.kernel.find("tanh"), std::string::npos) << result.text;
  expect_contains(result.text, {"agree on every op by itself", result.kernel});
}

TEST(CompareDevices, AFaultOfTheWholeStepIsSaidToBeThat) {
  Fixture f;
  const auto fault = [](Plan& plan) {
    if (plan.kernels.size() > 1) swap_ops(OpKind::Tanh, OpKind::Sin)(plan);
  };
  const DeviceComparison result = f.compare(Device::reference(), faulty("cpu", fault));
  ASSERT_FALSE(result.agree);
  EXPECT_EQ(result.level, Level::Step);
  expect_contains(result.text, {"agree on every kernel by itself, but not on the whole step"});
}

TEST(CompareDevices, TheToleranceDecides) {
  Fixture f;
  // e^x − 1 for e^x is off by 1; the largest e^x is some units.
  const Device device = faulty("cpu", swap_ops(OpKind::Exp, OpKind::Expm1));
  EXPECT_FALSE(f.train
                   .compare_devices({{"ids", f.ids}, {"labels", f.labels}}, Device::reference(),
                                    device, {.tolerance = 1e-2})
                   .agree);
  EXPECT_THROW(f.train.compare_devices({{"ids", f.ids}, {"labels", f.labels}}, Device::reference(),
                                       device, {.tolerance = 0}),
               Error);
  EXPECT_THROW(f.compare(Device::null(), Device::cpu()), DeviceError);
  EXPECT_THROW(f.compare(Device::cpu(), Device::null()), DeviceError);
}

TEST(CompareDevices, ComparingChangesNothing) {
  Fixture f, untouched;
  const auto step = [](Fixture& g) {
    return g.train.step({{"ids", g.ids}, {"labels", g.labels}}).loss;
  };
  EXPECT_EQ(step(f), step(untouched));
  f.compare(Device::reference(), Device::cpu());
  EXPECT_EQ(step(f), step(untouched));
  EXPECT_EQ(f.train.step_count(), 2);
}

TEST(CompareDevices, EveryOpAgreesBetweenReferenceAndCpu) {
  for (const OpCase& op_case : op_cases()) {
    SCOPED_TRACE(op_case.name());
    const CaseGraph made = build_case(op_case);
    const DeviceComparison result =
        compare_devices(made.graph, made.feeds, Device::reference(), Device::cpu());
    EXPECT_TRUE(result.agree) << result.text;
  }
}

TEST(SeparatePlan, HasOneOpAKernelAndKeepsItsValue) {
  Target target = Device::cpu().target();
  target.separate = true;
  for (const OpCase& op_case : op_cases()) {
    SCOPED_TRACE(op_case.name());
    const auto graph = run_passes(*build_case(op_case).graph);
    const Plan planned = plan(graph, target);
    std::set<NodeId> computed;
    for (const Kernel& kernel : planned.kernels) {
      if (kernel.phase == Phase::Update || kernel.name == "copy") continue;
      EXPECT_EQ(kernel.nodes.size(), 1u) << kernel.name;
      computed.insert(kernel.nodes.begin(), kernel.nodes.end());
    }
    for (std::size_t n = 0; n < graph->nodes().size(); ++n) {
      const Node& node = graph->nodes()[n];
      const OpClass c = op_class(node.op);
      if (c == OpClass::Input || c == OpClass::Update || is_transparent(node.op)) continue;
      EXPECT_TRUE(computed.count(static_cast<NodeId>(n))) << to_string(node.op);
      EXPECT_TRUE(planned.places.count(node.output())) << to_string(node.op);
    }
  }
}

}  // namespace
}  // namespace tensorgrad::test
