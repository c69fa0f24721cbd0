#include "codegen/write_through.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "codegen/normalise.hpp"
#include "codegen/parts.hpp"

namespace tensorgrad {

namespace {

/// Where a copy puts an element of one of its sources, by the element's number there.
struct Move {
  int binding = -1;     ///< of the copy, what it reads
  std::int64_t to = 0;  ///< where the first element goes
  struct Digit {
    std::int64_t extent, from, to;  ///< `extent` steps of `from` become steps of `to`
  };
  std::vector<Digit> digits;

  Index operator()(const Index& element) const {
    Index result = to;
    for (const Digit& d : digits) result = result + element.div(d.from).mod(d.extent) * d.to;
    return result;
  }
};

/// What a kernel moves if all it does is load every element of one tensor and store it. `sizes` are
/// those of the tensors it binds.
std::optional<Move> as_move(const Kernel& kernel, const std::vector<std::int64_t>& sizes,
                            std::int64_t shortest_run) {
  const Store& store = kernel.stores.front();
  const Expr& load = kernel.exprs[static_cast<std::size_t>(store.value)];
  if (load.kind != Expr::Kind::Load || !load.guards.empty() || !load.index.is_affine() ||
      !store.index.is_affine() || load.index.constant() != 0)
    return std::nullopt;
  Move move{load.binding, store.index.constant(), {}};
  for (int v = 0; v < kernel.outer_count; ++v) {
    const std::int64_t extent = kernel.vars[static_cast<std::size_t>(v)].extent;
    if (extent > 1) move.digits.push_back({extent, load.index.stride(v), store.index.stride(v)});
  }
  std::sort(move.digits.begin(), move.digits.end(),
            [](const Move::Digit& a, const Move::Digit& b) { return a.from < b.from; });
  std::int64_t next = 1, run = 1;
  for (const Move::Digit& d : move.digits) {
    if (d.from != next) return std::nullopt;  // not each element once
    if (run == next && d.to == next) run *= d.extent;
    next *= d.extent;
  }
  const bool whole = next == sizes[static_cast<std::size_t>(load.binding)];
  return whole && run >= std::min(next, shortest_run) ? std::optional(move) : std::nullopt;
}

class WriteThrough {
 public:
  WriteThrough(const Graph& graph, std::int64_t shortest_run,
               const std::function<bool(TensorId)>& temporary, std::vector<LoweredKernel>& kernels)
      : graph_(graph), shortest_run_(shortest_run), temporary_(temporary), kernels_(kernels) {
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      const LoweredKernel& kernel = kernels[k];
      for (std::size_t b = 0; b < kernel.tensors.size(); ++b) {
        if (kernel.tensors[b] < 0) continue;
        auto& at = kernel.kernel.bindings[b].written ? writers_ : readers_;
        at[kernel.tensors[b]].insert(k);
      }
    }
  }

  void run() {
    std::vector<LoweredKernel> rest;
    std::vector<bool> dropped(kernels_.size(), false);
    for (std::size_t k = 0; k < kernels_.size(); ++k) dropped[k] = spared(k);
    for (std::size_t k = 0; k < kernels_.size(); ++k) {
      if (!dropped[k]) rest.push_back(std::move(kernels_[k]));
    }
    kernels_ = std::move(rest);
  }

 private:
  std::int64_t size(TensorId id) const { return graph_.type(id).shape.size(); }

  /// Tries to have the kernels before do what kernel k does.
  bool spared(std::size_t k) {
    const LoweredKernel& copy = kernels_[k];
    const Kernel& kernel = copy.kernel;
    if (kernel.special || kernel.matmul || kernel.scatter || kernel.stores.size() != 1 ||
        static_cast<int>(kernel.vars.size()) > kernel.outer_count)
      return false;
    const TensorId target = copy.tensors[static_cast<std::size_t>(kernel.stores.front().binding)];
    if (target < 0 || !temporary_(target)) return false;
    std::vector<std::int64_t> sizes;
    for (TensorId id : copy.tensors) {
      if (id < 0) return false;
      sizes.push_back(size(id));
    }
    std::vector<Move> moves;
    for (const Kernel& part : cut_into_parts(kernel)) {
      const std::optional<Move> move = as_move(normalise(part).kernel, sizes, shortest_run_);
      if (!move) return false;
      moves.push_back(*move);
    }
    std::map<TensorId, const Move*> by_source;
    for (const Move& move : moves) {
      if (!by_source.emplace(copy.tensors[static_cast<std::size_t>(move.binding)], &move).second)
        return false;
    }
    std::map<std::size_t, LoweredKernel> changed;  // by number
    for (const auto& [source, move] : by_source) {
      if (!temporary_(source) || graph_.type(source).dtype != graph_.type(target).dtype)
        return false;
      for (const auto* users : {&writers_[source], &readers_[source]}) {
        for (const std::size_t user : *users) {
          if (user == k) continue;
          LoweredKernel& moved = changed.try_emplace(user, kernels_[user]).first->second;
          if (!redirect(moved, source, target, *move, size(target))) return false;
        }
      }
    }
    // The tensor is there when the last of them has run.
    std::size_t last = 0;
    for (const auto& [source, move] : by_source) last = std::max(last, *writers_[source].rbegin());
    for (auto& [number, moved] : changed) kernels_[number] = std::move(moved);
    std::vector<NodeId>& computed = kernels_[last].kernel.nodes;
    computed.insert(computed.end(), kernel.nodes.begin(), kernel.nodes.end());
    replace(writers_, k, target, by_source);
    replace(readers_, k, target, by_source);
    return true;
  }

  /// The users of `target` after copy k is gone.
  static void replace(std::map<TensorId, std::set<std::size_t>>& users, std::size_t k,
                      TensorId target, const std::map<TensorId, const Move*>& sources) {
    std::set<std::size_t>& all = users[target];
    for (const auto& [source, move] : sources) {
      all.insert(users[source].begin(), users[source].end());
      users.erase(source);
    }
    all.erase(k);
  }

  /// Has a kernel use its part of `target` in place of `source`. False if it cannot: then it may be
  /// half changed.
  static bool redirect(LoweredKernel& lowered, TensorId source, TensorId target, const Move& move,
                       std::int64_t elements) {
    Kernel& kernel = lowered.kernel;
    if (kernel.scatter) return false;
    const auto at = std::find(lowered.tensors.begin(), lowered.tensors.end(), source);
    const auto old = static_cast<int>(at - lowered.tensors.begin());
    // One tensor goes through one binding.
    const auto shared = std::find(lowered.tensors.begin(), lowered.tensors.end(), target);
    const int binding =
        shared == lowered.tensors.end() ? old : static_cast<int>(shared - lowered.tensors.begin());
    const auto written = [&](int b) {
      return kernel.bindings[static_cast<std::size_t>(b)].written;
    };
    if (written(binding) != written(old)) return false;  // it would race with itself
    const auto moved = [&](int& b, Index& index) {
      if (b != old) return true;
      index = move(index);
      b = binding;
      return index.is_affine();
    };
    for (Store& store : kernel.stores) {
      if (!moved(store.binding, store.index)) return false;
    }
    for (Expr& e : kernel.exprs) {
      if (e.kind == Expr::Kind::Load && !moved(e.binding, e.index)) return false;
    }
    if (kernel.special) {
      for (auto* operands : {&kernel.special->inputs, &kernel.special->outputs}) {
        const bool output = operands == &kernel.special->outputs;
        for (StridedOperand& operand : *operands) {
          if (operand.binding != old) continue;
          if (!move_operand(operand, move)) return false;
          if (output && !writes_by_strides(kernel.special->op, operand)) return false;
          operand.binding = binding;
        }
      }
    }
    if (binding == old) {
      lowered.tensors[static_cast<std::size_t>(old)] = target;
      kernel.bindings[static_cast<std::size_t>(old)].elements = elements;
    } else {
      lowered.tensors.erase(at);
      drop_binding(kernel, static_cast<std::size_t>(old));
    }
    return true;
  }

  /// Whether a special kernel can put a result there.
  static bool writes_by_strides(OpKind op, const StridedOperand& output) {
    switch (op) {
      case OpKind::LinearScan:
        return true;
      case OpKind::Attention:
      case OpKind::AttentionGradQ:
      case OpKind::AttentionGradKV:
        return output.strides.back() == 1;
      default:
        return false;
    }
  }

  static bool move_operand(StridedOperand& operand, const Move& move) {
    Index element = operand.offset;
    const Shape& shape = operand.type.shape;
    for (int axis = 0; axis < shape.rank(); ++axis)
      element =
          element + Index::var(axis, shape[axis]) * operand.strides[static_cast<std::size_t>(axis)];
    const Index to = move(element);
    if (!to.is_affine()) return false;
    operand.offset = to.constant();
    for (int axis = 0; axis < shape.rank(); ++axis)
      operand.strides[static_cast<std::size_t>(axis)] = to.stride(axis);
    return true;
  }

  const Graph& graph_;
  const std::int64_t shortest_run_;
  const std::function<bool(TensorId)>& temporary_;
  std::vector<LoweredKernel>& kernels_;
  std::map<TensorId, std::set<std::size_t>> readers_, writers_;  // kernels, by tensor
};

}  // namespace

void write_through(const Graph& graph, std::int64_t shortest_run,
                   const std::function<bool(TensorId)>& temporary,
                   std::vector<LoweredKernel>& kernels) {
  WriteThrough(graph, shortest_run, temporary, kernels).run();
}

}  // namespace tensorgrad
