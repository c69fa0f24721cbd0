// Ranges of blocks and of points as boxes of a tape's space.
#include <algorithm>

#include "codegen/cpu/tape.hpp"

namespace tensorgrad::cpu {

namespace {

struct Radix {
  int dim;
  std::int64_t count, unit;  // positions are multiples of `unit`
};

void cover(const Tape& tape, const std::vector<Radix>& digits, std::size_t k, std::int64_t first,
           std::int64_t last, Box box, std::vector<Box>& result) {
  if (first >= last) return;
  if (k == digits.size()) {
    result.push_back(box);
    return;
  }
  std::int64_t below = 1;
  for (std::size_t j = k + 1; j < digits.size(); ++j) below *= digits[j].count;
  const auto d = static_cast<std::size_t>(digits[k].dim);
  const auto set = [&](std::int64_t from, std::int64_t to) {
    Box part = box;
    part.low[d] = from * digits[k].unit;
    part.high[d] = std::min(to * digits[k].unit, tape.dims[d].extent);
    return part;
  };
  const std::int64_t head = (first + below - 1) / below, tail = last / below;
  if (head > tail) {  // all inside one value of this digit
    cover(tape, digits, k + 1, first - tail * below, last - tail * below, set(tail, tail + 1),
          result);
    return;
  }
  if (first < head * below) {
    cover(tape, digits, k + 1, first - (head - 1) * below, below, set(head - 1, head), result);
  }
  if (head < tail) cover(tape, digits, k + 1, 0, below, set(head, tail), result);
  if (tail * below < last)
    cover(tape, digits, k + 1, 0, last - tail * below, set(tail, tail + 1), result);
}

}  // namespace

Box whole_box(const Tape& tape) {
  Box box;
  for (std::size_t d = 0; d < tape.dims.size(); ++d) box.high[d] = tape.dims[d].extent;
  return box;
}

std::vector<Box> boxes_of_blocks(const Tape& tape, std::int64_t first, std::int64_t last) {
  std::vector<Radix> digits;
  for (int d : tape.outer_loops) {
    const TapeDim& dim = tape.dims[static_cast<std::size_t>(d)];
    digits.push_back({d, (dim.extent + dim.tile - 1) / dim.tile, dim.tile});
  }
  std::vector<Box> result;
  cover(tape, digits, 0, first, last, whole_box(tape), result);
  return result;
}

std::vector<Box> boxes_of_range(const Tape& tape, const Box& whole, const std::vector<int>& dims,
                                std::int64_t first, std::int64_t last) {
  std::vector<Radix> digits;
  for (int d : dims) digits.push_back({d, tape.dims[static_cast<std::size_t>(d)].extent, 1});
  std::vector<Box> result;
  cover(tape, digits, 0, first, last, whole, result);
  return result;
}

}  // namespace tensorgrad::cpu
