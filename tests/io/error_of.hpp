// The words with which a file is refused.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tensorgrad/error.hpp"

namespace tensorgrad::test {

inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const IoError& error) {
    return error.what();
  }
  ADD_FAILURE() << "expected an IoError";
  return "";
}

}  // namespace tensorgrad::test
