// The ops that are kernels of their own, in plain loops.
#include <algorithm>
#include <cmath>

#include "ir/scan_shape.hpp"
#include "runtime/reference/call.hpp"

namespace tensorgrad::reference {

// h_{t+1} = a_t·h_t + b_t along an axis
Values linear_scan(const Call& c) {
  const int axis = c.attr<AxisAttr>().axis;
  Values out = c.zeros();
  for_each(c.out_shape(), [&](const Index& index) {
    const std::int64_t t = index[at(axis)];
    double& h = out[position(c.out_shape(), index)];
    if (t == 0) {
      Index row = index;
      row.erase(row.begin() + axis);
      h = c.input(2)[position(c.shape(2), row)];
    } else {
      const Index before = with(index, axis, t - 1);
      const std::size_t step = position(c.shape(0), before);
      h = c.input(0)[step] * out[position(c.out_shape(), before)] + c.input(1)[step];
    }
  });
  return out;
}

// ---- the selective scan; formulas and names as in src/ops/selective_scan.cpp

namespace {

/// φ and its slopes at a time step.
struct Step {
  double decay, phi, phi_delta, phi_a;

  Step(double delta, double a, bool zoh) {
    const double x = delta * a;
    decay = std::exp(x);
    if (!zoh) {
      phi = delta, phi_delta = 1, phi_a = 0;
      return;
    }
    // expm1(x)/x and (x·eˣ − expm1 x)/x², by their series where they cancel.
    const bool small = std::abs(x) < 1e-3;
    const double first = small ? 1 + x / 2 + x * x / 6 + x * x * x / 24 : std::expm1(x) / x;
    const double second =
        small ? 0.5 + x / 3 + x * x / 8 + x * x * x / 30 : (x * decay - std::expm1(x)) / (x * x);
    phi = delta * first, phi_delta = decay, phi_a = delta * delta * second;
  }
};

/// A scan's operands by index. What an op does not have is never asked for.
struct ScanView {
  ScanShape s;
  bool zoh;
  const Values *u, *delta, *a, *bc, *g;

  std::size_t at_sequence(std::int64_t b, std::int64_t t, std::int64_t d) const {
    return at((b * s.length + t) * s.channels + d);
  }
  std::size_t at_state(std::int64_t b, std::int64_t k, std::int64_t d, std::int64_t n) const {
    return at(((b * s.chunks() + k) * s.channels + d) * s.states + n);
  }
  double B(std::int64_t b, std::int64_t t, std::int64_t n) const {
    return (*bc)[at((b * s.length + t) * 2 * s.states + n)];
  }
  double C(std::int64_t b, std::int64_t t, std::int64_t n) const { return B(b, t, n + s.states); }
  double rate(std::int64_t d, std::int64_t n) const { return (*a)[at(d * s.states + n)]; }
  Step step(std::int64_t b, std::int64_t t, std::int64_t d, std::int64_t n) const {
    return {(*delta)[at_sequence(b, t, d)], rate(d, n), zoh};
  }
  std::int64_t begin(std::int64_t k) const { return k * s.chunk; }
  std::int64_t end(std::int64_t k) const { return std::min(s.length, (k + 1) * s.chunk); }

  /// fn(b, k, d, n) for every chunk of every state.
  void for_each_chunk(
      const std::function<void(std::int64_t, std::int64_t, std::int64_t, std::int64_t)>& fn) const {
    for_each(s.chunk_states(), [&](const Index& i) { fn(i[0], i[1], i[2], i[3]); });
  }
};

}  // namespace

Values scan_state(const Call& c) {
  const ScanView v{{c.shape(0), c.shape(2), c.attr<ScanAttr>()},
                   c.attr<ScanAttr>().zoh,
                   &c.input(0),
                   &c.input(1),
                   &c.input(2),
                   &c.input(3),
                   nullptr};
  Values out = c.zeros();
  v.for_each_chunk([&](auto b, auto k, auto d, auto n) {
    double& h = out[v.at_state(b, k, d, n)];
    for (std::int64_t t = v.begin(k); t < v.end(k); ++t) {
      const Step step = v.step(b, t, d, n);
      h = step.decay * h + step.phi * v.B(b, t, n) * (*v.u)[v.at_sequence(b, t, d)];
    }
  });
  return out;
}

Values scan_output(const Call& c) {
  const ScanView v{{c.shape(0), c.shape(2), c.attr<ScanAttr>()},
                   c.attr<ScanAttr>().zoh,
                   &c.input(0),
                   &c.input(1),
                   &c.input(2),
                   &c.input(3),
                   nullptr};
  Values out = c.zeros();
  v.for_each_chunk([&](auto b, auto k, auto d, auto n) {
    double h = c.input(4)[v.at_state(b, k, d, n)];
    for (std::int64_t t = v.begin(k); t < v.end(k); ++t) {
      const Step step = v.step(b, t, d, n);
      h = step.decay * h + step.phi * v.B(b, t, n) * (*v.u)[v.at_sequence(b, t, d)];
      out[v.at_sequence(b, t, d)] += v.C(b, t, n) * h;
    }
  });
  return out;
}

Values scan_grad_state(const Call& c) {
  const ScanView v{{c.shape(0), c.shape(1), c.attr<ScanAttr>()},
                   c.attr<ScanAttr>().zoh,
                   nullptr,
                   &c.input(0),
                   &c.input(1),
                   &c.input(2),
                   &c.input(3)};
  Values out = c.zeros();
  v.for_each_chunk([&](auto b, auto k, auto d, auto n) {
    double& r = out[v.at_state(b, k, d, n)];
    for (std::int64_t t = v.end(k); t-- > v.begin(k);) {
      r = v.step(b, t, d, n).decay * (r + v.C(b, t, n) * (*v.g)[v.at_sequence(b, t, d)]);
    }
  });
  return out;
}

Values scan_grad(const Call& c) {
  const ScanView v{{c.shape(0), c.shape(2), c.attr<ScanAttr>()},
                   c.attr<ScanAttr>().zoh,
                   &c.input(0),
                   &c.input(1),
                   &c.input(2),
                   &c.input(3),
                   &c.input(6)};
  Values out = c.zeros();
  const ScanShape& s = v.s;
  const auto add = [&](std::int64_t part, std::size_t i, double value) {
    out[at(part) + i] += value;
  };
  v.for_each_chunk([&](auto b, auto k, auto d, auto n) {
    const auto add_bc = [&](std::int64_t t, std::int64_t column, double value) {
      const std::int64_t row = (b * s.length + t) * 2 * s.states + column;
      add(s.dbc(), at(row * s.blocks() + d / kScanChannels), value);
    };
    Values h{c.input(4)[v.at_state(b, k, d, n)]};  // before each step, and after the last
    for (std::int64_t t = v.begin(k); t < v.end(k); ++t) {
      const Step step = v.step(b, t, d, n);
      h.push_back(step.decay * h.back() + step.phi * v.B(b, t, n) * (*v.u)[v.at_sequence(b, t, d)]);
    }
    double r = c.input(5)[v.at_state(b, k, d, n)];
    for (std::int64_t t = v.end(k); t-- > v.begin(k);) {
      const Step step = v.step(b, t, d, n);
      const std::size_t i = v.at_sequence(b, t, d);
      const double u = (*v.u)[i], delta = (*v.delta)[i], g = (*v.g)[i], B = v.B(b, t, n),
                   before = h[at(t - v.begin(k))];
      r += v.C(b, t, n) * g;
      add(s.du(), i, r * step.phi * B);
      add(s.ddelta(), i, r * (v.rate(d, n) * step.decay * before + step.phi_delta * B * u));
      add(s.da(), v.at_state(b, k, d, n), r * (delta * step.decay * before + step.phi_a * B * u));
      add_bc(t, n, r * step.phi * u);
      add_bc(t, s.states + n, g * h[at(t - v.begin(k)) + 1]);
      r *= step.decay;
    }
  });
  return out;
}

// ---- attention; formulas and names as in src/ops/attention.cpp

namespace {

struct AttentionView {
  const Call& c;
  std::int64_t batch = c.shape(0)[0], heads = c.shape(0)[1], rows = c.shape(0)[2],
               dim = c.shape(0)[3], groups = c.shape(1)[1], keys = c.shape(1)[2],
               width = c.shape(2)[3];
  AttentionAttr attr = c.attr<AttentionAttr>();

  std::size_t q(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t d) const {
    return at(((b * heads + h) * rows + i) * dim + d);
  }
  std::size_t k(std::int64_t b, std::int64_t h, std::int64_t j, std::int64_t d) const {
    return at(((b * groups + h * groups / heads) * keys + j) * dim + d);
  }
  std::size_t v(std::int64_t b, std::int64_t h, std::int64_t j, std::int64_t e) const {
    return at(((b * groups + h * groups / heads) * keys + j) * width + e);
  }
  std::size_t o(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t e) const {
    return at(((b * heads + h) * rows + i) * width + e);
  }
  std::size_t row(std::int64_t b, std::int64_t h, std::int64_t i) const {
    return at((b * heads + h) * rows + i);
  }
  /// Where (b, h, i, d) of [batch, n, count, size] is in a result, [batch, count, n, size].
  static std::size_t result(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t d,
                            std::int64_t n, std::int64_t count, std::int64_t size) {
    return at(((b * count + i) * n + h) * size + d);
  }
  /// How many keys row i sees.
  std::int64_t seen(std::int64_t i) const { return attr.causal ? std::min(keys, i + 1) : keys; }
  double score(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    double sum = 0;
    for (std::int64_t d = 0; d < dim; ++d)
      sum += c.input(0)[q(b, h, i, d)] * c.input(1)[k(b, h, j, d)];
    return sum * attr.scale;
  }
  void for_each_row(const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& fn) const {
    for_each({batch, heads, rows}, [&](const Index& i) { fn(i[0], i[1], i[2]); });
  }
  /// fn(b, h, i, j, P, dS) for every weight, given L, δ and do.
  void for_each_weight(const std::function<void(std::int64_t, std::int64_t, std::int64_t,
                                                std::int64_t, double, double)>& fn) const {
    for_each_row([&](auto b, auto h, auto i) {
      for (std::int64_t j = 0; j < seen(i); ++j) {
        const double p = std::exp(score(b, h, i, j) - c.input(3)[row(b, h, i)]);
        double dp = 0;
        for (std::int64_t e = 0; e < width; ++e)
          dp += c.input(5)[o(b, h, i, e)] * c.input(2)[v(b, h, j, e)];
        fn(b, h, i, j, p, p * (dp - c.input(4)[row(b, h, i)]));
      }
    });
  }
};

}  // namespace

std::vector<Values> attention(const Call& c) {
  const AttentionView a{c};
  Values out = c.zeros(), log_sums(at(a.batch * a.heads * a.rows));
  a.for_each_row([&](auto b, auto h, auto i) {
    Values scores;
    for (std::int64_t j = 0; j < a.seen(i); ++j) scores.push_back(a.score(b, h, i, j));
    const double top = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (double s : scores) sum += std::exp(s - top);
    log_sums[a.row(b, h, i)] = top + std::log(sum);
    for (std::int64_t j = 0; j < a.seen(i); ++j) {
      const double p = std::exp(scores[at(j)] - top) / sum;
      for (std::int64_t e = 0; e < a.width; ++e)
        out[a.result(b, h, i, e, a.heads, a.rows, a.width)] += p * c.input(2)[a.v(b, h, j, e)];
    }
  });
  return {out, log_sums};
}

Values attention_grad_q(const Call& c) {
  const AttentionView a{c};
  Values out = c.zeros();
  a.for_each_weight([&](auto b, auto h, auto i, auto j, double, double ds) {
    for (std::int64_t d = 0; d < a.dim; ++d)
      out[a.result(b, h, i, d, a.heads, a.rows, a.dim)] +=
          a.attr.scale * ds * c.input(1)[a.k(b, h, j, d)];
  });
  return out;
}

std::vector<Values> attention_grad_kv(const Call& c) {
  const AttentionView a{c};
  Values dk = c.zeros(), dv(c.input(2).size());
  a.for_each_weight([&](auto b, auto h, auto i, auto j, double p, double ds) {
    for (std::int64_t d = 0; d < a.dim; ++d)
      dk[a.result(b, h * a.groups / a.heads, j, d, a.groups, a.keys, a.dim)] +=
          a.attr.scale * ds * c.input(0)[a.q(b, h, i, d)];
    for (std::int64_t e = 0; e < a.width; ++e)
      dv[a.result(b, h * a.groups / a.heads, j, e, a.groups, a.keys, a.width)] +=
          p * c.input(5)[a.o(b, h, i, e)];
  });
  return {dk, dv};
}

}  // namespace tensorgrad::reference
