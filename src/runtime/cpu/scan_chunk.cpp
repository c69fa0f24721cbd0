// Formulas and names as in src/ops/selective_scan.cpp. What a chunk has of u, Δ and g is first
// copied into columns of one vector a step; then one state after the other walks through it, with
// its recurrence in a register.
#include "runtime/cpu/scan_chunk.hpp"

#include <algorithm>

#include "runtime/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/cpu/scan_chunk.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "runtime/cpu/vector_math.hpp"

HWY_BEFORE_NAMESPACE();
namespace tensorgrad::cpu::HWY_NAMESPACE {
namespace {

using F32 = hn::ScalableTag<float>;
using V32 = hn::Vec<F32>;
constexpr size_t kMaxLanes = HWY_MAX_BYTES / 4;

// ---- moving vectors of channels

// p[0], p[stride], …: the first `count` lanes; the others are 0.
HWY_INLINE V32 load(F32 d, const float* p, int64_t stride, int64_t count) {
  if (stride == 1 && count == static_cast<int64_t>(hn::Lanes(d))) return hn::LoadU(d, p);
  HWY_ALIGN float lanes[kMaxLanes] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i] = p[i * stride];
  return hn::Load(d, lanes);
}

HWY_INLINE void store(F32 d, V32 v, float* p, int64_t stride, int64_t count) {
  if (stride == 1 && count == static_cast<int64_t>(hn::Lanes(d))) return hn::StoreU(v, d, p);
  HWY_ALIGN float lanes[kMaxLanes] = {};
  hn::Store(v, d, lanes);
  for (int64_t i = 0; i < count; ++i) p[i * stride] = lanes[i];
}

// ---- one step in time

struct Step {
  V32 decay, phi;
};

// Below −88 the decay is 0; a state that grows does so by e^88 at most. NaN stays: Max and Min give
// their second operand if either is NaN.
template <bool kZoh>
HWY_INLINE Step step(F32 d, V32 delta, V32 a, V32 inverse) {
  const hn::RebindToSigned<F32> di;
  const auto x = hn::Mul(delta, a);
  V32 k;
  const auto small =
      reduced_expm1(d, hn::Min(hn::Set(d, 88.0f), hn::Max(hn::Set(d, -88.0f), x)), k);
  // 2^k, which is 0 for k = −127
  const auto power =
      hn::BitCast(d, hn::Add(hn::ShiftLeft<23>(hn::ConvertTo(di, k)), hn::Set(di, 0x3F800000)));
  const auto decay = hn::MulAdd(power, small, power);
  if constexpr (!kZoh) return {decay, delta};
  // expm1(x)/a is as good as expm1 itself, except where a or x leave the normal numbers.
  const auto expm1 = hn::MulAdd(power, small, hn::Sub(power, hn::Set(d, 1.0f)));
  const auto tiny = hn::Lt(hn::Abs(x), hn::Set(d, 0x1p-25f));
  return {decay, hn::IfThenElse(tiny, delta, hn::Mul(expm1, inverse))};
}

struct Slopes {
  V32 phi, phi_delta, phi_a;
};

// φ and its slopes from a decay that was kept. With s = (x·eˣ − expm1 x)/x²: φ_a = Δ²·s and
// φ = Δ·(eˣ − x·s), by a polynomial for s where the differences would cancel.
template <bool kZoh>
HWY_INLINE Slopes slopes(F32 d, V32 delta, V32 a, V32 inverse, V32 decay) {
  const auto one = hn::Set(d, 1.0f);
  if constexpr (!kZoh) return {delta, one, hn::Zero(d)};
  const auto x = hn::Mul(delta, a);
  // Fit 2^-25.5 on |x| <= 0.352.
  const auto s = polynomial(d, x, 0x1p-1f, 0x1.555554p-2f, 0x1.fffe7p-4f, 0x1.11128cp-5f,
                            0x1.c938bcp-8f, 0x1.37a106p-10f);
  const auto near = hn::Lt(hn::Abs(x), hn::Set(d, 0.352f));
  const auto far = hn::Mul(hn::Sub(decay, one), inverse);
  return {hn::IfThenElse(near, hn::Mul(delta, hn::NegMulAdd(x, s, decay)), far), decay,
          hn::IfThenElse(near, hn::Mul(hn::Mul(delta, delta), s),
                         hn::Mul(hn::MulSub(delta, decay, far), inverse))};
}

// ---- one vector of channels in one chunk

template <bool kZoh>
class Walk {
 public:
  Walk(const ScanOperands& operands, const ScanPart& part, float* scratch)
      : o_(operands),
        part_(part),
        lanes_(static_cast<int64_t>(hn::Lanes(F32()))),
        begin_(part.chunk * operands.shape.chunk),
        steps_(std::min(operands.shape.chunk, operands.shape.length - begin_)),
        scratch_(scratch) {}

  // S
  void state() const {
    const float *delta = pack(0, o_.delta), *u = pack(1, o_.u);
    for (int64_t n = 0; n < o_.shape.states; ++n) {
      const Rate rate(*this, n);
      const Row b = row(n);
      auto h = hn::Zero(d_);
      for (int64_t t = 0; t < steps_; ++t) h = advance(rate, h, at(delta, t), at(u, t), b[t]).h;
      put_state(n, h, 0);
    }
  }

  // y
  void output() const {
    const float *delta = pack(0, o_.delta), *u = pack(1, o_.u);
    float* y = clear(2);
    for (int64_t n = 0; n < o_.shape.states; ++n) {
      const Rate rate(*this, n);
      const Row b = row(n), c = row(o_.shape.states + n);
      auto h = get_state(o_.start, n);
      for (int64_t t = 0; t < steps_; ++t) {
        h = advance(rate, h, at(delta, t), at(u, t), b[t]).h;
        add(y, t, hn::Mul(hn::Set(d_, c[t]), h));
      }
    }
    put_sequence(y, 0);
  }

  // E
  void grad_state() const {
    const float *delta = pack(0, o_.delta), *g = pack(1, o_.g);
    for (int64_t n = 0; n < o_.shape.states; ++n) {
      const Rate rate(*this, n);
      const Row c = row(o_.shape.states + n);
      auto r = hn::Zero(d_);
      for (int64_t t = steps_; t-- > 0;) {
        const auto decay = step<false>(d_, at(delta, t), rate.a, rate.inverse).decay;
        r = hn::Mul(decay, hn::MulAdd(hn::Set(d_, c[t]), at(g, t), r));
      }
      put_state(n, r, 0);
    }
  }

  // du, dΔ, da, and this vector's shares of dB and dC, which `first` says to set rather than add.
  void grad(bool first) const {
    const float *delta = pack(0, o_.delta), *u = pack(1, o_.u), *g = pack(2, o_.g);
    float *du = clear(3), *ddelta = clear(4), *states = column(5), *decays = column(6);
    for (int64_t n = 0; n < o_.shape.states; ++n) {
      const Rate rate(*this, n);
      const Row b = row(n), c = row(o_.shape.states + n);
      const Share db = share(n, first), dc = share(o_.shape.states + n, first);
      auto h = get_state(o_.start, n);  // kept before each step
      for (int64_t t = 0; t < steps_; ++t) {
        hn::Store(h, d_, states + t * lanes_);
        const Advance next = advance(rate, h, at(delta, t), at(u, t), b[t]);
        hn::Store(next.decay, d_, decays + t * lanes_);
        h = next.h;
      }
      auto r = get_state(o_.end, n), da = hn::Zero(d_);
      for (int64_t t = steps_; t-- > 0;) {
        const auto now = at(delta, t), decay = at(decays, t), before = at(states, t);
        const auto input = hn::Set(d_, b[t]), ut = at(u, t), gt = at(g, t);
        const Slopes f = slopes<kZoh>(d_, now, rate.a, rate.inverse, decay);
        r = hn::MulAdd(hn::Set(d_, c[t]), gt, r);
        const auto bu = hn::Mul(input, ut), through = hn::Mul(hn::Mul(r, decay), before),
                   r_phi = hn::Mul(r, f.phi), r_bu = hn::Mul(r, bu);
        add(du, t, hn::Mul(r_phi, input));
        add(ddelta, t, hn::MulAdd(rate.a, through, hn::Mul(f.phi_delta, r_bu)));
        da = hn::Add(da, hn::MulAdd(now, through, hn::Mul(f.phi_a, r_bu)));
        db.add(d_, t, hn::Mul(r_phi, ut));
        dc.add(d_, t, hn::Mul(gt, h));
        h = before;
        r = hn::Mul(r, decay);
      }
      put_state(n, da, o_.shape.da());
    }
    put_sequence(du, o_.shape.du());
    put_sequence(ddelta, o_.shape.ddelta());
  }

 private:
  struct Rate {
    V32 a, inverse;  // 1/a, or anything where a is 0
    HWY_INLINE Rate(const Walk& w, int64_t n)
        : a(load(w.d_, w.o_.a.data + w.part_.channel * w.o_.a.stride(0) + n * w.o_.a.stride(1),
                 w.o_.a.stride(0), w.part_.channels)) {
      const auto one = hn::Set(w.d_, 1.0f);
      inverse = hn::Div(one, hn::IfThenElse(hn::Lt(hn::Abs(a), hn::Set(w.d_, 0x1p-125f)), one, a));
    }
  };

  /// A column of BC along the chunk.
  struct Row {
    const float* data;
    int64_t stride;
    HWY_INLINE float operator[](int64_t t) const { return data[t * stride]; }
  };
  Row row(int64_t column) const {
    return {o_.bc.data + part_.batch * o_.bc.stride(0) + begin_ * o_.bc.stride(1) +
                column * o_.bc.stride(2),
            o_.bc.stride(1)};
  }

  struct Advance {
    V32 h, decay;
  };
  HWY_INLINE Advance advance(const Rate& rate, V32 h, V32 delta, V32 u, float b) const {
    const Step s = step<kZoh>(d_, delta, rate.a, rate.inverse);
    return {hn::MulAdd(s.decay, h, hn::Mul(s.phi, hn::Mul(hn::Set(d_, b), u))), s.decay};
  }

  float* column(int64_t k) const { return scratch_ + k * (o_.shape.chunk + 3) * lanes_; }
  HWY_INLINE V32 at(const float* column, int64_t t) const {
    return hn::Load(d_, column + t * lanes_);
  }
  HWY_INLINE void add(float* column, int64_t t, V32 v) const {
    float* p = column + t * lanes_;
    hn::Store(hn::Add(hn::Load(d_, p), v), d_, p);
  }
  float* clear(int64_t k) const {
    float* p = column(k);
    std::fill(p, p + steps_ * lanes_, 0.0f);
    return p;
  }
  const float* pack(int64_t k, const Strided& from) const {
    float* p = column(k);
    const float* source = from.data + part_.batch * from.stride(0) + begin_ * from.stride(1) +
                          part_.channel * from.stride(2);
    for (int64_t t = 0; t < steps_; ++t) {
      hn::Store(load(d_, source + t * from.stride(1), from.stride(2), part_.channels), d_,
                p + t * lanes_);
    }
    return p;
  }

  // ---- results lie in row-major order

  void put_sequence(const float* column, int64_t offset) const {
    const ScanShape& s = o_.shape;
    float* to =
        o_.out.data + offset + (part_.batch * s.length + begin_) * s.channels + part_.channel;
    for (int64_t t = 0; t < steps_; ++t)
      store(d_, at(column, t), to + t * s.channels, 1, part_.channels);
  }
  V32 get_state(const Strided& from, int64_t n) const {
    return load(d_,
                from.data + part_.batch * from.stride(0) + part_.chunk * from.stride(1) +
                    part_.channel * from.stride(2) + n * from.stride(3),
                from.stride(2), part_.channels);
  }
  void put_state(int64_t n, V32 v, int64_t offset) const {
    const ScanShape& s = o_.shape;
    float* to = o_.out.data + offset +
                ((part_.batch * s.chunks() + part_.chunk) * s.channels + part_.channel) * s.states +
                n;
    store(d_, v, to, s.states, part_.channels);
  }
  /// A share of dB or dC along the chunk, for one state.
  struct Share {
    float* data;
    int64_t stride;
    bool first;
    HWY_INLINE void add(F32 d, int64_t t, V32 v) const {
      float& to = data[t * stride];
      const float sum = hn::GetLane(hn::SumOfLanes(d, v));
      to = first ? sum : to + sum;
    }
  };
  Share share(int64_t column, bool first) const {
    const ScanShape& s = o_.shape;
    const int64_t at = (part_.batch * s.length + begin_) * 2 * s.states + column;
    return {o_.out.data + s.dbc() + at * s.blocks() + part_.channel / kScanChannels,
            2 * s.states * s.blocks(), first};
  }

  const F32 d_{};
  const ScanOperands& o_;
  const ScanPart& part_;
  const int64_t lanes_, begin_, steps_;
  float* scratch_;
};

/// fn(walk, first) for each vector of the part's channels.
template <class Fn>
void for_each_vector(const ScanOperands& o, const ScanPart& part, float* scratch, Fn fn) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(F32()));
  for (int64_t done = 0; done < part.channels; done += lanes) {
    const ScanPart vector{part.batch, part.chunk, part.channel + done,
                          std::min(lanes, part.channels - done)};
    if (o.zoh) {
      fn(Walk<true>(o, vector, scratch), done == 0);
    } else {
      fn(Walk<false>(o, vector, scratch), done == 0);
    }
  }
}

void state(const ScanOperands& o, const ScanPart& part, float* scratch) {
  for_each_vector(o, part, scratch, [](const auto& walk, bool) { walk.state(); });
}
void output(const ScanOperands& o, const ScanPart& part, float* scratch) {
  for_each_vector(o, part, scratch, [](const auto& walk, bool) { walk.output(); });
}
void grad_state(const ScanOperands& o, const ScanPart& part, float* scratch) {
  for_each_vector(o, part, scratch, [](const auto& walk, bool) { walk.grad_state(); });
}
void grad(const ScanOperands& o, const ScanPart& part, float* scratch) {
  for_each_vector(o, part, scratch, [](const auto& walk, bool first) { walk.grad(first); });
}

}  // namespace

const ScanFunctions* scan_table() {
  static const ScanFunctions table{static_cast<int64_t>(hn::Lanes(F32())), state, output,
                                   grad_state, grad};
  return &table;
}

}  // namespace tensorgrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tensorgrad::cpu {

const ScanFunctions& scan_functions() {
  static const ScanFunctions& chosen = *TENSORGRAD_BEST_VARIANT(machine_targets(), scan_table)();
  return chosen;
}

}  // namespace tensorgrad::cpu
#endif  // HWY_ONCE
