// How errors of src/io read: a sentence, then the tensor and the file. Text that comes from a file
// is never shown raw: it is clipped and its control characters are escaped.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tensorgrad::io {

/// `text` in double quotes, fit for a terminal or a log: control characters and what is not UTF-8
/// escaped, long text clipped.
std::string quoted(std::string_view text);

/// The same without the quotes, clipped after `limit` bytes.
std::string printable(std::string_view text, std::size_t limit);

/// What is wrong with any file, whatever it should hold: a whole sentence.
[[noreturn]] void fail_at_path(std::string_view path, const std::string& sentence);

/// `Cannot <action>: No such file or directory (errno 2).`
[[noreturn]] void fail_errno(std::string_view path, const std::string& action, int error_number);

/// What is wrong with a safetensors file or its index: `safetensors: <sentence>`.
[[noreturn]] void fail_in_file(std::string_view path, const std::string& sentence);
[[noreturn]] void fail_in_tensor(std::string_view path, std::string_view tensor,
                                 const std::string& sentence);

}  // namespace tensorgrad::io
