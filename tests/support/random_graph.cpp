#include "support/random_graph.hpp"

#include <algorithm>
#include <functional>

#include "tensorgrad/autograd.hpp"
#include "tensorgrad/ops.hpp"

namespace tensorgrad::test {

namespace {

struct Item {
  Tensor tensor;
  bool exact;  // an input, or a view of one: the same bits on every device
};

class Maker {
 public:
  explicit Maker(std::uint64_t seed) : rng_(seed) {}

  RandomGraph make() {
    RandomGraph result;
    result.graph = trace([&]() -> Outputs {
      const int leaves = pick(2, 4);
      for (int i = 0; i < leaves; ++i) {
        const Shape shape = random_shape();
        const std::string name = "in" + std::to_string(i);
        const bool is_param = i == 0 || pick(0, 1) == 1;
        items_.push_back({is_param ? param_input(name, shape) : tensor_input(name, shape), true});
        feed(result, name, shape,
             [&] { return static_cast<double>(static_cast<float>(rng_.uniform() * 4 - 2)); });
      }
      index_ = tensor_input("index", {6}, i32);
      feed(result, "index", {6}, [&] { return static_cast<double>(pick(0, 1000000)); });
      auto& raw = result.feeds["index"];
      for (double& v : raw)
        v = static_cast<double>(static_cast<int>(v) % 2);  // valid for every axis used
      const int ops = pick(4, 14);
      for (int i = 0; i < ops; ++i) grow();
      return finish();
    });
    append_grad(*result.graph);
    return result;
  }

 private:
  int pick(int low, int high) {
    return low + static_cast<int>(rng_.next() % static_cast<std::uint64_t>(high - low + 1));
  }

  Shape random_shape() {
    static constexpr int kSizes[] = {1, 2, 3, 4, 5, 7, 8, 12};
    Shape shape;
    const int rank = pick(0, 3);
    for (int i = 0; i < rank; ++i) shape.push_back(kSizes[pick(0, 7)]);
    return shape;
  }

  template <class Draw>
  void feed(RandomGraph& result, const std::string& name, const Shape& shape, Draw draw) {
    auto& values = result.feeds[name];
    for (std::int64_t i = 0; i < shape.size(); ++i) values.push_back(draw());
  }

  const Item& any() {
    return items_[static_cast<std::size_t>(pick(0, static_cast<int>(items_.size()) - 1))];
  }
  Tensor exact() {
    std::vector<const Item*> found;
    for (const Item& item : items_) {
      if (item.exact) found.push_back(&item);
    }
    return found[static_cast<std::size_t>(pick(0, static_cast<int>(found.size()) - 1))]->tensor;
  }
  int axis(const Tensor& x) { return pick(-x.rank(), x.rank() - 1); }

  void add(const Tensor& x, bool is_exact = false) {
    if (x.shape().size() > 4000) return;
    items_.push_back({x, is_exact});
  }

  /// A partner of `x` that broadcasts with it.
  Tensor partner(const Tensor& x) {
    for (int tries = 0; tries < 6; ++tries) {
      const Tensor y = any().tensor;
      bool fits = true;
      for (int i = 1; i <= std::min(x.rank(), y.rank()); ++i) {
        fits = fits && (x.shape(-i) == y.shape(-i) || x.shape(-i) == 1 || y.shape(-i) == 1);
      }
      if (fits) return y;
    }
    return x;
  }

  void grow() {
    switch (pick(0, 9)) {
      case 0:
        return unary();
      case 1:
        return binary();
      case 2:
        return reduce();
      case 3:
      case 4:
        return view();
      case 5:
        return product();
      case 6:
        return row();
      case 7:
        return pick_by_index();
      case 8:
        return select();
      default:
        return activation();
    }
  }

  void unary() {
    const Tensor x = any().tensor;
    switch (pick(0, 13)) {
      case 0:
        return add(neg(x));
      case 1:
        return add(abs(exact()));
      case 2:
        return add(sqrt(square(x) + 0.5));
      case 3:
        return add(rsqrt(square(x) + 0.5));
      case 4:
        return add(exp(tanh(x)));
      case 5:
        return add(log(square(x) + 0.5));
      case 6:
        return add(log1p(square(x)));
      case 7:
        return add(expm1(tanh(x)));
      case 8:
        return add(sin(x));
      case 9:
        return add(cos(x));
      case 10:
        return add(tanh(x));
      case 11:
        return add(erf(x));
      case 12: {
        const Tensor e = exact();
        return add(floor(e) + 0.25 * sign(e));
      }
      default:
        return add(reciprocal(square(x) + 1.0));
    }
  }

  void binary() {
    const Tensor x = any().tensor, y = partner(x);
    switch (pick(0, 7)) {
      case 0:
        return add(x + y);
      case 1:
        return add(x - y);
      case 2:
        return add(tanh(x) * y);
      case 3:
        return add(x / (1.0 + square(y)));
      case 4:
        return add(pow(square(x) * 0.1 + 0.5, tanh(y)));
      case 5:
        return add(0.5 * x + 1.5);
      case 6:
        return add(2.0 - x);
      default:
        return add(pow(tanh(x), 3.0));
    }
  }

  void reduce() {
    const Tensor x = any().tensor;
    if (x.rank() == 0) return;
    ReduceOptions options;
    if (pick(0, 3) > 0) options.axes = axis(x);
    if (x.rank() >= 2 && pick(0, 3) == 0) options.axes = std::vector<int>{0, x.rank() - 1};
    options.keepdims = pick(0, 1) == 1;
    switch (pick(0, 8)) {
      case 0:
        return add(sum(x, options) * 0.25);
      case 1:
        return add(mean(x, options));
      case 2:
        return add(max(exact_of_rank(), {-1, options.keepdims}));
      case 3:
        return add(min(exact_of_rank(), {0, options.keepdims}));
      case 4:
        return add(prod(tanh(x) * 0.5 + 1.0, {axis(x), options.keepdims}));
      case 5:
        return add(var(x, options));
      case 6:
        return add(logsumexp(x, options));
      case 7:
        return add(cast(argmax(exact_of_rank(), -1), f32) * 0.1);
      default:
        return add(cast(argmin(exact_of_rank(), 0, true), f32) * 0.1);
    }
  }

  Tensor exact_of_rank() {
    const Tensor x = exact();
    return x.rank() > 0 ? x : reshape(x, {1});
  }

  void view() {
    const Item item = any();
    const Tensor x = item.tensor;
    const bool e = item.exact;
    if (x.rank() == 0) return add(broadcast_to(x, {pick(1, 4), pick(1, 4)}), e);
    const int a = axis(x);
    const std::int64_t n = x.shape(a);
    switch (pick(0, 12)) {
      case 0:
        return add(reshape(x, {-1}), e);
      case 1:
        return add(reshape(x, {x.shape().size() % 2 == 0 ? 2 : 1, -1}), e);
      case 2: {
        std::vector<int> perm(static_cast<std::size_t>(x.rank()));
        for (int i = 0; i < x.rank(); ++i) perm[static_cast<std::size_t>(i)] = i;
        for (int i = x.rank() - 1; i > 0; --i)
          std::swap(perm[static_cast<std::size_t>(i)], perm[static_cast<std::size_t>(pick(0, i))]);
        return add(permute(x, perm), e);
      }
      case 3:
        return add(swap_axes(x, a, axis(x)), e);
      case 4:
        return add(expand_dims(x, a), e);
      case 5:
        return add(narrow(x, a, pick(0, static_cast<int>(n) - 1), 1), e);
      case 6:
        return add(slice(x, a, pick(0, static_cast<int>(n) - 1), kEnd, pick(1, 3)), e);
      case 7:
        return add(slice(x, a, n - 1, kEnd, -pick(1, 2)), e);
      case 8:
        return add(flip(x, a), e);
      case 9:
        return add(concat({x, x, flip(x, a)}, a), e);
      case 10:
        return add(stack({x, x}, a), e);
      case 11: {
        std::vector<PadWidth> widths(static_cast<std::size_t>(x.rank()));
        for (PadWidth& w : widths) w = {pick(0, 2), pick(0, 2)};
        return add(pad(x, widths, pick(0, 1) * 0.5), e);
      }
      default:
        return add(tile(x, {2, 1}), e);
    }
  }

  void product() {
    const Tensor x = any().tensor;
    if (x.rank() == 0) return;
    const Tensor w = any().tensor;
    if (w.rank() >= 1 && w.shape(w.rank() == 1 ? -1 : -2) == x.shape(-1) && x.rank() >= 1) {
      if (w.rank() <= 2) return add(matmul(x, w) * 0.3);
    }
    if (x.rank() >= 2) {
      const Tensor square = matmul(x, swap_axes(x, -1, -2)) * 0.2;  // a transpose read in place
      if (pick(0, 3) > 0) return add(square);
      // Products side by side, read by another.
      const Tensor joined = concat({square, matmul(square, x) * 0.2}, -1);
      return add(matmul(joined, swap_axes(joined, -1, -2)) * 0.1);
    }
    add(matmul(x, x) * 0.2);
  }

  void row() {
    Tensor x = any().tensor;
    if (x.rank() == 0) return;
    switch (pick(0, 7)) {
      case 0:
        return add(softmax(x, axis(x)));
      case 1:
        return add(log_softmax(x, axis(x)) * 0.3);
      case 2:
        return add(layer_norm(x + 0.1 * iota(x.shape(), -1, f32)));
      case 3:
        return add(rms_norm(x, {}, 1e-2));
      case 4:
        if (x.rank() < 2) return;
        return add(softmax_causal(x));
      case 5:
        if (x.rank() < 2) return;
        return add(where_causal(x, -0.5));
      case 6:
        return add(cross_entropy(x, cast(floor(zeros(without_last(x.shape()))), i32),
                                 {.reduction = Reduction::None, .label_smoothing = 0.1}));
      default:
        return add(mse_loss(x, 0.25) + huber_loss(tanh(x), 2.5) +
                   binary_cross_entropy_with_logits(x, 0.3));
    }
  }

  static Shape without_last(const Shape& shape) {
    Shape result;
    for (int i = 0; i + 1 < shape.rank(); ++i) result.push_back(shape.dim(i));
    return result;
  }

  void pick_by_index() {
    const Tensor x = any().tensor;
    if (x.rank() == 0) return;
    const int a = axis(x);
    if (x.shape(a) < 2) return;  // the indices are 0 and 1
    switch (pick(0, 3)) {
      case 0:
        return add(index_select(x, index_, a));
      case 1:
        return add(scatter_add(x, index_, index_select(x, 1 - index_, a), a) * 0.4);
      case 2:
        return add(embedding(swap_axes(x, 0, a), reshape(index_, {2, 3})));
      default:
        return add(take_along_axis(
            x, cast(greater(broadcast_to(exact_scalar(), x.shape()), 0.0), i32), a));
    }
  }

  Tensor exact_scalar() { return sum(exact()) * 0.0 + 1.0; }

  void select() {
    const Tensor x = any().tensor, e = exact();
    switch (pick(0, 4)) {
      case 0:
        return add(where(greater(e, 0.25), e, -0.5 * e));
      case 1:
        return add(where(logical_and(less(e, 1.0), greater_equal(e, -1.0)), 1.0, e));
      case 2:
        return add(where(logical_or(less_equal(e, -1.0), logical_not(equal(e, e))), 0.5, e));
      case 3:
        return add(minimum(e, 0.3) + maximum(e, -0.3));
      default:
        return add(stop_gradient(x) * 0.5 + x);
    }
  }

  void activation() {
    const Tensor x = any().tensor;
    switch (pick(0, 8)) {
      case 0:
        return add(relu(exact()));
      case 1:
        return add(leaky_relu(exact(), 0.1));
      case 2:
        return add(sigmoid(x));
      case 3:
        return add(gelu(x));
      case 4:
        return add(gelu(x, {.approximate = GeluForm::Tanh}));
      case 5:
        return add(silu(x));
      case 6:
        return add(softplus(x));
      case 7:
        return add(elu(exact()));
      default:
        return add(clamp(exact(), -1.0, 1.0));
    }
  }

  Outputs finish() {
    // The loss takes in the latest values, so that most of the graph has a gradient.
    Tensor loss = mean(square(items_.front().tensor));
    const std::size_t from = items_.size() > 4 ? items_.size() - 4 : 0;
    Outputs outputs;
    for (std::size_t i = from; i < items_.size(); ++i)
      loss = loss + mean(exp(tanh(items_[i].tensor)));
    outputs.items.push_back({"loss", loss});
    outputs.items.push_back({"last", items_.back().tensor});
    if (pick(0, 1)) capture("some", any().tensor);
    return outputs;
  }

  Rng rng_;
  std::vector<Item> items_;
  Tensor index_;
};

}  // namespace

RandomGraph random_graph(std::uint64_t seed) { return Maker(seed).make(); }

}  // namespace tensorgrad::test
