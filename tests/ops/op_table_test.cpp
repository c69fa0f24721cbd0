// The table of op cases is whole: every op is in it, and every case is a sound graph.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <regex>
#include <set>

#include "support/op_cases.hpp"

namespace tensorgrad::test {

namespace {

constexpr OpKind kEveryOp[] = {
#define OP(Kind, name, arity, Class) OpKind::Kind,
#include "tensorgrad/ops.def"
#undef OP
};

/// The names of the functions that ops.hpp declares.
std::set<std::string> public_ops() {
  std::ifstream file(TENSORGRAD_SOURCE_DIR "/include/tensorgrad/ops.hpp");
  EXPECT_TRUE(file.good());
  const std::regex declaration(R"(^(?:Tensor|std::vector<Tensor>|ScanResult) (\w+)\()");
  std::set<std::string> names;
  for (std::string line; std::getline(file, line);) {
    std::smatch match;
    if (std::regex_search(line, match, declaration)) names.insert(match[1]);
  }
  return names;
}

}  // namespace

TEST(OpTable, HasEveryKindOfNode) {
  std::set<OpKind> seen;
  for (const OpCase& op_case : op_cases()) {
    const CaseGraph made = build_case(op_case);
    for (const Node& node : made.graph->nodes()) seen.insert(node.op);
  }
  for (OpKind op : kEveryOp) EXPECT_TRUE(seen.count(op)) << to_string(op) << " is in no case";
}

TEST(OpTable, HasEveryPublicOp) {
  std::set<std::string> seen;
  for (const OpCase& op_case : op_cases()) seen.insert(op_case.op);
  const std::set<std::string> ops = public_ops();
  EXPECT_GT(ops.size(), 70u);
  for (const std::string& op : ops)
    EXPECT_TRUE(seen.count(op)) << op << " has no case in tests/support/op_table.cpp";
}

TEST(OpTable, HasUniqueNames) {
  std::set<std::string> names;
  for (const OpCase& op_case : op_cases()) {
    EXPECT_TRUE(names.insert(op_case.name()).second) << op_case.name();
  }
}

TEST(OpTable, FeedsAreWhatEveryDeviceCanHold) {
  for (const OpCase& op_case : op_cases()) {
    const CaseGraph made = build_case(op_case);
    for (const auto& [name, values] : made.feeds) {
      const TensorType& type = made.graph->type(made.graph->find_leaf(name));
      ASSERT_EQ(static_cast<std::int64_t>(values.size()), type.shape.size()) << op_case.name();
      for (double value : values) {
        const double stored = type.dtype == f32 ? static_cast<float>(value) : std::floor(value);
        EXPECT_TRUE(stored == value || std::isnan(value)) << op_case.name() << " " << name;
      }
    }
  }
}

class EveryCase : public ::testing::TestWithParam<OpCase> {};

TEST_P(EveryCase, IsASoundGraphWithFiniteResults) {
  const CaseGraph made = build_case(GetParam());
  const Graph& graph = *made.graph;
  verify(graph);
  EXPECT_FALSE(graph.to_string().empty());
  const std::vector<Values> values = reference::Interpreter(graph).run(made.feeds);
  for (const NamedTensor& output : graph.outputs) {
    const Values& result = values[static_cast<std::size_t>(output.tensor)];
    EXPECT_EQ(static_cast<std::int64_t>(result.size()), graph.type(output.tensor).shape.size());
    const DType dtype = graph.type(output.tensor).dtype;
    for (double value : result) {
      EXPECT_TRUE(std::isfinite(value) || GetParam().non_finite) << output.name;
      EXPECT_TRUE(dtype != boolean || value == 0 || value == 1) << output.name << " has " << value;
      EXPECT_TRUE(dtype != i32 || value == static_cast<std::int32_t>(value))
          << output.name << " has " << value;
    }
  }
}

TEST_P(EveryCase, GivesTheGradientsItSays) {
  const OpCase& op_case = GetParam();
  if (op_case.optimizer) return;
  const CaseGraph made = build_case(op_case);
  std::set<std::string> outputs;
  for (const NamedTensor& output : made.graph->outputs) outputs.insert(output.name);
  for (std::size_t i = 0; i < op_case.inputs.size(); ++i) {
    const auto& none = op_case.no_gradient;
    const bool listed = std::find(none.begin(), none.end(), static_cast<int>(i)) != none.end();
    const bool expected = op_case.inputs[i].dtype == f32 && !listed;
    EXPECT_EQ(outputs.count("grad" + std::to_string(i)) > 0, expected) << "input " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(OpTable, EveryCase, ::testing::ValuesIn(op_cases()), [](const auto& info) {
  return std::regex_replace(info.param.name(), std::regex("/"), "_");
});

}  // namespace tensorgrad::test
