// Random numbers: one primitive, a function of an element's index and the key of its stream (see
// random.hpp), and what is made of it.
#include "tensorgrad/random.hpp"

#include <charconv>
#include <cmath>
#include <numbers>

#include "ir/text.hpp"
#include "ops/rule.hpp"

namespace tensorgrad {

Words threefry(Words counter, Words key) {
  const std::uint32_t keys[] = {key[0], key[1], 0x1BD11BDAu ^ key[0] ^ key[1]};
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  std::uint32_t x = counter[0] + keys[0], y = counter[1] + keys[1];
  for (std::uint32_t group = 0; group < 5; ++group) {
    for (const int by : kRotations[group % 2]) {
      x += y;
      y = (y << by | y >> (32 - by)) ^ x;
    }
    x += keys[(group + 1) % 3];
    y += keys[(group + 2) % 3] + group + 1;
  }
  return {x, y};
}

int random_stream(const std::string& input) {
  constexpr std::string_view kPrefix = "random.";
  if (input.rfind(kPrefix, 0) != 0) return -1;
  int stream = -1;
  const char* end = input.data() + input.size();
  const auto read = std::from_chars(input.data() + kPrefix.size(), end, stream);
  return read.ec == std::errc() && read.ptr == end ? stream : -1;
}

std::array<std::int32_t, 2> random_key(std::uint64_t seed, int stream, std::int64_t step) {
  // The finaliser of MurmurHash3 after each part: every bit reaches every bit.
  std::uint64_t hash = 0x9e3779b97f4a7c15ULL;
  for (const std::uint64_t part :
       {seed, static_cast<std::uint64_t>(stream), static_cast<std::uint64_t>(step)}) {
    hash = (hash ^ part) * 0xff51afd7ed558ccdULL;
    hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53ULL;
    hash ^= hash >> 33;
  }
  return {static_cast<std::int32_t>(static_cast<std::uint32_t>(hash)),
          static_cast<std::int32_t>(static_cast<std::uint32_t>(hash >> 32))};
}

// (threefry(index; key) >> 8)·2⁻²⁴, in [0, 1);  nothing flows back
Types infer_Random(const Rule& r) {
  for (int i = 0; i < 3; ++i) {
    if (r.type(i).dtype != i32 || r.type(i).shape != r.type(0).shape) {
      r.fail("takes an index and two key words, i32 of one shape, not " + r.type(i).to_string() +
             ".");
    }
  }
  return {{f32, r.type(0).shape}};
}
void grad_Random(GradContext& c) { not_differentiable(c); }

namespace {

/// Uniform numbers in [0, 1) from a stream of their own.
Tensor next_stream(const Shape& shape, Site site) {
  const std::string name = random_input(current_graph().random_streams++);
  const Tensor key = tensor_input(name, {2}, i32, site);
  const auto word = [&](int k) { return broadcast_to(squeeze(narrow(key, 0, k, 1)), shape); };
  const Tensor index = reshape(iota({shape.size()}, 0), shape);
  return emit(OpKind::Random, {index, word(0), word(1)}, NoAttrs{}, site);
}

/// A random op begins: an error outside of a trace, or if there are more elements than indices.
void check_shape(const char* op, const Shape& shape, Site site) {
  if (shape.size() > std::int64_t{1} << 31) {
    fail_op(op, "the shape " + shape.to_string() + " has more than 2^31 elements.", site);
  }
}

}  // namespace

Tensor uniform(Shape shape, double low, double high, Site site) {
  check_shape("uniform", shape, site);
  SiteScope scope(site);
  return next_stream(shape, site) * (high - low) + low;
}

// Box and Muller: √(−2 log(1 − u))·cos(2πv)
Tensor randn(Shape shape, Site site) {
  check_shape("randn", shape, site);
  SiteScope scope(site);
  const Tensor u = next_stream(shape, site), v = next_stream(shape, site);
  return sqrt(-2.0 * log1p(-u)) * cos(v * (2 * std::numbers::pi));
}

// argmax(logits + G) with G = −log(−log u), Gumbel's distribution. −log u is drawn as −log1p(−u)
// and kept away from 0, so that G is finite and a logit of −∞ is never chosen.
Tensor categorical(Operand logits, int axis) {
  SiteScope scope(logits.site());
  const Tensor x = float_tensor("categorical", logits);
  const Tensor exponential = maximum(-log1p(-next_stream(x.shape(), logits.site())), 0x1p-25);
  return argmax(x - log(exponential), axis);
}

// x/(1 − p) with probability 1 − p, else 0; the mask is made again in backward.
Tensor dropout(Operand x, double p) {
  SiteScope scope(x.site());
  const Tensor tensor = float_tensor("dropout", x);
  if (!(p >= 0 && p <= 1)) {
    fail_op("dropout", "the probability must be between 0 and 1, not " + number_text(p) + ".",
            x.site());
  }
  if (p == 0 || !current_graph().training) return tensor;
  if (p == 1) return tensor * 0.0;
  const Tensor kept = greater_equal(next_stream(tensor.shape(), x.site()), p);
  return where(kept, tensor * (1 / (1 - p)), 0.0);
}

}  // namespace tensorgrad
