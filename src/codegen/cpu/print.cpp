// Tapes as text, for people and tests.
#include "codegen/cpu/tape.hpp"

namespace tensorgrad::cpu {

namespace {

const char* name(Pair pair) {
  switch (pair) {
    case Pair::None:
      return "";
    case Pair::MulAdd:
      return "mul_add";
    case Pair::MulSub:
      return "mul_sub";
    case Pair::NegMulAdd:
      return "neg_mul_add";
    case Pair::MulMul:
      return "mul_mul";
    case Pair::AddMul:
      return "add_mul";
    case Pair::SubMul:
      return "sub_mul";
    case Pair::AddAdd:
      return "add_add";
    case Pair::SubSub:
      return "sub_sub";
  }
  return "?";
}

const char* name(Code code) {
  switch (code) {
    case Code::Unary:
    case Code::Binary:
    case Code::Ternary:
      return "op";
    case Code::FloorDiv:
      return "floor_div";
    case Code::FloorMod:
      return "floor_mod";
    case Code::Iota:
      return "iota";
    case Code::ClipTest:
      return "clip_test";
    case Code::InRange:
      return "in_range";
    case Code::Spread:
      return "spread";
    case Code::Gather:
      return "gather";
    case Code::GatherRows:
      return "gather_rows";
    case Code::GatherLanes:
      return "gather_lanes";
    case Code::Reduce:
      return "reduce";
    case Code::Copy:
      return "copy";
    case Code::Scatter:
      return "scatter";
    case Code::ScatterLanes:
      return "scatter_lanes";
    case Code::AddRows:
      return "add_rows";
  }
  return "?";
}

const char* lanes_text(Mask mask) {
  static const char* const kNames[] = {"1", "n0", "n1", "n1*n0"};
  return kNames[mask];
}

std::string text(const Slot& slot, int id) {
  const char* kind = slot.kind == Slot::Kind::Register   ? "r"
                     : slot.kind == Slot::Kind::Constant ? "c"
                                                         : "m";
  return kind + std::to_string(id);
}

}  // namespace

std::string Tape::to_string() const {
  std::string result = "tape " + name;
  result += !has_inner ? "" : columns ? " by columns" : " by rows";
  result += single_step ? "\n" : " in " + std::to_string(inner_steps) + " steps\n";
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const TapeDim& dim = dims[d];
    result += "  d" + std::to_string(d) + (dim.inner ? " inner" : " outer") + ": " +
              std::to_string(dim.extent);
    if (dim.group >= 0)
      result += ", " + std::to_string(dim.tile) + " in G" + std::to_string(dim.group);
    result += dim.moving ? ", moves\n" : "\n";
  }
  const auto slot = [&](int id) { return text(slots[static_cast<std::size_t>(id)], id); };
  for (const Section& s : sections) {
    result += s.kind == Section::Kind::Prologue ? "prologue\n"
              : s.kind == Section::Kind::Block  ? "block\n"
                                                : "step\n";
    for (const Address& a : s.addresses) {
      result += "  " + slot(a.slot) + " at b" + std::to_string(a.binding) + " + " +
                std::to_string(a.at.base);
      for (const auto& [d, stride] : a.at.moving)
        result += " + " + std::to_string(stride) + "*d" + std::to_string(d);
      result += "\n";
    }
    for (const Instruction& i : s.instructions) {
      result += "  ";
      if (i.out >= 0) result += slot(i.out) + " = ";
      const bool op = i.code == Code::Unary || i.code == Code::Binary || i.code == Code::Ternary;
      result += op ? (i.pair != Pair::None ? cpu::name(i.pair) : tensorgrad::to_string(i.op))
                   : cpu::name(i.code);
      for (int arg : {i.a, i.b, i.c}) {
        if (arg >= 0) result += " " + slot(arg);
      }
      result += std::string("  [") + lanes_text(i.mask) + "]\n";
    }
  }
  return result + "  " + std::to_string(register_bytes) + " bytes of registers\n";
}

}  // namespace tensorgrad::cpu
