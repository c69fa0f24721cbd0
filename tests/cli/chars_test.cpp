// `tensorgrad train chars`: what it learns, what it takes for a text, and going on with it.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "cli/cli_support.hpp"

namespace tensorgrad::test {
namespace {

using Words = std::vector<std::string>;

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

class Chars : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder / name, std::ios::binary) << text;
    return folder / name;
  }
  /// A model of a few thousand parameters.
  static Words tiny(const std::string& file, const Words& more = {}) {
    Words words = {"train",   "chars", file,      "--device", "cpu",       "--layers", "1",
                   "--width", "16",    "--heads", "2",        "--context", "8",        "--batch",
                   "8",       "--lr",  "0.01",    "--sample", "20"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static double heldout_of(const std::string& out) {
    const std::string label = "held-out loss: ";
    const std::size_t at = out.rfind(label);
    return at == std::string::npos ? NAN : std::stod(out.substr(at + label.size()));
  }

  ScratchFolder folder;
};

TEST_F(Chars, LearnsATextAndWritesMoreOfIt) {
  const std::string text = write("text", repeated("hello, world\n", 100)), log = folder / "log";
  const ProgramResult result =
      tensorgrad(tiny(text, {"--steps", "150", "--decay-steps", "150", "--evaluate-every", "50",
                             "--log", log, "--prompt", "hell", "--temperature", "0.1"}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "1,300 characters, 10 different ones; the last tenth is"))
      << result.out;
  EXPECT_TRUE(contains(result.out, "  step 50: held-out loss ")) << result.out;
  EXPECT_TRUE(contains(result.out, "  hello, world\n  hello, worl\n")) << result.out;
  // Only the first character of a window is hard to guess.
  EXPECT_LT(heldout_of(result.out), 0.4);

  std::vector<double> heldout;
  for (const Json& event : events_of(log)) {
    if (event["event"] == "evaluation") heldout.push_back(event["heldout"]);
  }
  ASSERT_EQ(heldout.size(), 2u);
  EXPECT_LT(heldout[1], heldout[0]);
  EXPECT_LT(heldout[0], std::log(10.0)) << "better than guessing";
  EXPECT_NEAR(events_of(log).back()["heldout"].get<double>(), heldout_of(result.out), 1e-4);
}

TEST_F(Chars, StateSpaceModelsLearnATextAndWriteMoreOfIt) {
  const std::string text = write("text", repeated("hello, world\n", 100));
  for (const char* model : {"mamba", "mamba2"}) {
    SCOPED_TRACE(model);
    const ProgramResult result = tensorgrad(
        tiny(text, {"--model", model, "--states", "4", "--steps", "120", "--decay-steps", "120",
                    "--prompt", "hell", "--sample", "40", "--temperature", "0.1"}));
    ASSERT_EQ(result.status, 0) << result.err;
    // Longer than a window: the text is written from the state alone.
    EXPECT_TRUE(contains(result.out, "  hello, world\n  hello, world\n  hello, world\n"))
        << result.out;
    EXPECT_LT(heldout_of(result.out), 0.4);
  }
}

TEST_F(Chars, AStateSpaceModelGoesOnFromACheckpoint) {
  const std::string text = write("text", repeated("the quick brown fox\n", 20)),
                    file = folder / "run", whole = folder / "whole", rest = folder / "rest";
  const Words model = {"--model", "mamba2", "--states", "4"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), model.begin(), model.end());
    return tensorgrad(tiny(text, more));
  };
  ASSERT_EQ(with({"--steps", "9", "--log", whole}).status, 0);
  ASSERT_EQ(with({"--steps", "5", "--save", file}).status, 0);
  const ProgramResult resumed = tensorgrad(
      {"train", "chars", "--device", "cpu", "--resume", file, "--steps", "9", "--log", rest});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  const auto expected = losses_of(whole), got = losses_of(rest);
  ASSERT_EQ(got.size(), 4u);
  for (const auto& [step, loss] : got) EXPECT_EQ(loss, expected.at(step)) << step;
}

TEST_F(Chars, TheLastTenthIsNotLearned) {
  // Nine parts of one kind and one of another that shares no character with them.
  const std::string text = write("text", repeated("ab", 450) + repeated("cd", 50));
  const ProgramResult result = tensorgrad(tiny(text, {"--steps", "60", "--decay-steps", "60"}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_GT(heldout_of(result.out), std::log(4.0)) << "worse than guessing, having seen only ab";
  const std::size_t last = result.out.find("last loss ");
  ASSERT_NE(last, std::string::npos);
  EXPECT_LT(std::stod(result.out.substr(last + 10)), 0.3);
}

TEST_F(Chars, TextsThatAreNoneAreRefused) {
  const auto error = [&](const std::string& file) {
    const ProgramResult result = tensorgrad(tiny(file, {"--steps", "2"}));
    EXPECT_EQ(result.status, 1) << file;
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  EXPECT_TRUE(contains(error(write("empty", "")),
                       "is too short: it has 0 characters. With windows of 8, in the last tenth "
                       "too, at least 90 are needed."));
  EXPECT_TRUE(contains(error(write("short", std::string(89, 'a'))), "it has 89 characters."));
  EXPECT_TRUE(contains(error(folder / "missing"), "missing: No such file or directory."));
  EXPECT_TRUE(contains(error(folder / ""), "Is a directory."));
  // As short as can be.
  const ProgramResult enough =
      tensorgrad(tiny(write("enough", repeated("ab", 45)), {"--steps", "2"}));
  EXPECT_EQ(enough.status, 0) << enough.err;
}

TEST_F(Chars, ATextOfOneCharacterIsLearnedAtOnce) {
  const ProgramResult result =
      tensorgrad(tiny(write("text", std::string(200, 'x')), {"--steps", "2"}));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "1 different ones")) << result.out;
  EXPECT_TRUE(contains(result.out, "held-out loss: 0.0000 nats")) << result.out;
  EXPECT_TRUE(contains(result.out, std::string(20, 'x'))) << result.out;
}

TEST_F(Chars, ACharacterIsACodePoint) {
  const std::string text = write("text", "\xEF\xBB\xBF" + repeated("äß€😀\n", 40));
  const ProgramResult result = tensorgrad(tiny(
      text, {"--steps", "80", "--decay-steps", "80", "--prompt", "ä", "--temperature", "0.1"}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "200 characters, 5 different ones;")) << result.out;
  EXPECT_TRUE(contains(result.out, "äß€😀\n  äß€😀")) << result.out;
}

TEST_F(Chars, BytesThatAreNoUtf8AreCharactersThemselves) {
  const std::string text = write("text", repeated("\xE4\xDF\x80z", 50));  // Latin-1
  const ProgramResult result = tensorgrad(tiny(text, {"--steps", "2"}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(
      contains(result.out, "200 characters, 4 different ones (not UTF-8: each byte is one);"))
      << result.out;
}

TEST_F(Chars, ControlCharactersOfATextStayOffTheTerminal) {
  const std::string text = write("text", repeated("\x1b[31mred\x07\r", 30));
  const ProgramResult result = tensorgrad(tiny(text, {"--steps", "30", "--evaluate-every", "10"}));
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* code : {"\x1b", "\x07", "\r"}) EXPECT_FALSE(contains(result.out, code));
}

TEST_F(Chars, APromptIsMadeOfTheTextsCharacters) {
  const std::string text = write("text", repeated("abc\n", 50));
  const ProgramResult result = tensorgrad(tiny(text, {"--steps", "1", "--prompt", "abz"}));
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.err, "tensorgrad: The character \"z\" does not occur in the text.\n");
}

TEST_F(Chars, GoesOnFromACheckpointWithoutBeingToldAgain) {
  const std::string text = write("text", repeated("the quick brown fox\n", 20)),
                    file = folder / "run", whole = folder / "whole", rest = folder / "rest";
  ASSERT_EQ(tensorgrad(tiny(text, {"--steps", "12", "--log", whole})).status, 0);
  ASSERT_EQ(tensorgrad(tiny(text, {"--steps", "7", "--save", file})).status, 0);
  const ProgramResult resumed = tensorgrad(
      {"train", "chars", "--device", "cpu", "--resume", file, "--steps", "12", "--log", rest});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  const auto expected = losses_of(whole), got = losses_of(rest);
  ASSERT_EQ(got.size(), 5u);
  for (const auto& [step, loss] : got) EXPECT_EQ(loss, expected.at(step)) << step;

  const Words resume = {"train", "chars", "--device", "cpu", "--resume", file};
  const auto with = [&](Words more) {
    more.insert(more.begin(), resume.begin(), resume.end());
    return tensorgrad(more);
  };
  EXPECT_EQ(with({"--layers", "2"}).status, 2);
  // The same text elsewhere is the same text; another one is not.
  EXPECT_EQ(with({write("copy", detail::read_file(text))}).status, 0);
  write("text", repeated("the quick brown fix\n", 20));
  const ProgramResult changed = with({});
  EXPECT_EQ(changed.status, 1);
  EXPECT_TRUE(contains(changed.err, "is not what " + file + " was trained on")) << changed.err;
}

TEST_F(Chars, DoesNotWriteOverItsText) {
  const std::string content = repeated("precious\n", 20), text = write("text", content);
  for (const char* option : {"--log", "--save", "--curve"}) {
    const ProgramResult result = tensorgrad(tiny(text, {"--steps", "2", option, text}));
    EXPECT_EQ(result.status, 2) << option;
    EXPECT_TRUE(contains(result.err, " is the file of the data too.")) << result.err;
  }
  EXPECT_EQ(detail::read_file(text), content);
}

}  // namespace
}  // namespace tensorgrad::test
