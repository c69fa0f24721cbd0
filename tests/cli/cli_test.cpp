// The program as somebody types it: help, mistakes, and what commands print.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "cli/cli_support.hpp"
#include "support/quick.hpp"

namespace tensorgrad::test {
namespace {

constexpr const char* kEscape = "\x1b";

// ---- help and mistakes

TEST(Cli, HelpListsTheCommands) {
  const ProgramResult help = tensorgrad({"--help"});
  EXPECT_EQ(help.status, 0) << help.err;
  for (const char* command : {"train", "inspect", "compare", "devices", "conformance", "version"}) {
    EXPECT_TRUE(contains(help.out, command)) << command;
  }
  EXPECT_EQ(help.err, "");
}

TEST(Cli, EveryCommandHasHelpWithExamplesOrOptions) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"train"},
                                             {"train", "sin"},
                                             {"train", "addition"},
                                             {"train", "chars"},
                                             {"train", "mnist"},
                                             {"inspect"},
                                             {"compare"},
                                             {"devices"},
                                             {"version"}}) {
    std::string command = "tensorgrad";
    for (const std::string& word : words) command += " " + word;
    std::vector<std::string> args = words;
    args.push_back("--help");
    const ProgramResult help = tensorgrad(args);
    EXPECT_EQ(help.status, 0) << command << help.err;
    EXPECT_EQ(help.out.rfind("usage: " + command, 0), 0u) << help.out;
    std::vector<std::string> asked = words;
    asked.insert(asked.begin(), "help");
    EXPECT_EQ(tensorgrad(asked).out, help.out) << command;
  }
}

TEST(Cli, HelpOfAnExampleTeachesItsOptions) {
  const std::string help = tensorgrad({"train", "addition", "--help"}).out;
  for (const char* part : {"--device", "--steps", "--seed", "--batch", "--lr", "--log",
                           "Examples:", "07+95=201", "(default "}) {
    EXPECT_TRUE(contains(help, part)) << part;
  }
}

TEST(Cli, WithoutACommandTheHelpGoesToStderr) {
  const ProgramResult result = tensorgrad({});
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(contains(result.err, "usage: tensorgrad COMMAND"));
}

struct Mistake {
  std::vector<std::string> args;
  std::string sentence;
};

TEST(Cli, MistakesGetASentenceAndStatus2) {
  const std::vector<Mistake> mistakes = {
      {{"trian"}, "There is no command \"trian\"; did you mean train? See `tensorgrad --help`."},
      {{"fly"}, "There is no command \"fly\". See `tensorgrad --help`."},
      {{"train"}, "`tensorgrad train` needs the name of an example:"},
      {{"train", "sine"}, "There is no example named \"sine\"; did you mean sin?"},
      {{"train", "weather"},
       "There is no example named \"weather\"; there are: addition, chars, mnist, sin."},
      {{"train", "--steps", "3"}, "The name of an example comes before the options"},
      {{"train", "sin", "--stepz", "3"},
       "`tensorgrad train sin` has no option --stepz; did you mean --steps?"},
      {{"train", "sin", "--steps"}, "--steps needs a value: --steps N."},
      {{"train", "sin", "--steps", "0"}, "--steps takes a whole number, 1 or more, not \"0\"."},
      {{"train", "sin", "--steps=many"}, "--steps takes a whole number, 1 or more, not \"many\"."},
      {{"train", "sin", "--steps", "99999999999999999999"}, "--steps takes a whole number"},
      {{"train", "sin", "--lr", "-1"}, "--lr takes a positive number, not \"-1\"."},
      {{"train", "sin", "--lr", "nan"}, "--lr takes a positive number, not \"nan\"."},
      {{"train", "sin", "--seed", "-1"}, "--seed takes a whole number, 0 or more, not \"-1\"."},
      {{"train", "sin", "twice"},
       "`tensorgrad train sin` does not know what to do with \"twice\"."},
      {{"train", "sin", "--optimizer", "rms"},
       "--optimizer takes adamw, adam or sgd, not \"rms\"."},
      {{"train", "sin", "--momentum", "0.9"}, "--momentum is for --optimizer sgd, not adam."},
      {{"train", "sin", "--optimizer", "sgd", "--momentum", "1"},
       "--momentum takes a number below 1."},
      {{"train", "sin", "--save-every", "5"}, "--save-every needs --save FILE"},
      {{"train", "chars"}, "`tensorgrad train chars` needs FILE: a text to learn."},
      {{"train", "chars", "a.txt", "b.txt"},
       "`tensorgrad train chars` does not know what to do with \"b.txt\"."},
      {{"train", "chars", "a.txt", "--heads", "3"}, "--width 128 does not divide into --heads 3."},
      {{"train", "chars", "a.txt", "--model", "mamba2", "--heads", "24"},
       "--width 128 does not divide into --heads 24."},
      {{"train", "chars", "a.txt", "--model", "lstm"},
       "--model takes gpt, mamba or mamba2, not \"lstm\"."},
      {{"devices", "all"}, "`tensorgrad devices` does not know what to do with \"all\"."},
  };
  for (const Mistake& mistake : mistakes) {
    const ProgramResult result = tensorgrad(mistake.args);
    EXPECT_EQ(result.status, 2) << mistake.sentence;
    EXPECT_EQ(result.out, "") << mistake.sentence;
    EXPECT_EQ(result.err.rfind("tensorgrad: " + mistake.sentence, 0), 0u) << result.err;
  }
}

TEST(Cli, ErrorsOfTheLibraryGetStatus1) {
  const ProgramResult device = tensorgrad({"train", "sin", "--device", "abacus"});
  EXPECT_EQ(device.status, 1);
  EXPECT_EQ(device.err.rfind("tensorgrad: There is no device named \"abacus\".", 0), 0u)
      << device.err;

  const ProgramResult log =
      tensorgrad({"train", "sin", "--device", "cpu", "--log", "/nonexistent/folder/log"});
  EXPECT_EQ(log.status, 1);
  EXPECT_TRUE(contains(log.err, "Cannot write the log /nonexistent/folder/log")) << log.err;
}

TEST(Cli, ALossThatIsNoNumberEndsTrainingWithItsStep) {
  const ProgramResult result =
      tensorgrad({"train", "sin", "--device", "cpu", "--lr", "1e30", "--steps", "20"});
  EXPECT_EQ(result.status, 1) << result.out;
  EXPECT_TRUE(contains(result.err, "The loss of step ")) << result.err;
  EXPECT_TRUE(contains(result.err, "Try a smaller --lr.")) << result.err;
}

TEST(Cli, TheOpThatMadeTheLossNoNumberIsNamed) {
  const ProgramResult result = tensorgrad(
      {"train", "sin", "--device", "cpu", "--lr", "1e30", "--steps", "20", "--find-nonfinite"});
  EXPECT_EQ(result.status, 1) << result.out;
  for (const char* part : {"The loss of step 2 is NaN.", "= matmul(",
                           "at sin.cpp:", "in parameter path l2", "\"l2.W\" f32[64, 64] in ["}) {
    EXPECT_TRUE(contains(result.err, part)) << part << "\n" << result.err;
  }
}

// ---- comparing devices

TEST(Cli, CompareSaysThatDevicesAgree) {
  for (const char* devices : {"reference,cpu", "cpu,webgpu"}) {
    const ProgramResult result =
        tensorgrad({"compare", "sin", "--devices", devices, "--batch", "16"});
    EXPECT_EQ(result.status, 0) << result.out << result.err;
    EXPECT_TRUE(contains(result.out, " agrees with ")) << result.out;
  }
  const ProgramResult addition =
      tensorgrad({"compare", "addition", "--devices", "reference,cpu", "--batch", "2"});
  EXPECT_EQ(addition.status, 0) << addition.out << addition.err;
}

TEST(Cli, CompareShowsADifferenceAndEndsWithStatus1) {
  const ProgramResult result = tensorgrad(
      {"compare", "sin", "--devices", "reference,cpu", "--batch", "64", "--tolerance", "1e-12"});
  EXPECT_EQ(result.status, 1) << result.out << result.err;
  for (const char* part : {"cpu and reference differ in ", " ops, first in", "element ["}) {
    EXPECT_TRUE(contains(result.out, part)) << part << "\n" << result.out;
  }
}

TEST(Cli, CompareWantsTwoDevicesThatCompute) {
  EXPECT_EQ(tensorgrad({"compare", "sin", "--devices", "cpu"}).status, 2);
  EXPECT_EQ(tensorgrad({"compare", "sin", "--devices", "cpu,"}).status, 2);
  const ProgramResult null = tensorgrad({"compare", "sin", "--devices", "cpu,null"});
  EXPECT_EQ(null.status, 1);
  EXPECT_TRUE(contains(null.err, "computes nothing")) << null.err;
}

// ---- version and devices

TEST(Cli, TheVersionIsTheProjects) {
  const ProgramResult result = tensorgrad({"version"});
  EXPECT_EQ(result.status, 0);
  std::stringstream text(result.out);
  std::string name, version;
  text >> name >> version;
  EXPECT_EQ(name, "tensorgrad");
  std::stringstream project;
  project << std::ifstream(TENSORGRAD_SOURCE_DIR "/CMakeLists.txt").rdbuf();
  EXPECT_TRUE(contains(project.str(), "project(tensorgrad VERSION " + version + " ")) << version;
  EXPECT_EQ(tensorgrad({"--version"}).out, result.out);
}

TEST(Cli, DevicesListsEachWithADescriptionOrAReason) {
  setenv("TENSORGRAD_DEVICE", "cpu", 1);
  const ProgramResult result = tensorgrad({"devices"});
  unsetenv("TENSORGRAD_DEVICE");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "* cpu")) << result.out;
  for (const char* name : {"  webgpu ", "  reference ", "  null "}) {
    EXPECT_TRUE(contains(result.out, name)) << result.out;
  }
  EXPECT_FALSE(contains(result.out, kEscape));
}

TEST(Cli, InspectKnowsEveryExample) {
  for (const char* example : {"addition", "chars", "mnist", "sin"}) {
    const ProgramResult result =
        tensorgrad({"inspect", example, "--device", "cpu", "--batch", "4", "--show", "memory"});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_TRUE(contains(result.out, "kernels a step")) << example << result.out;
  }
}

// ---- train

TEST(Cli, WithoutATerminalThereAreNoEscapeCodes) {
  const ProgramResult result = tensorgrad({"train", "sin", "--steps", "50", "--device", "cpu"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_FALSE(contains(result.out, kEscape));
  EXPECT_FALSE(contains(result.out, "\r"));
  EXPECT_EQ(result.err, "");
  for (const char* part : {"device  cpu: ", "4,353 parameters", "kernels a step",
                           "step 5/50  loss ", "step 50/50  loss ", "trained 50 steps",
                           "loss by step", "o prediction", "mean squared error on [-3, 3]: "}) {
    EXPECT_TRUE(contains(result.out, part)) << part << "\n" << result.out;
  }
}

TEST(Cli, OnATerminalTheLineIsRewritten) {
  const ProgramResult result =
      run_on_terminal("tensorgrad", {"train", "sin", "--steps", "200", "--device", "cpu"});
  EXPECT_EQ(result.status, 0) << result.out;
  EXPECT_TRUE(contains(result.out, "\r    1/200  ")) << result.out;
  EXPECT_TRUE(contains(result.out, "200/200")) << result.out;
  EXPECT_TRUE(contains(result.out, "\x1b[K")) << result.out;
  EXPECT_TRUE(contains(result.out, "█")) << result.out;
}

TEST(Cli, ControlCEndsTrainingAndStillEvaluates) {
  const ProgramResult result = run_on_terminal(
      "tensorgrad", {"train", "sin", "--steps", "1000000000", "--device", "cpu"}, "steps/s");
  EXPECT_EQ(result.status, 130) << result.out;
  EXPECT_TRUE(contains(result.out, "interrupted after step ")) << result.out;
  EXPECT_TRUE(contains(result.out, "mean squared error on [-3, 3]: ")) << result.out;
}

TEST(Cli, ASecondControlCEndsAtOnce) {
  // Steps that take long: the first Ctrl-C is still waiting for one when the second comes.
  RunningProgram program("tensorgrad", {"train", "addition", "--device", "cpu", "--batch", "4000"});
  ASSERT_TRUE(wait_for_text(program, "data "));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  program.send(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  program.send(SIGINT);
  const ProgramResult result = program.finish();
  EXPECT_EQ(result.status, 128 + SIGINT);
  EXPECT_FALSE(contains(result.out, "interrupted")) << result.out;
}

// ---- the curve as a picture

/// Whether every element that begins also ends, in order.
bool is_balanced(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at + 1)) {
    const std::size_t end = xml.find('>', at);
    if (end == std::string::npos) return false;
    const std::string name = xml.substr(at + 1, xml.find_first_of(" >", at) - at - 1);
    if (name[0] == '/') {
      if (open.empty() || "/" + open.back() != name) return false;
      open.pop_back();
    } else if (xml[end - 1] != '/') {
      open.push_back(name);
    }
  }
  return open.empty();
}

TEST(Cli, TheCurveIsAnSvgWithAPointAStep) {
  const ScratchFolder folder;
  const std::string path = folder / "curve.svg";
  const ProgramResult result =
      tensorgrad({"train", "sin", "--device", "cpu", "--steps", "30", "--curve", path});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "drew " + path)) << result.out;
  const std::string svg = detail::read_file(path);
  EXPECT_EQ(svg.rfind("<svg xmlns=\"http://www.w3.org/2000/svg\"", 0), 0u) << svg;
  EXPECT_TRUE(is_balanced(svg)) << svg;
  EXPECT_TRUE(contains(svg, ">sin: loss by step<")) << svg;
  const std::size_t points = svg.find("points=\"");
  ASSERT_NE(points, std::string::npos);
  const std::string line = svg.substr(points, svg.find('"', points + 8) - points);
  EXPECT_EQ(std::count(line.begin(), line.end(), ','), 30) << line;
  EXPECT_FALSE(contains(svg, "nan") || contains(svg, "inf")) << svg;
}

TEST(Cli, TheProfileHasEveryKernelOfAStep) {
  const ScratchFolder folder;
  const std::string path = folder / "trace.json", curve = folder / "plain.jsonl",
                    profiled = folder / "profiled.jsonl";
  const std::vector<std::string> words{"train", "sin", "--device", "cpu", "--steps", "20", "--log"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return tensorgrad(more);
  };
  const ProgramResult result = with({profiled, "--profile", path});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "wrote " + path)) << result.out;
  const Json trace = Json::parse(detail::read_file(path));
  EXPECT_TRUE(contains(result.out, std::to_string(trace["traceEvents"].size()) + " kernels a step"))
      << result.out;
  for (const Json& event : trace["traceEvents"]) {
    EXPECT_GE(event["dur"], 0) << event;
    EXPECT_GT(event["args"]["bytes"], 0) << event;
  }
  // It changes nothing that is trained.
  EXPECT_EQ(with({curve}).status, 0);
  EXPECT_EQ(losses_of(profiled), losses_of(curve));
}

TEST(Cli, ACurveThatCannotBeWrittenFailsBeforeTraining) {
  const ProgramResult result = tensorgrad({"train", "sin", "--curve", "/nonexistent/curve.svg"});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err,
            "tensorgrad: Cannot write /nonexistent/curve.svg: No such file or directory.\n");
}

TEST(Cli, SinLearnsTheSine) {
  const ProgramResult result = tensorgrad({"train", "sin", "--device", "cpu"});
  const std::string label = "mean squared error on [-3, 3]: ";
  const std::size_t at = result.out.find(label);
  ASSERT_NE(at, std::string::npos) << result.out << result.err;
  EXPECT_LT(std::stod(result.out.substr(at + label.size())), 1e-3) << result.out;
}

TEST(Cli, EqualSeedsGiveEqualLogs) {
  const ScratchFolder folder;
  const auto log_of = [&](const std::string& name, const std::string& seed) {
    const std::string path = folder / name;
    const ProgramResult result = tensorgrad(
        {"train", "sin", "--device", "cpu", "--steps", "5", "--seed", seed, "--log", path});
    EXPECT_EQ(result.status, 0) << result.err;
    return losses_of(path);
  };
  const auto first = log_of("a", "7"), again = log_of("b", "7"), other = log_of("c", "8");
  ASSERT_EQ(first.size(), 5u);
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
}

TEST(Cli, TheLogHasEveryStepWithLossRateAndTime) {
  const ScratchFolder folder;
  const std::string path = folder / "log";
  EXPECT_EQ(tensorgrad({"train", "sin", "--device", "cpu", "--steps", "5", "--log", path}).status,
            0);
  const std::vector<Json> events = events_of(path);
  ASSERT_EQ(events.size(), 7u);
  EXPECT_EQ(events[0]["event"], "start");
  EXPECT_EQ(events[0]["example"], "sin");
  double seconds = 0;
  for (int step = 1; step <= 5; ++step) {
    const Json& event = events[static_cast<std::size_t>(step)];
    EXPECT_EQ(event["event"], "step");
    EXPECT_EQ(event["step"], step);
    EXPECT_GT(event["loss"], 0);
    // Half a cosine over 1,000 steps has hardly begun.
    EXPECT_NEAR(event["lr"].get<double>(), 0.005, 1e-5);
    EXPECT_GT(event["seconds"], seconds);
    seconds = event["seconds"];
  }
  EXPECT_EQ(events[6]["event"], "end");
  EXPECT_EQ(events[6]["steps"], 5);
}

TEST(Cli, AdditionTrainsAndIsAsked) {
  const ScratchFolder folder;
  std::vector<const char*> devices = {"cpu"};
  if (!quick()) devices.push_back("reference");
  for (const char* device : devices) {
    const std::string path = folder / device;
    const ProgramResult result = tensorgrad({"train", "addition", "--device", device, "--steps",
                                             "3", "--batch", "2", "--ask", "4", "--log", path});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.err, "");
    for (const char* part :
         {"8,000 pairs to learn from, 2,000 held out", "7 + 95 = 102 is written 07+95=201",
          "step 3/3", "worked examples", "held-out exact match: ", " of 4)"}) {
      EXPECT_TRUE(contains(result.out, part)) << part << "\n" << result.out;
    }
    EXPECT_FALSE(contains(result.out, kEscape));
    const std::string log = detail::read_file(path);
    EXPECT_TRUE(contains(log, "{\"event\":\"start\",\"example\":\"addition\"")) << log;
    EXPECT_TRUE(contains(log, "{\"event\":\"end\",\"steps\":3,")) << log;
  }
}

}  // namespace
}  // namespace tensorgrad::test
