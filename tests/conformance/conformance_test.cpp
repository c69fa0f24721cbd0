// `tensorgrad conformance` as somebody types it: the reference values of tests/fixtures on every
// device, and small folders with mistakes in them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/run_program.hpp"
#include "tensorgrad/safetensors.hpp"

namespace tensorgrad::test {
namespace {

using Json = nlohmann::json;
using Args = std::vector<std::string>;

const std::string kFixtures = std::string(TENSORGRAD_SOURCE_DIR) + "/tests/fixtures";

ProgramResult conformance(const std::string& folder, const Args& args) {
  Args words = {"conformance", folder};
  words.insert(words.end(), args.begin(), args.end());
  return run_program("tensorgrad", words);
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) result.push_back(line);
  return result;
}

std::string last_line(const ProgramResult& result) {
  const std::vector<std::string> all = lines(result.out);
  return all.empty() ? "" : all.back();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Json fixture(const std::string& name) {
  std::ifstream file(kFixtures + "/" + name);
  return Json::parse(file);
}

std::string passed(std::size_t count) { return std::to_string(count) + " passed, 0 failed"; }

// ---- the fixtures, on each device

class Fixtures : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Devices, Fixtures, testing::Values("reference", "cpu", "webgpu"),
                         [](const auto& device) { return device.param; });

TEST_P(Fixtures, EveryOpCasePasses) {
  const ProgramResult result = conformance(kFixtures, {"--device", GetParam(), "--skip", "mlp_*",
                                                       "--skip", "gpt_*", "--skip", "mamba*"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, passed(fixture("ops.json").size()) + "\n");
}

TEST_P(Fixtures, StateSpaceModelsGiveTheValuesOfTransformers) {
  const ProgramResult result =
      conformance(kFixtures, {"--device", GetParam(), "--only", "mamba", "--only", "mamba2"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, passed(2) + "\n");
}

TEST_P(Fixtures, TrajectoriesFollowPyTorch) {
  const ProgramResult result =
      conformance(kFixtures, {"--device", GetParam(), "--only", "mlp_*", "--only", "gpt_*"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, passed(3) + "\n");
}

// ---- selecting

TEST(Conformance, OnlyAndSkipAreGlobsOfCaseIds) {
  const auto count = [](const Args& args) {
    Args words = {"--device", "reference"};
    words.insert(words.end(), args.begin(), args.end());
    return last_line(conformance(kFixtures, words));
  };
  EXPECT_EQ(count({"--only", "add.0"}), passed(1));
  EXPECT_EQ(count({"--only", "add.*"}), passed(4));
  EXPECT_EQ(count({"--only", "add.*", "--skip", "add.?"}), passed(3));
  EXPECT_EQ(count({"--only", "add.*", "--only", "sub.1"}), passed(5));
  EXPECT_EQ(count({"--only=add.*", "--skip=add.0", "--skip=add.13"}), passed(2));
  EXPECT_EQ(count({"--only", "add.*", "--set", "core"}), passed(4));
}

TEST(Conformance, SelectingNothingIsAnError) {
  const ProgramResult result =
      conformance(kFixtures, {"--device", "reference", "--only", "nothing"});
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(contains(result.err, "no case is selected")) << result.err;
}

// ---- dumping

TEST(Conformance, DumpHoldsComputedTensorsUnderTheExpectedNames) {
  const ScratchFolder folder;
  const std::string path = folder / "dump.safetensors";
  const ProgramResult result =
      conformance(kFixtures, {"--device", "cpu", "--only", "add.0", "--only", "equal.11", "--only",
                              "gpt_adamw", "--dump", path});
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  const SafetensorsFile dump = SafetensorsFile::open(path);

  const SafetensorsFile ops = SafetensorsFile::open(kFixtures + "/ops.safetensors");
  for (const char* name : {"add.0.out", "add.0.grad0", "add.0.grad1"}) {
    ASSERT_TRUE(dump.has(name)) << name;
    EXPECT_EQ(dump.info(name).shape, ops.info(name).shape) << name;
    EXPECT_EQ(dump.read_f32(name), ops.read_f32(name)) << name;
  }
  EXPECT_FALSE(dump.has("add.0.in0"));
  EXPECT_FALSE(dump.has("sub.1.out"));
  EXPECT_EQ(dump.info("equal.11.out").dtype, FileDType::I32);

  const SafetensorsFile gpt = SafetensorsFile::open(kFixtures + "/gpt_adamw.safetensors");
  std::size_t expected = 4 + 2;  // the op cases, losses and gradient norms
  for (const FileTensor& tensor : gpt.tensors()) {
    if (tensor.name.rfind("final.", 0) != 0 && tensor.name.rfind("grad0.", 0) != 0) continue;
    ++expected;
    ASSERT_TRUE(dump.has("gpt_adamw." + tensor.name)) << tensor.name;
    EXPECT_EQ(dump.info("gpt_adamw." + tensor.name).shape, tensor.shape) << tensor.name;
  }
  EXPECT_EQ(dump.tensors().size(), expected);
  // Not square, so that a layout mixed up would show.
  const std::vector<float> got = dump.read_f32("gpt_adamw.final.blocks.0.up.weight");
  const std::vector<float> want = gpt.read_f32("final.blocks.0.up.weight");
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-3) << i;

  const std::vector<float> losses = dump.read_f32("gpt_adamw.losses");
  const Json want_losses = fixture("gpt_adamw.json")["losses"];
  ASSERT_EQ(losses.size(), want_losses.size());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(losses[i] / want_losses[i].get<double>(), 1.0, 1e-4) << i;
  }
  EXPECT_EQ(dump.info("gpt_adamw.grad_norms").shape, std::vector<std::int64_t>{20});
}

TEST(Conformance, DumpOfAModelHasEverythingExpected) {
  const ScratchFolder folder;
  const std::string path = folder / "dump.safetensors";
  // A folder that is itself a model; the dump is made whether it passes or not.
  const ProgramResult result =
      conformance(kFixtures + "/mamba2", {"--device", "reference", "--dump", path});
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  const SafetensorsFile dump = SafetensorsFile::open(path),
                        expected =
                            SafetensorsFile::open(kFixtures + "/mamba2/expected.safetensors");
  for (const FileTensor& tensor : expected.tensors()) {
    if (tensor.name == "input_ids") continue;
    ASSERT_TRUE(dump.has("mamba2." + tensor.name)) << tensor.name;
    EXPECT_EQ(dump.info("mamba2." + tensor.name).shape, tensor.shape) << tensor.name;
  }
  EXPECT_EQ(dump.tensors().size(), expected.tensors().size() - 1);
  EXPECT_EQ(dump.read_i32("mamba2.greedy"), expected.read_i32("greedy"));
}

// ---- folders with mistakes in them

/// A folder of op cases, written by a test.
class OpFolder {
 public:
  std::string path() const { return (folder_ / "").string(); }

  void add(const std::string& name, std::vector<float> values) {
    tensors_.emplace_back(name, std::move(values));
  }
  /// x + y, whose expected values are then up to the caller.
  Json& add_case(const std::string& id, const std::string& op = "add") {
    cases_.push_back(
        {{"id", id},
         {"op", op},
         {"attrs", Json::object()},
         {"inputs", {{{"name", "x"}, {"dtype", "f32"}}, {{"name", "y"}, {"dtype", "f32"}}}},
         {"output", {{"name", id + ".out"}, {"dtype", "f32"}}},
         {"tol", 1e-5}});
    return cases_.back();
  }
  void write() const {
    std::ofstream(folder_ / "ops.json") << cases_;
    std::vector<FileTensor> tensors;
    for (const auto& [name, values] : tensors_) {
      tensors.push_back(FileTensor::f32(name, {static_cast<std::int64_t>(values.size())}, values));
    }
    write_safetensors(folder_ / "ops.safetensors", tensors);
  }
  void put(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }
  ProgramResult run(const Args& more = {}) const {
    Args args = {"--device", "reference"};
    args.insert(args.end(), more.begin(), more.end());
    return conformance(path(), args);
  }

 private:
  ScratchFolder folder_;
  Json cases_ = Json::array();
  std::vector<std::pair<std::string, std::vector<float>>> tensors_;
};

TEST(Conformance, AWrongValueFailsWithItsPlaceAndError) {
  OpFolder folder;
  folder.add("x", {1, 2, 3, 4});
  folder.add("y", {10, 20, 30, 40});
  folder.add("right.out", {11, 22, 33, 44});
  folder.add("wrong.out", {11, 22, 35.2f, 44});
  folder.add("close.out", {11, 22, 33.0003f, 44});
  folder.add_case("right");
  folder.add_case("wrong");
  folder.add_case("close");
  folder.write();
  const std::string dump = folder.path() + "dump.safetensors";
  const ProgramResult result = folder.run({"--dump", dump});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.out,
            "FAIL wrong: wrong.out at [2]: got 33, want 35.2000008, error 0.05, tolerance 1e-05\n"
            "2 passed, 1 failed\n");
  // What was computed is dumped, not what was expected.
  EXPECT_EQ(SafetensorsFile::open(dump).read_f32("wrong.out"),
            (std::vector<float>{11, 22, 33, 44}));
}

TEST(Conformance, AWrongGradientFails) {
  OpFolder folder;
  folder.add("x", {1, 2});
  folder.add("y", {10, 20});
  folder.add("g", {1, 1});
  folder.add("a.out", {10, 40});
  folder.add("a.grad0", {10, 20});
  folder.add("a.grad1", {1, -2});
  Json& c = folder.add_case("a", "mul");
  c["gout"] = "g";
  c["tol_grad"] = 1e-4;
  c["grads"] = {{{"input", 0}, {"name", "a.grad0"}}, {{"input", 1}, {"name", "a.grad1"}}};
  folder.write();
  EXPECT_EQ(folder.run().out,
            "FAIL a: a.grad1 at [1]: got 2, want -2, error 2, tolerance 0.0001\n"
            "0 passed, 1 failed\n");
}

TEST(Conformance, AnUnknownOpFails) {
  OpFolder folder;
  folder.add("x", {1});
  folder.add("y", {2});
  folder.add("a.out", {3});
  folder.add_case("a", "frobnicate");
  folder.write();
  const ProgramResult result = folder.run();
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.out, "FAIL a: unknown op \"frobnicate\"\n0 passed, 1 failed\n");
}

TEST(Conformance, ASetIsTheFieldOfTheCase) {
  OpFolder folder;
  folder.add("x", {1});
  folder.add("y", {2});
  for (const char* id : {"a", "b", "c"}) folder.add(std::string(id) + ".out", {3});
  folder.add_case("a")["set"] = "core";
  folder.add_case("b")["set"] = "state-space";
  folder.add_case("c")["set"] = "state-space";
  folder.write();
  EXPECT_EQ(folder.run().out, passed(3) + "\n");
  EXPECT_EQ(folder.run({"--set", "core"}).out, passed(1) + "\n");
  EXPECT_EQ(folder.run({"--set", "state-space"}).out, passed(2) + "\n");
  EXPECT_EQ(folder.run({"--set", "state-space", "--skip", "b"}).out, passed(1) + "\n");
  EXPECT_EQ(folder.run({"--set", "vision"}).status, 2);
}

TEST(Conformance, ZeroTolerancesAndNonFiniteValues) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  OpFolder folder;
  folder.add("x", {0, kInfinity, 1});
  folder.add("y", {0, 1, 2});
  folder.add("same.out", {0, kInfinity, 3});
  folder.add("finite.out", {0, 7, 3});
  folder.add("exact.out", {0, kInfinity, 3.0000002f});
  folder.add("x0", {1e-7f, 0});
  folder.add("y0", {0, 0});
  folder.add("zero.out", {0, 0});
  folder.add("not_zero.out", {0, 0});
  folder.add("x1", {1e-5f, 0});
  folder.add_case("same");
  folder.add_case("finite");
  folder.add_case("exact")["tol"] = 0;
  const auto inputs = [](const char* x) -> Json {
    return {{{"name", x}, {"dtype", "f32"}}, {{"name", "y0"}, {"dtype", "f32"}}};
  };
  folder.add_case("zero")["inputs"] = inputs("x0");
  folder.add_case("not_zero")["inputs"] = inputs("x1");
  folder.write();
  const ProgramResult result = folder.run();
  const std::vector<std::string> all = lines(result.out);
  ASSERT_EQ(all.size(), 4u) << result.out;
  EXPECT_EQ(all[0], "FAIL finite: finite.out at [1]: got inf, want 7, error inf, tolerance 1e-05");
  EXPECT_TRUE(contains(all[1], "FAIL exact: exact.out at [2]")) << all[1];
  EXPECT_TRUE(contains(all[2], "FAIL not_zero: not_zero.out at [0]")) << all[2];
  EXPECT_TRUE(contains(all[2], "absolute error 1e-05, tolerance 1e-06")) << all[2];
  EXPECT_EQ(all[3], "2 passed, 3 failed");
}

TEST(Conformance, ACaseThatThrowsDoesNotStopTheOthers) {
  OpFolder folder;
  folder.add("x", {1, 2});
  folder.add("y", {1, 2, 3});
  folder.add("after.out", {2, 4});
  folder.add_case("shapes");
  folder.add_case("missing")["inputs"] = {"x", "nowhere"};
  folder.add_case("no_output")["inputs"] = {"x", "x"};
  folder.add_case("too_few")["inputs"] = {"x"};
  folder.add_case("after")["inputs"] = {"x", "x"};
  folder.write();
  const ProgramResult result = folder.run();
  EXPECT_EQ(result.status, 1);
  const std::vector<std::string> all = lines(result.out);
  ASSERT_EQ(all.size(), 5u) << result.out;
  EXPECT_TRUE(contains(all[0], "FAIL shapes: add:")) << all[0];
  EXPECT_TRUE(contains(all[1], "nowhere")) << all[1];
  EXPECT_TRUE(contains(all[1], "ops.safetensors")) << all[1];
  EXPECT_TRUE(contains(all[2], "the expected tensor no_output.out is missing from")) << all[2];
  EXPECT_EQ(all[3], "FAIL too_few: add: needs 2 inputs, but the case has 1.");
  EXPECT_EQ(all[4], "1 passed, 4 failed");
}

TEST(Conformance, AttributesMayBeSpelledInSeveralWays) {
  OpFolder folder;
  folder.add("x", {1, 2, 3, -4});
  folder.add("y", {0});
  folder.add("sum", {2});
  folder.add("clamp", {1, 2, 2, -1});
  folder.add("up", {1, 2, 3, 0});
  const auto add = [&](const std::string& id, const char* op, const Json& attrs, const char* want) {
    Json& c = folder.add_case(id, op);
    c["inputs"] = {"x"};
    c["output"] = want;
    c["attrs"] = attrs;
  };
  add("axes", "sum", {{"axes", {0}}, {"keepdims", true}}, "sum");
  add("axis", "sum", {{"axis", -1}, {"keepdim", true}}, "sum");
  add("dim", "sum", {{"dim", 0}, {"keepdims", true}}, "sum");
  add("null", "sum", {{"axes", nullptr}, {"keepdims", true}}, "sum");
  add("lo_hi", "clamp", {{"lo", -1}, {"hi", 2.0}}, "clamp");
  add("min_max", "clamp", {{"min", -1}, {"max", 2}}, "clamp");
  add("one_sided", "clamp", {{"min", 0}}, "up");
  add("wrong", "clamp", {{"floor", 0}}, "up");
  folder.write();
  const ProgramResult result = folder.run();
  EXPECT_EQ(last_line(result), "7 passed, 1 failed") << result.out;
  EXPECT_TRUE(contains(result.out, "the attribute \"floor\" was not used")) << result.out;
}

TEST(Conformance, BrokenFilesAreNamedAndTheOthersRun) {
  OpFolder folder;
  folder.add("x", {1});
  folder.add("y", {2});
  folder.add("good.out", {3});
  folder.add_case("good");
  folder.write();
  folder.put("broken.json", "{\"kind\": ");
  folder.put("lonely.json", R"({"kind": "mlp", "losses": [1], "optimizer": "sgd", "lr": 0.1})");
  folder.put("strange.json", R"({"kind": "mlp", "losses": "none"})");
  folder.put("notes.json", R"({"hello": 1})");
  const ProgramResult result = folder.run();
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(last_line(result), "1 passed, 3 failed") << result.out;
  EXPECT_TRUE(contains(result.out, "FAIL broken: ")) << result.out;
  EXPECT_TRUE(contains(result.out, "broken.json is not valid JSON")) << result.out;
  EXPECT_TRUE(contains(result.out, "lonely.safetensors")) << result.out;
  EXPECT_TRUE(contains(result.out, "FAIL strange: ")) << result.out;
  EXPECT_TRUE(contains(result.err, "notes.json")) << result.err;
}

TEST(Conformance, ATrajectoryWithWrongLossesFails) {
  OpFolder folder;
  Json json = fixture("mlp_sgd.json");
  json["losses"][7] = json["losses"][7].get<double>() * 1.01;
  folder.put("mlp_sgd.json", json.dump());
  std::filesystem::copy_file(kFixtures + "/mlp_sgd.safetensors",
                             folder.path() + "mlp_sgd.safetensors");
  ProgramResult result = folder.run();
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(contains(result.out, "FAIL mlp_sgd: mlp_sgd.losses at [7]: got ")) << result.out;
  EXPECT_EQ(lines(result.out).size(), 2u) << result.out;

  json = fixture("mlp_sgd.json");
  json["momentum"] = 0.8;
  folder.put("mlp_sgd.json", json.dump());
  result = folder.run();
  EXPECT_TRUE(contains(result.out, "mlp_sgd.losses")) << result.out;
  EXPECT_TRUE(contains(result.out, "mlp_sgd.final.l1.weight")) << result.out;
  EXPECT_FALSE(contains(result.out, "mlp_sgd.grad0")) << result.out;

  json["optimizer"] = "lion";
  folder.put("mlp_sgd.json", json.dump());
  EXPECT_TRUE(contains(folder.run().out, "the optimizer \"lion\" is not supported"));
}

TEST(Conformance, ModelFoldersBelongToSetsByTheirType) {
  OpFolder folder;
  for (const char* type : {"mamba", "gpt2"}) {
    folder.put(std::string(type) + "/config.json",
               R"({"model_type": ")" + std::string(type) + "\"}");
  }
  const ProgramResult result = folder.run();
  EXPECT_TRUE(contains(result.out, "FAIL mamba: ")) << result.out;
  EXPECT_TRUE(contains(result.out, "\n0 passed, 1 failed\n")) << result.out;
  EXPECT_EQ(last_line(folder.run({"--set", "inference"})), "0 passed, 1 failed");
  EXPECT_TRUE(contains(folder.run({"--set", "inference"}).out, "\"model_type\" is \"gpt2\""));
  EXPECT_TRUE(contains(folder.run({"--only", "gpt2"}).out, "gpt2"));
  EXPECT_EQ(folder.run({"--set", "core"}).status, 2);
}

/// A copy of the fixture mamba in `folder` whose expected tensors a test may change.
void copy_model(const OpFolder& folder,
                const std::function<void(std::vector<FileTensor>&)>& change) {
  std::filesystem::copy(kFixtures + "/mamba", folder.path() + "mamba");
  const std::string path = folder.path() + "mamba/expected.safetensors";
  const SafetensorsFile file = SafetensorsFile::open(kFixtures + "/mamba/expected.safetensors");
  std::vector<FileTensor> tensors = file.tensors();
  change(tensors);
  write_safetensors(path, tensors);
}

TEST(Conformance, WrongValuesOfAModelFail) {
  const OpFolder folder;
  std::vector<float> zeros(48), loss = {1.5f};
  copy_model(folder, [&](std::vector<FileTensor>& tensors) {
    for (FileTensor& tensor : tensors) {
      if (tensor.name == "loss") tensor = FileTensor::f32("loss", {1}, loss);
      if (tensor.name == "grad.backbone.layers.1.mixer.D")
        tensor = FileTensor::f32(tensor.name, {48}, zeros);
    }
    tensors.push_back(FileTensor::f32("grad.backbone.layers.2.norm.weight", {48}, zeros));
  });
  const ProgramResult result = folder.run();
  EXPECT_EQ(result.status, 1);
  for (const char* part : {"FAIL mamba: mamba.loss at [0]: got ", "want 1.5,",
                           "mamba.grad.backbone.layers.1.mixer.D at ",
                           "grad.backbone.layers.2.norm.weight is expected, but"}) {
    EXPECT_TRUE(contains(result.out, part)) << part << "\n" << result.out;
  }
  EXPECT_FALSE(contains(result.out, "mamba.logits")) << result.out;
}

TEST(Conformance, AModelWithoutItsExpectedValuesFails) {
  const OpFolder folder;
  copy_model(folder, [](std::vector<FileTensor>& tensors) {
    std::erase_if(tensors, [](const FileTensor& t) { return t.name == "input_ids"; });
  });
  EXPECT_TRUE(contains(folder.run().out, "input_ids"));
  std::filesystem::remove(folder.path() + "mamba/expected.safetensors");
  EXPECT_TRUE(contains(folder.run().out, "expected.safetensors"));
}

// ---- the command line

TEST(Conformance, MistakesGetASentenceAndStatus2) {
  const std::vector<std::pair<Args, std::string>> mistakes = {
      {{"conformance"}, "no folder is given"},
      {{"conformance", "/nowhere/at/all"}, "There is no folder /nowhere/at/all."},
      {{"conformance", kFixtures, "--device", "abacus"}, "no device named \"abacus\""},
      {{"conformance", kFixtures, "--device", "null"}, "computes nothing"},
      {{"conformance", kFixtures, "--device"}, "--device needs a value"},
      {{"conformance", kFixtures, "--sets", "core"}, "there is no option --sets"},
      {{"conformance", kFixtures, kFixtures}, "two folders"},
  };
  for (const auto& [args, sentence] : mistakes) {
    const ProgramResult result = run_program("tensorgrad", args);
    EXPECT_EQ(result.status, 2) << sentence;
    EXPECT_EQ(result.out, "") << sentence;
    EXPECT_TRUE(contains(result.err, sentence)) << result.err;
  }
}

TEST(Conformance, HelpSaysHowSetsAreDecided) {
  const ProgramResult result = run_program("tensorgrad", {"conformance", "--help"});
  EXPECT_EQ(result.status, 0);
  for (const char* part : {"--device", "--dump", "state-space", "inference"}) {
    EXPECT_TRUE(contains(result.out, part)) << part;
  }
}

TEST(Conformance, ProgressIsForTerminals) {
  const Args args = {"conformance", kFixtures, "--device", "reference", "--only", "add.0"};
  EXPECT_FALSE(contains(run_program("tensorgrad", args).err, "[1/1]"));
  EXPECT_TRUE(contains(run_on_terminal("tensorgrad", args).out, "[1/1] add.0"));
}

}  // namespace
}  // namespace tensorgrad::test
