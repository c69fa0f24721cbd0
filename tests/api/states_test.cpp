// States of a forward program: read, set, handed from one program to another, put back.
#include <gtest/gtest.h>

#include "tensorgrad/tensorgrad.hpp"

namespace tensorgrad::test {
namespace {

struct NoModel {};

/// Adds up what it is fed, and counts the runs.
Outputs add_up(const NoModel&, const Inputs& in) {
  const Tensor sum = state_input("sum", {2}), count = state_input("count", {}, i32, 5);
  const Tensor next = sum + in["x"];
  write_back(sum, next);
  write_back(count, count + 1);
  return {{"sum", next}, {"count", count}};
}

class States : public ::testing::TestWithParam<const char*> {
 protected:
  Forward<NoModel> program() const {
    return compile_forward(NoModel{}, add_up,
                           {.inputs = {{"x", {2}}}, .device = Device::named(GetParam())});
  }
  static std::vector<float> run(Forward<NoModel>& program, float x, float y) {
    return program.run({{"x", std::vector{x, y}}})["sum"].as<float>();
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, States, ::testing::Values("reference", "cpu", "webgpu"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(States, GoFromOneProgramToAnother) {
  auto first = program(), second = program();
  run(first, 1, 2);
  run(first, 10, 20);
  const StateValues states = first.download_states();
  EXPECT_EQ(states.at("sum").as<float>(), (std::vector<float>{11, 22}));
  EXPECT_EQ(states.at("count").as<std::int32_t>(), std::vector<std::int32_t>{7});
  run(second, 5, 5);
  second.upload_states(states);
  EXPECT_EQ(run(second, 100, 200), (std::vector<float>{111, 222}));
  EXPECT_EQ(run(first, 0, 0), (std::vector<float>{11, 22}));
}

TEST_P(States, ResetGivesTheFirstValuesBack) {
  auto forward = program();
  run(forward, 1, 2);
  forward.reset_states();
  EXPECT_EQ(forward.download_states().at("count").as<std::int32_t>(), std::vector<std::int32_t>{5});
  EXPECT_EQ(run(forward, 3, 4), (std::vector<float>{3, 4}));
}

TEST_P(States, WhatDoesNotFitChangesNothing) {
  auto forward = program();
  run(forward, 1, 2);
  const auto message = [&](const StateValues& states) -> std::string {
    try {
      forward.upload_states(states);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const StateValues good = forward.download_states();
  StateValues states = good;
  states.erase("count");
  EXPECT_EQ(message(states), "upload_states: count missing.");
  states = good;
  states["other"] = states.at("sum");
  EXPECT_EQ(message(states), "upload_states: the program has no state named other.");
  states = good;
  states["sum"] = states.at("count");
  EXPECT_EQ(message(states), "upload_states: sum is f32[2], but i32[] is given.");
  EXPECT_EQ(run(forward, 1, 1), (std::vector<float>{2, 3}));
}

}  // namespace
}  // namespace tensorgrad::test
