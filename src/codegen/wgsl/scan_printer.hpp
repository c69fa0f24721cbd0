// What the kernels of the selective scan have in common (formulas: src/ops/selective_scan.cpp).
//
// A workgroup takes one chunk of time of a slab of channels and a band of states, or several of
// them one after the other. Neighbouring threads are neighbouring channels, and each thread keeps a
// quad of states in registers. Time goes by in tiles of a few steps. What a tile needs of u, Δ and
// g (a number for each channel) and of B and C (a quad for each quad of states) is brought to
// workgroup memory, and asked for while the tile before it is worked on.
//
// Where channels, states or steps do not fill a slab, a band or a tile, zeros stand in: with Δ = 0
// nothing decays, with B = C = g = 0 nothing is added.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/wgsl/special.hpp"
#include "ir/scan_shape.hpp"

namespace tensorgrad::wgsl {

/// The operands of a scan kernel; those that its op does not have are null.
struct ScanOperands {
  const StridedOperand *u = nullptr, *delta = nullptr, *a = nullptr, *bc = nullptr,
                       *start = nullptr, *end = nullptr, *g = nullptr, *out = nullptr;

  explicit ScanOperands(const SpecialHint& hint);
};

class ScanPrinter {
 public:
  /// `tile`: steps; `apart`: every slab and band is a workgroup of its own.
  struct Spread {
    std::int64_t tile;
    bool slabs_apart, bands_apart;
    std::int64_t largest_slab;
  };
  ScanPrinter(Module& module, const Spread& spread);

  const ScanOperands& of() const { return of_; }
  const ScanShape& shape() const { return s_; }
  bool zoh() const { return zoh_; }

  std::int64_t slab() const { return slab_; }    ///< channels
  std::int64_t slabs() const { return slabs_; }  ///< that a workgroup takes
  std::int64_t quads() const { return quads_; }  ///< of states, side by side: a band
  std::int64_t bands() const { return bands_; }  ///< that a workgroup takes
  std::int64_t threads() const { return slab_ * quads_; }
  std::int64_t tile() const { return tile_; }  ///< steps
  std::int64_t tiles() const { return (s_.chunk + tile_ - 1) / tile_; }

  /// Prints which part of the work is this workgroup's.
  void begin();
  /// Begins the loops over slabs and bands, and prints this thread's channel, states and rates:
  /// `d`, `n`, `a`, and `inverse`, which is 1/a.
  void open();
  void close();

  /// The quad of this thread in a tensor [B, chunks, D, N].
  std::string state(const StridedOperand& from) const;
  /// Stores it, `offset` elements into the result.
  void put_state(std::int64_t offset, const std::string& quad);

  // ---- tiles

  /// What is brought for each tile: numbers into `u_tile`, quads into `b_tile` and `c_tile`.
  struct Freight {
    std::vector<std::pair<std::string, const StridedOperand*>> columns;
    bool b = false, c = false;
  };
  /// Prints the memory a freight needs, once.
  void declare(const Freight& freight);
  /// Asks for a tile.
  void fetch(const Freight& freight, const std::string& tile);
  /// Gives to all threads what was asked for; they must be done with the tile before.
  void place(const Freight& freight);
  /// Prints `let delta = …` and so on for step `j` of the tile.
  void read(const Freight& freight, const std::string& j);
  /// Walks through `count` tiles, `tile`, step by step, `j`, from the end if `reversed`. `before`
  /// and `after` are printed around the steps of a tile, `after` behind a barrier.
  void walk(const Freight& freight, std::int64_t count, bool reversed,
            const std::function<void()>& before, const std::function<void()>& step,
            const std::function<void()>& after);

  /// Prints how a state goes over one step, after `read`, and `decay`, which it is multiplied with.
  void advance(const std::string& before, const std::string& after);

  /// Prints the memory `sums`: a number for each step and thread, or more.
  void declare_sums(std::int64_t at_least = 0);
  /// After a barrier: elements [B, L, D] of the result from `offset` on are the sums over the quads
  /// of `sums` from `from` on, and over the bands.
  void put_sequence(std::int64_t offset, std::int64_t from = 0);

  // ---- conditions that hold where there is something; empty where there always is

  std::string has_channel() const {
    return s_.channels % (slab_ * slabs_) == 0 ? "" : "has_channel";
  }
  std::string has_step(const std::string& step_of_chunk) const;
  std::string has_state(const std::string& n) const;
  /// `if (all of them)`, or nothing to ask.
  static std::string when(const std::vector<std::string>& conditions);

  /// Element `at` of the result, counted from `offset`.
  std::string result(std::int64_t offset) const;
  void barrier() { out_.line("workgroupBarrier();"); }

 private:
  void print_functions();
  /// How often the threads must fetch to fill a tile.
  std::int64_t rounds() const { return (tile_ + quads_ - 1) / quads_; }
  /// A step of the chunk that is there, as a step of the sequence.
  std::string time(const std::string& step_of_chunk) const;

  Module& module_;
  Writer& out_;
  ScanOperands of_;
  ScanShape s_;
  bool zoh_;
  std::int64_t slab_ = 8, slabs_ = 1, slabs_apart_ = 1, quads_ = 1, bands_ = 1, bands_apart_ = 1,
               tile_ = 1;
};

/// `for (var name = 0u; …)`
std::string loop(const std::string& name, std::int64_t count);

}  // namespace tensorgrad::wgsl
