// JSON as Python's json module writes it.
#pragma once

#include <string>
#include <string_view>

namespace tensorgrad {

/// The text as standard JSON: the numbers NaN, Infinity and -Infinity, which Python writes and JSON
/// does not have, become the strings "nan", "inf" and "-inf".
std::string strict_json(std::string_view text);

}  // namespace tensorgrad
