// Checkpoints of the program: a run that is stopped, however it is stopped, goes on in a new
// process as if nothing had happened.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <random>
#include <tensorgrad/safetensors.hpp>
#include <thread>

#include "cli/cli_support.hpp"
#include "support/quick.hpp"

namespace tensorgrad::test {
namespace {

using Words = std::vector<std::string>;

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Steps 1 to 8 in one go, and 1 to 5 and 6 to 8 in two processes: the losses must be equal.
void expect_equal_after_resume(const Words& command, const Words& device, const Words& settings) {
  const ScratchFolder folder;
  const std::string file = folder / "run.safetensors";
  const auto log = [&](const char* name) { return (folder / name).string(); };
  const auto run = [](const Words& words) {
    const ProgramResult result = tensorgrad(words);
    EXPECT_EQ(result.status, 0) << result.err;
  };
  run(command + device + settings + Words{"--steps", "8", "--log", log("whole")});
  run(command + device + settings + Words{"--steps", "5", "--save", file, "--log", log("begin")});
  run(command + device + Words{"--resume", file, "--steps", "8", "--log", log("rest")});

  const auto whole = losses_of(log("whole")), begin = losses_of(log("begin")),
             rest = losses_of(log("rest"));
  ASSERT_EQ(whole.size(), 8u);
  ASSERT_EQ(begin.size(), 5u);
  ASSERT_EQ(rest.size(), 3u);
  for (const auto& [step, loss] : whole) {
    EXPECT_EQ(loss, step <= 5 ? begin.at(step) : rest.at(step)) << "step " << step;
  }
  EXPECT_NE(whole.at(7), whole.at(8)) << "a run that does not move proves nothing";
}

TEST(Checkpoint, ResumingGivesTheSameLossesWithEveryOptimizer) {
  for (const Words& optimizer :
       {Words{"--optimizer", "adam"}, Words{"--optimizer", "adamw"}, Words{"--optimizer", "sgd"},
        Words{"--optimizer", "sgd", "--momentum", "0.9"}}) {
    SCOPED_TRACE(optimizer.back());
    expect_equal_after_resume({"train", "sin"}, {"--device", "cpu"}, optimizer);
  }
}

TEST(Checkpoint, ResumingGivesTheSameLossesOnWebGpu) {
  expect_equal_after_resume({"train", "sin"}, {"--device", "webgpu"}, {"--batch", "8"});
}

TEST(Checkpoint, ResumingGivesTheSameLossesOfATransformer) {
  expect_equal_after_resume({"train", "addition", "--ask", "1"}, {"--device", "cpu"},
                            {"--batch", "16", "--seed", "11"});
}

// ---- contradictions

class SavedRun : public testing::Test {
 protected:
  void SetUp() override {
    const ProgramResult saved = tensorgrad(
        Words{"train", "sin", "--device", "cpu", "--steps", "5", "--batch", "8", "--save", file});
    ASSERT_EQ(saved.status, 0) << saved.err;
    EXPECT_TRUE(contains(saved.out, "saved " + file)) << saved.out;
  }
  ProgramResult resume(const Words& more) const {
    return tensorgrad(Words{"train", "sin", "--device", "cpu", "--resume", file} + more);
  }

  ScratchFolder folder;
  std::string file = folder / "run.safetensors";
};

TEST_F(SavedRun, SaysInItsMetadataHowToRebuildIt) {
  const auto metadata = SafetensorsFile::open(file).metadata();
  EXPECT_EQ(metadata.at("tensorgrad.example"), "sin");
  const Json config = Json::parse(metadata.at("tensorgrad.config"));
  EXPECT_EQ(config["batch"], 8);
  EXPECT_EQ(config["seed"], 42);
  EXPECT_EQ(config["steps"], 5);
  EXPECT_EQ(config["optimizer"], "adam");
  EXPECT_EQ(config["lr"], 0.005);
  EXPECT_EQ(Json::parse(metadata.at("tensorgrad.data"))["step"], 5);
}

TEST_F(SavedRun, RefusesOptionsThatContradictIt) {
  const std::pair<Words, std::string> mistakes[] = {
      {{"--batch", "9"}, "--batch 9 contradicts " + file + ", which was made with --batch 8."},
      {{"--seed", "1"}, "--seed 1 contradicts " + file + ", which was made with --seed 42."},
      {{"--lr", "0.1"}, "--lr 0.1 contradicts " + file + ", which was made with --lr 0.005."},
      {{"--optimizer", "sgd"}, "--optimizer sgd contradicts " + file},
      {{"--steps", "4"}, "--steps 4 is less than the 5 steps that " + file + " has behind it."},
  };
  for (const auto& [words, sentence] : mistakes) {
    const ProgramResult result = resume(words);
    EXPECT_EQ(result.status, 2) << sentence;
    EXPECT_EQ(result.err.rfind("tensorgrad: " + sentence, 0), 0u) << result.err;
    EXPECT_EQ(result.out, "") << result.out;
  }
}

TEST_F(SavedRun, TakesTheSameOptionsAndMoreSteps) {
  const ProgramResult result =
      resume({"--batch", "8", "--seed", "42", "--lr", "0.005", "--steps", "7"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "resumed " + file + ", after 5 steps")) << result.out;
  EXPECT_TRUE(contains(result.out, "step 7/7")) << result.out;
  EXPECT_TRUE(contains(result.out, "trained 2 steps")) << result.out;
}

TEST_F(SavedRun, WithNothingLeftToDoOnlyEvaluates) {
  const ProgramResult result = resume({});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "mean squared error on [-3, 3]: ")) << result.out;
  EXPECT_FALSE(contains(result.out, "trained")) << result.out;
}

TEST_F(SavedRun, AddsToTheLogWhenResumed) {
  const std::string log = folder / "log";
  EXPECT_EQ(resume({"--steps", "6", "--log", log}).status, 0);
  EXPECT_EQ(resume({"--steps", "7", "--log", log}).status, 0);
  // Both went on from step 5.
  std::vector<int> steps;
  for (const Json& event : events_of(log)) {
    if (event["event"] == "step") steps.push_back(event["step"]);
  }
  EXPECT_EQ(steps, (std::vector<int>{6, 6, 7}));
}

TEST_F(SavedRun, BelongsToItsExample) {
  const ProgramResult result = tensorgrad({"train", "addition", "--resume", file});
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(contains(result.err, "it belongs to `train sin`, not to `train addition`."))
      << result.err;
}

TEST(Checkpoint, FilesThatAreNoneAreRefused) {
  const ScratchFolder folder;
  const std::string file = folder / "file";
  const auto resume = [&] { return tensorgrad({"train", "sin", "--resume", file}); };
  EXPECT_EQ(resume().status, 1);
  EXPECT_TRUE(contains(resume().err, file)) << resume().err;
  std::ofstream(file) << "{\"a\": 1}\n";
  EXPECT_EQ(resume().status, 1);
  EXPECT_TRUE(contains(resume().err, file)) << resume().err;
  write_safetensors(file, {}, {});
  EXPECT_TRUE(contains(resume().err, "it has no tensorgrad.example, so no `tensorgrad train`"))
      << resume().err;
}

TEST(Checkpoint, MetadataThatMakeNoSenseAreRefused) {
  const ScratchFolder folder;
  const std::string file = folder / "file";
  const auto error = [&](const std::string& config, const std::string& data) {
    write_safetensors(
        file, {},
        {{"tensorgrad.example", "sin"}, {"tensorgrad.config", config}, {"tensorgrad.data", data}});
    const ProgramResult result = tensorgrad({"train", "sin", "--device", "cpu", "--resume", file});
    EXPECT_EQ(result.status, 1) << config << data;
    return result.err;
  };
  const std::string good = "{\"batch\":8,\"steps\":5}";
  EXPECT_TRUE(contains(error("{", "{\"step\":1}"), "tensorgrad.config is not a JSON object."));
  EXPECT_TRUE(contains(error("[]", "{\"step\":1}"), "tensorgrad.config is not a JSON object."));
  EXPECT_TRUE(contains(error(good, "{\"step\":-1}"), "tensorgrad.data has no proper step."));
  EXPECT_TRUE(contains(error(good, "{}"), "tensorgrad.data has no proper step."));
  EXPECT_TRUE(contains(error("{\"batch\":0}", "{\"step\":1}"),
                       "the setting batch is 0, not a whole number, 1 or more."));
  EXPECT_TRUE(contains(error("{\"batch\":[8]}", "{\"step\":1}"), "the setting batch is [8], not"));
  EXPECT_TRUE(contains(error("{\"optimizer\":\"x\"}", "{\"step\":1}"),
                       "the setting optimizer is \"x\", not adamw, adam or sgd."));
  EXPECT_TRUE(contains(error(good, "{\"step\":1}"), "is no checkpoint of tensorgrad"));
}

// ---- where to save

TEST(Checkpoint, APlaceThatCannotBeWrittenFailsBeforeTraining) {
  const ScratchFolder folder;
  const std::string precious = folder / "precious", text = folder / "text";
  ASSERT_EQ(
      tensorgrad({"train", "sin", "--device", "cpu", "--steps", "1", "--save", precious}).status,
      0);
  chmod(precious.c_str(), 0444);
  std::ofstream(text) << "a letter\n";
  const std::pair<std::string, std::string> places[] = {
      {"/nonexistent/run", "there is no folder /nonexistent."},
      {folder / "", "it is a folder."},
      {"/dev/null", "it is no regular file."},
      {text + "/run", "there is no folder " + text + "."},
      {text, "there is a file that is no checkpoint."},
      {precious, "it is read-only."},
  };
  for (const auto& [place, reason] : places) {
    const ProgramResult result =
        tensorgrad({"train", "sin", "--device", "cpu", "--steps", "3", "--save", place});
    EXPECT_EQ(result.status, 1) << place;
    EXPECT_TRUE(contains(result.err, reason)) << result.err;
    EXPECT_FALSE(contains(result.out, "step ")) << result.out;
  }
  EXPECT_EQ(detail::read_file(text), "a letter\n");
}

TEST(Checkpoint, FilesToWriteAreDifferentOnes) {
  const ScratchFolder folder;
  const std::string file = folder / "file";
  const ProgramResult result = tensorgrad({"train", "sin", "--save", file, "--log", file});
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.err, "tensorgrad: --log " + file +
                            " is the file of --save too. "
                            "Each needs its own.\n");
  EXPECT_FALSE(std::filesystem::exists(file));
}

// ---- stopping

std::int64_t saved_step(const std::string& file) {
  return Json::parse(SafetensorsFile::open(file).metadata().at("tensorgrad.data"))["step"];
}

TEST(Checkpoint, IsSavedEveryNSteps) {
  const ScratchFolder folder;
  const std::string file = folder / "run", log = folder / "log";
  const ProgramResult result = tensorgrad({"train", "sin", "--device", "cpu", "--steps", "8",
                                           "--save", file, "--save-every", "3", "--log", log});
  EXPECT_EQ(result.status, 0) << result.err;
  std::vector<int> steps;
  for (const Json& event : events_of(log)) {
    if (event["event"] == "save") steps.push_back(event["step"]);
  }
  EXPECT_EQ(steps, (std::vector<int>{3, 6, 8}));
  EXPECT_EQ(saved_step(file), 8);
}

TEST(Checkpoint, ControlCSavesAndTheRunGoesOn) {
  const ScratchFolder folder;
  const std::string file = folder / "run", begin = folder / "begin", rest = folder / "rest",
                    whole = folder / "whole";
  // Only Ctrl-C saves here, at a step that nobody chose.
  const Words words = {"train", "sin", "--device", "cpu", "--batch", "8", "--decay-steps", "1000"};
  const ProgramResult stopped =
      run_on_terminal("tensorgrad",
                      words + Words{"--steps", "100000000", "--save", file, "--save-every",
                                    "100000000", "--log", begin},
                      "steps/s");
  ASSERT_EQ(stopped.status, 130) << stopped.out;
  EXPECT_TRUE(contains(stopped.out, "saved " + file)) << stopped.out;
  const std::int64_t step = saved_step(file);
  ASSERT_GT(step, 0);
  const std::string more = std::to_string(step + 5);
  ASSERT_EQ(tensorgrad({"train", "sin", "--device", "cpu", "--resume", file, "--steps", more,
                        "--log", rest})
                .status,
            0);
  ASSERT_EQ(tensorgrad(words + Words{"--steps", more, "--log", whole}).status, 0);
  std::map<int, double> parts = losses_of(begin);
  EXPECT_EQ(static_cast<std::int64_t>(parts.size()), step);
  parts.merge(losses_of(rest));
  EXPECT_EQ(parts, losses_of(whole));
}

TEST(Checkpoint, ARequestToTerminateSavesToo) {
  const ScratchFolder folder;
  const std::string file = folder / "run";
  RunningProgram program("tensorgrad", {"train", "sin", "--device", "cpu", "--steps", "1000000000",
                                        "--save", file, "--save-every", "1000000000"});
  ASSERT_TRUE(wait_for_text(program, "step 1/"));
  program.send(SIGTERM);
  const ProgramResult result = program.finish();
  EXPECT_EQ(result.status, 128 + SIGTERM) << result.err;
  EXPECT_GT(saved_step(file), 0);
}

TEST(Checkpoint, ALossThatIsNoNumberLeavesTheLastGoodOne) {
  const ScratchFolder folder;
  const std::string file = folder / "run";
  const ProgramResult result =
      tensorgrad({"train", "sin", "--device", "cpu", "--lr", "1e30", "--optimizer", "sgd",
                  "--steps", "20", "--save", file, "--save-every", "1"});
  EXPECT_EQ(result.status, 1) << result.out;
  // The parameters after the first step are absurd but finite; those after the next are neither.
  EXPECT_TRUE(contains(result.err, " finite") || contains(result.err, "The loss of step "))
      << result.err;
  ASSERT_TRUE(std::filesystem::exists(file));
  EXPECT_TRUE(contains(result.err, file + " holds step " + std::to_string(saved_step(file))))
      << result.err;
  const SafetensorsFile saved = SafetensorsFile::open(file);
  for (const FileTensor& tensor : saved.tensors()) {
    if (tensor.name.rfind("param.", 0) != 0) continue;
    for (const float value : saved.read_f32(tensor.name)) EXPECT_TRUE(std::isfinite(value));
  }
}

// A process that does little else than save is killed a hundred times. Each time the file is whole,
// and the next process goes on from it.
TEST(Checkpoint, SurvivesAHundredKills) {
  const int kills = quick() ? 10 : 100;
  // In memory if possible: there a save takes a millisecond, so that kills find it in every state.
  const std::filesystem::path memory = "/dev/shm";
  const ScratchFolder folder(
      std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path());
  const std::string file = folder / "run";
  const Words words = {"train",      "sin",    "--device", "cpu",          "--steps",
                       "1000000000", "--save", file,       "--save-every", "1"};
  std::mt19937 random(20240917);
  std::uniform_int_distribution<int> microseconds(0, 20000);
  std::int64_t last = 0;
  int grew = 0;
  for (int i = 0; i < kills; ++i) {
    const bool first = last == 0;
    RunningProgram program("tensorgrad",
                           words + (first ? Words{"--batch", "4"} : Words{"--resume", file}));
    ASSERT_TRUE(wait_for_text(program, "step ")) << "it does not start any more";
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds(random)));
    program.send(SIGKILL);
    ASSERT_EQ(program.finish().status, 128 + SIGKILL);

    if (first && !std::filesystem::exists(file)) continue;  // killed in the first save of all
    const SafetensorsFile saved = SafetensorsFile::open(file);
    for (const FileTensor& tensor : saved.tensors()) saved.read_f32(tensor.name);
    const std::int64_t step = saved_step(file);
    ASSERT_GE(step, last);
    grew += step > last;
    last = step;
  }
  EXPECT_GT(grew, kills / 4) << "kills came before anything was saved";
  // Names of killed writers are used again, not piled up: the file and at most one beside it.
  const std::filesystem::directory_iterator left(std::filesystem::path(file).parent_path());
  EXPECT_LE(std::distance(begin(left), end(left)), 2);
}

}  // namespace
}  // namespace tensorgrad::test
