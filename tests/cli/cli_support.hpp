// What tests of the program share: starting it, and reading its logs.
#pragma once

#include <chrono>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "cli/run_program.hpp"

namespace tensorgrad::test {

using Json = nlohmann::json;

inline ProgramResult tensorgrad(const std::vector<std::string>& args) {
  return run_program("tensorgrad", args);
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Waits, but not for ever, until the program has printed something.
inline bool wait_for_text(const RunningProgram& program, const std::string& text) {
  for (int i = 0; i < 60000 && !contains(program.printed(), text); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return contains(program.printed(), text);
}

/// The lines of a log.
inline std::vector<Json> events_of(const std::string& path) {
  std::vector<Json> events;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) events.push_back(Json::parse(line));
  return events;
}

/// Losses by step. JSON keeps all digits of a float, so that equal means bit for bit.
inline std::map<int, double> losses_of(const std::string& path) {
  std::map<int, double> losses;
  for (const Json& event : events_of(path)) {
    if (event["event"] == "step") losses[event["step"]] = event["loss"];
  }
  return losses;
}

}  // namespace tensorgrad::test
