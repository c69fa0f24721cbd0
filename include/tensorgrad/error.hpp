// What goes wrong at the edge of the library, as exceptions. Every message is a full sentence with
// the given and the expected, followed by where in the user's code it happened.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

namespace tensorgrad {

/// The user's source position that made a node: kept by every op, shown by every error.
struct Site {
  const char* file = nullptr;
  int line = 0;

  /// The caller's position: use it only as a default argument.
  static constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }

  /// `mlp.cpp:12` (the file's name without its folders), or an empty string if unknown.
  std::string to_string() const;
};

/// A mistake of the caller, or of the machine the program runs on. The base of all our exceptions.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Shapes, axes or dtypes that do not fit an op.
struct ShapeError : Error {
  using Error::Error;
};

/// A device that is missing, lost, out of memory, or refuses a kernel.
struct DeviceError : Error {
  using Error::Error;
};

/// A file that cannot be read or written, or does not hold what it should.
struct IoError : Error {
  using Error::Error;
};

/// A bug in tensorgrad itself: never the user's fault.
struct InternalError : std::logic_error {
  using std::logic_error::logic_error;
};

/// Says something the user should know that is no error, on stderr unless a handler is set.
void warn(const std::string& message);
/// Where warnings go from now on; an empty function means stderr again.
void set_warning_handler(std::function<void(const std::string&)> handler);

}  // namespace tensorgrad
