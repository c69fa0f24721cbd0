#include "conformance_case.hpp"

#include <cmath>
#include <cstdio>
#include <limits>

namespace tensorgrad::conformance {

namespace {

/// Below this the largest expected magnitude is the rounding error of a zero in double precision.
constexpr double kZero = 1e-12;
constexpr double kZeroTolerance = 1e-6;

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string rounded(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

/// `[1, 0, 3]`: the place of an element, counted in row-major order.
std::string place(std::size_t element, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> index(shape.size());
  auto rest = static_cast<std::int64_t>(element);
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = rest % shape[axis];
    rest /= shape[axis];
  }
  return to_string(index);
}

}  // namespace

std::string to_string(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (std::int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

std::vector<float> transpose(const std::vector<float>& values, std::int64_t rows,
                             std::int64_t columns) {
  std::vector<float> result(values.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      result[static_cast<std::size_t>(c * rows + r)] =
          values[static_cast<std::size_t>(r * columns + c)];
    }
  }
  return result;
}

Array Array::of(std::vector<std::int64_t> shape, std::vector<float> values) {
  return {std::move(shape), true, std::move(values), {}};
}

Array Array::of(const Value& value) {
  Array array;
  array.shape.assign(value.shape().begin(), value.shape().end());
  array.is_float = value.dtype() == f32;
  if (array.is_float) {
    array.floats = value.as<float>();
  } else {
    array.ints = value.as<std::int32_t>();
  }
  return array;
}

Array Array::read(const SafetensorsFile& file, const std::string& name) {
  switch (file.info(name).dtype) {
    case FileDType::F64:
    case FileDType::F32:
    case FileDType::F16:
    case FileDType::BF16:
    case FileDType::F8_E4M3:
    case FileDType::F8_E5M2:
      return read_f32(file, name);
    default:
      return read_i32(file, name);
  }
}

Array Array::read_f32(const SafetensorsFile& file, const std::string& name) {
  return {file.info(name).shape, true, file.read_f32(name), {}};
}

Array Array::read_i32(const SafetensorsFile& file, const std::string& name) {
  return {file.info(name).shape, false, {}, file.read_i32(name)};
}

std::vector<double> Array::numbers() const {
  return is_float ? std::vector<double>(floats.begin(), floats.end())
                  : std::vector<double>(ints.begin(), ints.end());
}

void Report::compare(const std::string& name, const std::vector<std::int64_t>& shape,
                     const std::vector<double>& got, const std::vector<double>& want,
                     double tolerance, Scale scale) {
  if (got.size() != want.size()) {
    fail(name + " has " + std::to_string(got.size()) + " elements, expected " +
         std::to_string(want.size()));
    return;
  }
  double largest = 0;
  for (double w : want) {
    if (std::isfinite(w)) largest = std::max(largest, std::abs(w));
  }
  const bool zero = largest < kZero && tolerance > 0;
  const double allowed = zero ? kZeroTolerance : tolerance;
  double worst = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double g = got[i], w = want[i];
    double error = 0;
    if (!std::isfinite(g) || !std::isfinite(w)) {
      const bool same = g == w || (std::isnan(g) && std::isnan(w));
      error = same ? 0 : std::numeric_limits<double>::infinity();
    } else if (g != w) {
      const double divisor = zero ? 1 : scale == Scale::Element ? std::abs(w) : largest;
      error = divisor > 0 ? std::abs(g - w) / divisor : std::numeric_limits<double>::infinity();
    }
    if (error > worst) worst = error, at = i;
  }
  if (worst <= allowed) return;
  fail(name + " at " + place(at, shape) + ": got " + number(got[at]) + ", want " +
       number(want[at]) + ", " + (zero ? "absolute " : "") + "error " + rounded(worst) +
       ", tolerance " + rounded(allowed));
}

void Report::check(const SafetensorsFile& file, const std::string& name, Array got,
                   double tolerance, const std::string& dumped_as) {
  const std::string& label = dumped_as.empty() ? name : dumped_as;
  if (!file.has(name)) {
    fail("the expected tensor " + name + " is missing from " + file.path());
  } else {
    const Array want = Array::read(file, name);
    if (got.shape != want.shape) {
      fail(label + " has the shape " + to_string(got.shape) + ", expected " +
           to_string(want.shape));
    } else if (got.is_float != want.is_float) {
      fail(label + " is " + (got.is_float ? "f32" : "i32 or bool") + ", expected " +
           (want.is_float ? "f32" : "i32 or bool"));
    } else {
      compare(label, got.shape, got.numbers(), want.numbers(), tolerance);
    }
  }
  record(label, std::move(got));
}

std::string Report::text() const {
  std::string text;
  for (const std::string& failure : failures_) text += (text.empty() ? "" : "; ") + failure;
  // An exception's message may have several lines; a case has one.
  std::string line;
  for (char c : text) {
    const bool space = c == '\n' || c == ' ';
    if (!space) {
      line += c;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  return line;
}

}  // namespace tensorgrad::conformance
