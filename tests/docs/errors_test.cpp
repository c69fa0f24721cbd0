// docs/errors.md shows what mistakes and faults look like. This test makes them all and compares.
#include <cmath>
#include <filesystem>
#include <functional>
#include <regex>
#include <set>

#include "docs/document.hpp"
#include "support/faulty_backend.hpp"
#include "tensorgrad/tensorgrad.hpp"

namespace tensorgrad::test {
namespace {

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return std::string(error.what()) + "\n";
  }
  return "nothing was thrown\n";
}

// The document shows the lines below as files of the user's own, from these line numbers on.
// clang-format off
#line 8 "model.cpp"
struct Classifier {
  nn::Linear hidden{4, 8}, out{8, 3};
  Tensor operator()(const Tensor& x) const { return softmax(out(tanh(hidden(x))), -1); }
};

Tensor loss(const Classifier& m, const Inputs& in) {
  return -mean(sum(in["y"] * log(m(in["x"]) * in["scale"]), {-1}));
}
#line 36 "errors_test.cpp"
// clang-format on

Training<Classifier> make() {
  return compile(Classifier{}, loss,
                 {.inputs = {{"x", {2, 4}}, {"y", {2, 3}}, {"scale", {2, 3}}},
                  .optimizer = Adam{.lr = 0.01},
                  .seed = 7,
                  .device = Device::cpu()});
}

const std::vector<float> kX{1, 2, 3, 4, -1, 0, 1, 2}, kY{1, 0, 0, 0, 0, 1}, kOnes(6, 1.0f);
const std::vector<float> kZero{1, 1, 1, 0, 1, 1};

std::map<std::string, std::string> outputs() {
  std::map<std::string, std::string> out;
  out["shape"] = message_of([] {
    compile_forward(Classifier{},
#line 41 "train.cpp"
                    [](const Classifier& m, const Inputs& in) { return m.out(in["x"]); },
#line 57 "errors_test.cpp"
                    {.inputs = {{"x", {2, 4}}}, .device = Device::cpu()});
  });
  out["feed"] = message_of([] { make().step({{"x", kY}, {"y", kY}, {"scale", kOnes}}); });
  out["upload"] = message_of([] { make().upload_params({{"hidden.W", std::vector<float>(32)}}); });
  out["index"] = message_of([] {
    struct Model {
      nn::Embedding table{5, 3};
    };
    auto forward =
        compile_forward(Model{},
#line 12 "model.cpp"
                        [](const Model& m, const Inputs& in) { return m.table(in["ids"]); },
#line 74 "errors_test.cpp"
                        {.inputs = {{"ids", {{2}, i32}}}, .device = Device::cpu()});
    forward.run({{"ids", std::vector<std::int32_t>{1, 7}}});
  });
  out["device"] = message_of([] { Device::named("gpu"); });
  out["limit"] = message_of([] {
    Target target;
    target.name = "webgpu";
    target.whole_buffers = true;
    target.max_binding_bytes = std::int64_t{1} << 30;
    compile_to_ir([] { return sum(tensor_input("images", {50000, 224, 224})); }, false, {}, target);
  });
  out["file"] = message_of([] { make().load("run/last.safetensors"); });

  auto train = make();
  train.watch_nonfinite();
  for (int step = 1; step <= 17; ++step)
    train.step({{"x", kX}, {"y", kY}, {"scale", step == 17 ? kZero : kOnes}});
  out["nonfinite"] = train.find_nonfinite().text + "\n";

  const Device second = faulty("cpu", [](Plan& plan) {
    for (Kernel& kernel : plan.kernels) {
      for (Expr& expr : kernel.exprs) {
        if (expr.kind == Expr::Kind::Op && expr.op == OpKind::Tanh) expr.op = OpKind::Sin;
      }
    }
  });
  out["compare"] =
      make()
          .compare_devices({{"x", kX}, {"y", kY}, {"scale", kOnes}}, Device::reference(), second)
          .text +
      "\n";
  return out;
}

TEST(ErrorsDocument, ShowsWhatMistakesAndFaultsReallyLookLike) {
  check_document("docs/errors.md", outputs());
}

/// The variables of ours that sources below a folder ask for.
std::set<std::string> variables_in(const std::vector<std::string>& folders) {
  std::set<std::string> names;
  const std::regex asks("(?:getenv|environment)\\(\"(TENSORGRAD_[A-Z_]+)\"");
  for (const std::string& folder : folders) {
    const auto root = std::filesystem::path(TENSORGRAD_SOURCE_DIR) / folder;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      if (!entry.is_regular_file()) continue;
      std::stringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      const std::string source = text.str();
      for (std::sregex_iterator it(source.begin(), source.end(), asks), end; it != end; ++it)
        names.insert((*it)[1]);
    }
  }
  return names;
}

TEST(ErrorsDocument, ListsEveryEnvironmentVariableOfOurs) {
  std::stringstream text;
  text << std::ifstream(std::string(TENSORGRAD_SOURCE_DIR) + "/docs/errors.md").rdbuf();
  const std::string document = text.str();
  std::set<std::string> listed;
  const std::regex row("\\n\\| `(TENSORGRAD_[A-Z_]+)");
  for (std::sregex_iterator it(document.begin(), document.end(), row), end; it != end; ++it)
    listed.insert((*it)[1]);
  EXPECT_EQ(listed, variables_in({"src", "apps", "tests"}));
}

}  // namespace
}  // namespace tensorgrad::test
