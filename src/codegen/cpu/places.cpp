#include "codegen/cpu/places.hpp"

#include <algorithm>
#include <map>

namespace tensorgrad::cpu {
namespace {

/// Spread writes whole vectors, up to one behind the end.
constexpr std::int64_t kSlackLanes = 16;

bool writes_lane_by_lane(const Instruction& i) {
  return i.code == Code::Unary || i.code == Code::Binary || i.code == Code::Ternary;
}

class Forwarding {
 public:
  Forwarding(const Kernel& kernel, Tape& tape) : kernel_(kernel), tape_(tape) {}

  void run() {
    for (Section& s : tape_.sections) {
      for (std::size_t k = s.instructions.size(); k-- > 0;) {
        if (s.instructions[k].code == Code::Copy) forward(s, k);
      }
    }
  }

 private:
  bool same_address(const Address& a, const Address& b) const {
    const Binding& x = kernel_.bindings[static_cast<std::size_t>(a.binding)];
    const Binding& y = kernel_.bindings[static_cast<std::size_t>(b.binding)];
    return x.buffer == y.buffer && x.offset + a.at.base == y.offset + b.at.base &&
           a.at.moving == b.at.moving;
  }

  const Address* address(const Section& s, int slot) const {
    for (const Address& a : s.addresses) {
      if (a.slot == slot) return &a;
    }
    return nullptr;
  }

  /// Whether an instruction reads memory that `target` may overlap; reading exactly the lanes that
  /// it then writes is allowed to the instruction that computes them.
  bool reads(const Section& in, const Instruction& i, const Address& target,
             bool same_lanes_allowed) const {
    if (i.aux >= 0 &&
        (i.code == Code::Gather || i.code == Code::GatherRows || i.code == Code::GatherLanes) &&
        overlap(kernel_, tape_.maps[static_cast<std::size_t>(i.aux)].binding, target.binding)) {
      return true;
    }
    for (int slot : {i.a, i.b, i.c}) {
      if (slot < 0 || tape_.slots[static_cast<std::size_t>(slot)].kind != Slot::Kind::Memory)
        continue;
      const Address* found = nullptr;
      for (const Section& s : tape_.sections) {
        if (!found) found = address(s, slot);
      }
      if (!found || !overlap(kernel_, found->binding, target.binding)) continue;
      const bool same_lanes = same_lanes_allowed && &in == &section_of(slot) &&
                              same_address(*found, target) &&
                              tape_.slots[static_cast<std::size_t>(slot)].mask == i.mask;
      if (!same_lanes) return true;
    }
    return false;
  }

  const Section& section_of(int slot) const {
    for (const Section& s : tape_.sections) {
      if (address(s, slot)) return s;
    }
    return tape_.sections.front();
  }

  void forward(Section& s, std::size_t copy) {
    const int value = s.instructions[copy].a, to = s.instructions[copy].out;
    if (tape_.slots[static_cast<std::size_t>(value)].kind != Slot::Kind::Register ||
        tape_.slots[static_cast<std::size_t>(to)].kind != Slot::Kind::Memory)
      return;
    const Address target = *address(s, to);
    std::size_t def = 0;
    while (def < copy && s.instructions[def].out != value) ++def;
    if (def == copy) return;  // computed in another section
    const Instruction& i = s.instructions[def];
    if (i.code == Code::Spread) return;  // writes behind its end
    if (i.code == Code::Reduce && tape_.reductions[static_cast<std::size_t>(i.aux)].step) return;
    if (reads(s, i, target, writes_lane_by_lane(i))) return;
    for (std::size_t k = def + 1; k < s.instructions.size(); ++k) {
      if (k != copy && reads(s, s.instructions[k], target, false)) return;
    }
    for (const Section* later = &s + 1; later <= &tape_.sections.back(); ++later) {
      for (const Instruction& j : later->instructions) {
        if (reads(*later, j, target, false) && j.a != value && j.b != value && j.c != value) return;
      }
    }
    tape_.slots[static_cast<std::size_t>(value)].kind = Slot::Kind::Memory;
    for (Address& a : s.addresses) {
      if (a.slot == to) a.slot = value;
    }
    s.instructions.erase(s.instructions.begin() + static_cast<std::ptrdiff_t>(copy));
  }

  const Kernel& kernel_;
  Tape& tape_;
};

}  // namespace

bool overlap(const Kernel& kernel, int a, int b) {
  const Binding &x = kernel.bindings[static_cast<std::size_t>(a)],
                &y = kernel.bindings[static_cast<std::size_t>(b)];
  return a == b || (x.buffer == y.buffer && x.offset < y.offset + y.elements &&
                    y.offset < x.offset + x.elements);
}

void forward_stores(const Kernel& kernel, Tape& tape) { Forwarding(kernel, tape).run(); }

/// Linear scan over the sections in order. What is computed before a loop and used in it lives to
/// the loop's end; what the prologue computes lives for ever.
int place_registers(const Layout& layout, Tape& tape) {
  struct Life {
    int begin = -1, end = -1, section = -1;
    bool lane_by_lane = false;  // may take the place of an operand that is used up
  };
  std::vector<Life> lives(tape.slots.size());
  std::vector<int> section_end;
  int time = 0;
  for (const Section& s : tape.sections) {
    time += static_cast<int>(s.instructions.size()) + 1;
    section_end.push_back(time);
  }
  time = 0;
  for (std::size_t k = 0; k < tape.sections.size(); ++k) {
    const Section& s = tape.sections[k];
    const int start = time;
    for (const Instruction& i : s.instructions) {
      ++time;
      const auto define = [&](int slot, int when) {
        if (slot < 0) return;
        Life& life = lives[static_cast<std::size_t>(slot)];
        if (life.begin < 0) life = {when, when, static_cast<int>(k), writes_lane_by_lane(i)};
      };
      for (int slot : {i.a, i.b, i.c}) {
        if (slot < 0) continue;
        Life& life = lives[static_cast<std::size_t>(slot)];
        const bool loops = s.kind == Section::Kind::Inner && life.section != static_cast<int>(k);
        life.end = std::max(life.end, loops ? section_end[k] : time);
      }
      define(i.out, time);
      if (i.code == Code::Reduce) {
        const Reduction& r = tape.reductions[static_cast<std::size_t>(i.aux)];
        if (!r.step) {
          define(r.extreme, time);
          continue;
        }
        for (int slot : {r.accumulator, r.total, r.extreme}) {
          define(slot, start);
          if (slot < 0) continue;
          Life& life = lives[static_cast<std::size_t>(slot)];
          life.begin = std::min(life.begin, start);
          life.end = std::max(life.end, section_end[k]);
        }
      }
    }
    ++time;
    if (s.kind == Section::Kind::Prologue) {
      for (Life& life : lives) {
        if (life.section == 0) life.end = section_end.back();
      }
    }
  }

  // Registers by size; the times at which they fall free.
  struct Register {
    std::int64_t offset;
    int free_at;
  };
  std::map<Mask, std::vector<Register>> registers;
  std::vector<int> order;
  for (std::size_t slot = 0; slot < lives.size(); ++slot) {
    if (lives[slot].begin >= 0 && tape.slots[slot].kind == Slot::Kind::Register)
      order.push_back(static_cast<int>(slot));
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return lives[static_cast<std::size_t>(a)].begin < lives[static_cast<std::size_t>(b)].begin;
  });
  std::int64_t bytes = 0;
  for (int id : order) {
    Slot& slot = tape.slots[static_cast<std::size_t>(id)];
    const Life& life = lives[static_cast<std::size_t>(id)];
    const int reusable = life.begin + (life.lane_by_lane ? 1 : 0);
    Register* chosen = nullptr;
    for (Register& r : registers[slot.mask]) {
      if (r.free_at < reusable) {
        chosen = &r;
        break;
      }
    }
    if (!chosen) {
      registers[slot.mask].push_back({bytes, 0});
      chosen = &registers[slot.mask].back();
      const std::int64_t size = (layout.lanes(slot.mask) + kSlackLanes) * 4;
      bytes += (size + 63) / 64 * 64;
      if (size > 1024) bytes = (bytes + 2047) / 2048 * 2048;
    }
    chosen->free_at = life.end;
    slot.offset = chosen->offset;
  }
  tape.register_bytes = bytes;
  return static_cast<int>(registers[layout.all()].size());
}

}  // namespace tensorgrad::cpu
