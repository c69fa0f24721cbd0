// Fusion in three steps: compute nodes join groups in graph order; tensors that cross groups are
// either stored or recomputed where they are used; groups that store something are put in order.
#include "schedule/fusion.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <queue>

namespace tensorgrad {

namespace {

int cost(OpKind op) {
  switch (op) {
    case OpKind::Exp:
    case OpKind::Log:
    case OpKind::Log1p:
    case OpKind::Expm1:
    case OpKind::Sin:
    case OpKind::Cos:
    case OpKind::Tanh:
    case OpKind::Erf:
    case OpKind::Sigmoid:
    case OpKind::Softplus:
      return 5;
    case OpKind::Random:
      return 8;  // more, but cheaper to make again than to keep
    case OpKind::Pow:
      return 12;
    case OpKind::Div:
    case OpKind::Sqrt:
    case OpKind::Rsqrt:
      return 2;
    default:
      return 1;
  }
}

class Fuser {
 public:
  Fuser(const Graph& graph, const FusionRequest& request) : graph_(graph), request_(request) {
    result_.group_of.assign(graph.nodes().size(), -1);
    result_.full.assign(graph.nodes().size(), false);
    result_.realised.assign(static_cast<std::size_t>(graph.tensor_count()), false);
    for (const Node& node : graph.nodes()) {
      if (op_class(node.op) == OpClass::Input) realise(node.output());
    }
  }

  Fusion run() {
    force_operands();
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes().size()); ++id) place(id);
    decide_stores();
    order_groups();
    return std::move(result_);
  }

 private:
  enum class Level : std::uint8_t { None, Outer, Full };

  // ---- small helpers

  const Node& node(NodeId id) const { return graph_.node(id); }
  NodeId producer(TensorId id) const { return graph_.tensor(id).producer; }
  int group_of(NodeId id) const { return result_.group_of[static_cast<std::size_t>(id)]; }
  bool realised(TensorId id) const { return result_.realised[static_cast<std::size_t>(id)]; }
  void realise(TensorId id) { result_.realised[static_cast<std::size_t>(id)] = true; }
  std::int64_t size(TensorId id) const { return graph_.type(id).shape.size(); }
  Group& group(int g) { return result_.groups[static_cast<std::size_t>(g)]; }

  /// A transparent node that must live in memory is computed like an elementwise copy.
  bool computes(NodeId id) const {
    const OpClass c = op_class(node(id).op);
    if (c == OpClass::Input || c == OpClass::Update) return false;
    return !is_transparent(node(id).op) || forced_.count(node(id).output()) > 0;
  }

  TensorId strip_reshapes(TensorId id) const {
    while (node(producer(id)).op == OpKind::Reshape && !computes(producer(id)))
      id = node(producer(id)).inputs[0];
    return id;
  }

  /// The computed tensors (and leaves) that `id` reads, through transparent nodes.
  void for_each_source(TensorId id, const std::function<void(TensorId)>& visit) const {
    std::set<TensorId> seen;
    const std::function<void(TensorId)> walk = [&](TensorId t) {
      if (!seen.insert(t).second) return;
      const NodeId p = producer(t);
      if (is_transparent(node(p).op) && !computes(p)) {
        for (TensorId input : node(p).inputs) walk(input);
      } else {
        visit(t);
      }
    };
    walk(id);
  }

  // ---- matmul operands

  /// Matmuls and special kernels read their operands by strides: an operand that is no strided view
  /// of something in memory is made one.
  void force_operands() {
    for (TensorId id : request_.stored) {
      if (is_transparent(node(producer(id)).op)) forced_.insert(id);
    }
    for (const Node& n : graph_.nodes()) {
      if (!reads_by_strides(n)) continue;
      for (TensorId operand : n.inputs) {
        if (!strided(operand)) forced_.insert(operand);
      }
      if (n.op == OpKind::MatMul && wants_straight(n)) forced_.insert(n.inputs[1]);
    }
  }

  static bool reads_by_strides(const Node& n) {
    return op_class(n.op) == OpClass::Contract || op_class(n.op) == OpClass::Special;
  }

  bool strided(TensorId operand) const {
    const std::optional<Index> place = place_of(operand);
    return place && place->is_affine();
  }

  /// Whether the right operand of a product lies along the sum and is worth a copy that does not:
  /// small against the product, for its memory too.
  bool wants_straight(const Node& product) const {
    constexpr std::int64_t kSmall = 1 << 22;
    const Shape& shape = graph_.type(product.inputs[1]).shape;
    const int along_k = shape.rank() - 2, along_n = shape.rank() - 1;
    if (size(product.output()) * shape[along_k] < request_.straight_product ||
        shape.size() > kSmall)
      return false;
    const std::optional<Index> place = place_of(product.inputs[1]);
    if (!place || place->stride(along_k) != 1 || place->stride(along_n) == 1) return false;
    for (int axis = 0; axis < along_k; ++axis) {
      if (shape[axis] > 1 && place->stride(axis) == 0) return false;  // a copy would be repeated
    }
    return true;
  }

  /// Where an element of an operand is in the tensor in memory of which it is a view, if it is one.
  std::optional<Index> place_of(TensorId operand) const {
    std::vector<Index> index;
    const Shape& shape = graph_.type(operand).shape;
    for (int axis = 0; axis < shape.rank(); ++axis) index.push_back(Index::var(axis, shape[axis]));
    TensorId id = operand;
    while (is_transparent(node(producer(id)).op) && !forced_.count(id)) {
      const Node& view = node(producer(id));
      if (op_class(view.op) != OpClass::View || view.op == OpKind::Pad) return std::nullopt;
      index = through_view(graph_, view, index);
      id = view.inputs[0];
    }
    return ravel(index, graph_.type(id).shape);
  }

  // ---- groups

  /// The level at which operand `id` of a node is a value of group g at the node's own point.
  Level aligned(TensorId id, int g) const {
    id = strip_reshapes(id);
    const NodeId p = producer(id);
    if (group_of(p) == g && g >= 0)
      return result_.full[static_cast<std::size_t>(p)] ? Level::Full : Level::Outer;
    if (node(p).op != OpKind::BroadcastTo || computes(p)) return Level::None;
    const TensorId base = strip_reshapes(node(p).inputs[0]);
    if (group_of(producer(base)) != g || g < 0) return Level::None;
    const Group& group = result_.groups[static_cast<std::size_t>(g)];
    if (result_.full[static_cast<std::size_t>(producer(base))] || group.kind != GroupKind::Row)
      return Level::None;
    // [.., 1, 1] → [.., n, m]: an outer value spread over the inner space.
    const Shape &from = graph_.type(node(p).inputs[0]).shape, &to = graph_.type(id).shape;
    if (from.rank() != to.rank()) return Level::None;
    int axis = 0;
    while (axis < to.rank() && from[axis] == to[axis]) ++axis;
    std::int64_t spread = 1;
    for (int k = axis; k < to.rank(); ++k) {
      if (from[k] != 1) return Level::None;
      spread *= to[k];
    }
    return spread == group.cols && from.size() == group.rows ? Level::Full : Level::None;
  }

  /// The groups whose tensors a node reads.
  std::set<int> dependencies(NodeId id) const {
    std::set<int> result;
    for (TensorId input : node(id).inputs) {
      for_each_source(input, [&](TensorId t) {
        if (group_of(producer(t)) >= 0) result.insert(group_of(producer(t)));
      });
    }
    return result;
  }

  std::set<int> dependencies_of_group(int g) const {
    std::set<int> result;
    for (NodeId id : result_.groups[static_cast<std::size_t>(g)].nodes) {
      for (int d : dependencies(id)) {
        if (d != g) result.insert(d);
      }
    }
    return result;
  }

  /// Whether group `from` needs a result of group `to`, directly or through others.
  bool reaches(int from, int to) const {
    std::set<int> seen;
    const std::function<bool(int)> walk = [&](int g) {
      if (g == to) return true;
      if (!seen.insert(g).second) return false;
      for (int d : deps_[static_cast<std::size_t>(g)]) {
        if (walk(d)) return true;
      }
      return false;
    };
    return walk(from);
  }

  void join(NodeId id, int g, bool full) {
    group(g).nodes.push_back(id);
    result_.group_of[static_cast<std::size_t>(id)] = g;
    result_.full[static_cast<std::size_t>(id)] = full;
    for (int d : dependencies(id)) {
      if (d != g) deps_[static_cast<std::size_t>(g)].insert(d);
    }
  }

  void start(NodeId id, GroupKind kind, std::int64_t rows, std::int64_t cols) {
    Group g;
    g.kind = kind;
    g.phase = node(id).phase;
    g.rows = rows;
    g.cols = cols;
    result_.groups.push_back(g);
    deps_.emplace_back();
    join(id, static_cast<int>(result_.groups.size()) - 1, false);
  }

  /// Whether node `id`, at `level`, may become a member of group g.
  bool may_join(NodeId id, int g, Level level) {
    const Group& target = group(g);
    const Node& n = node(id);
    if (target.phase != n.phase || target.kind == GroupKind::Special) return false;
    const std::int64_t points = level == Level::Full ? target.rows * target.cols : target.rows;
    if (op_class(n.op) != OpClass::Reduce && size(n.output()) != points) return false;
    std::set<int> others;
    for (TensorId input : n.inputs) {
      const Level at = aligned(input, g);
      if (at != Level::None) {
        if (op_class(n.op) == OpClass::Reduce ? at != Level::Full
                                              : (at == Level::Outer && level == Level::Full)) {
          return false;
        }
        continue;
      }
      bool outside = true;
      for_each_source(input, [&](TensorId t) {
        const int d = group_of(producer(t));
        if (d == g) outside = false;  // another point of the group's own values
        if (d >= 0) others.insert(d);
      });
      if (!outside) return false;
    }
    return std::none_of(others.begin(), others.end(), [&](int d) { return reaches(d, g); });
  }

  void place(NodeId id) {
    if (!computes(id)) return;
    const Node& n = node(id);
    switch (op_class(n.op)) {
      case OpClass::Contract: {
        const Shape& lhs = graph_.type(n.inputs[0]).shape;
        start(id, GroupKind::MatMul, size(n.output()), lhs[lhs.rank() - 1]);
        break;
      }
      case OpClass::Scatter:
        start(id, GroupKind::Scatter, size(n.output()), size(n.inputs[1]));
        break;
      case OpClass::Special:
        start(id, GroupKind::Special, size(n.output()), 1);
        break;
      case OpClass::Reduce:
        place_reduce(id);
        break;
      default:
        place_elementwise(id);
        break;
    }
  }

  /// Whether the reduced axes are the last ones (axes of size 1 aside).
  bool is_trailing(const Node& n) const {
    const Shape& shape = graph_.type(n.inputs[0]).shape;
    std::vector<bool> reduced(static_cast<std::size_t>(shape.rank()), false);
    if (const auto* axes = std::get_if<AxesAttr>(&n.attrs)) {
      for (int axis : axes->axes) reduced[static_cast<std::size_t>(axis)] = true;
    } else {
      reduced[static_cast<std::size_t>(std::get<AxisAttr>(n.attrs).axis)] = true;
    }
    bool in_tail = true;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      if (shape[axis] == 1) continue;
      const bool r = reduced[static_cast<std::size_t>(axis)];
      if (r && !in_tail) return false;
      in_tail = in_tail && r;
    }
    return true;
  }

  void place_reduce(NodeId id) {
    const Node& n = node(id);
    const std::int64_t rows = size(n.output()), cols = size(n.inputs[0]) / rows;
    if (!is_trailing(n)) {
      place_column(id, rows, cols);
      return;
    }
    if (!request_.separate.count(n.output())) {
      const int g = group_of(producer(strip_reshapes(n.inputs[0])));
      if (g >= 0) {
        Group& target = group(g);
        if (target.kind == GroupKind::Elementwise && target.rows == rows * cols && cols > 1) {
          // An elementwise group has no inner space yet: its points become rows × cols.
          target.kind = GroupKind::Row;
          target.rows = rows;
          target.cols = cols;
          for (NodeId member : target.nodes) result_.full[static_cast<std::size_t>(member)] = true;
          if (may_join(id, g, Level::Outer)) {
            join(id, g, false);
            return;
          }
          target.kind = GroupKind::Elementwise;
          target.rows = rows * cols;
          target.cols = 1;
          for (NodeId member : target.nodes) result_.full[static_cast<std::size_t>(member)] = false;
        } else if (target.kind == GroupKind::Row && target.rows == rows && target.cols == cols &&
                   may_join(id, g, Level::Outer)) {
          join(id, g, false);
          return;
        }
      }
    }
    start(id, GroupKind::Row, rows, cols);
  }

  /// Column reductions over one space share a kernel if they read the same, as the gradients of a
  /// norm's gain and bias do, or if they are so small that a kernel costs more than its work.
  void place_column(NodeId id, std::int64_t rows, std::int64_t cols) {
    const Node& n = node(id);
    std::vector<int>& siblings =
        columns_[graph_.type(n.inputs[0]).shape.to_string() + to_string(n.attrs)];
    if (!request_.separate.count(n.output())) {
      for (std::size_t k = siblings.size(); k-- > 0;) {
        const int g = siblings[k];
        if (!may_share_columns(id, g)) continue;
        join(id, g, false);
        return;
      }
    }
    start(id, GroupKind::Column, rows, cols);
    siblings.push_back(static_cast<int>(result_.groups.size()) - 1);
  }

  bool may_share_columns(NodeId id, int g) {
    constexpr std::int64_t kSmall = 1 << 16;  // elements
    constexpr std::size_t kMost = 4;          // reductions in a kernel
    const Group& target = group(g);
    const Node& n = node(id);
    if (target.kind != GroupKind::Column || target.phase != n.phase) return false;
    std::vector<NodeId> reductions;
    for (NodeId member : target.nodes) {
      if (op_class(node(member).op) == OpClass::Reduce) reductions.push_back(member);
    }
    if (reductions.empty() || reductions.size() >= kMost) return false;
    const std::set<int> needs = dependencies(id);
    if (std::any_of(needs.begin(), needs.end(), [&](int d) { return reaches(d, g); })) return false;
    if (size(n.inputs[0]) <= kSmall) return true;
    const std::set<TensorId> own = read_by(n.inputs[0]);
    const std::set<TensorId> theirs = read_by(node(reductions.front()).inputs[0]);
    return std::any_of(own.begin(), own.end(), [&](TensorId t) { return theirs.count(t) > 0; });
  }

  /// The large tensors that computing `id` reads, behind elementwise nodes. (A number spread over
  /// a large shape is no large tensor.)
  std::set<TensorId> read_by(TensorId id) const {
    std::set<TensorId> result, seen;
    const std::function<void(TensorId)> walk = [&](TensorId t) {
      if (size(t) < size(id) || !seen.insert(t).second || seen.size() > 32) return;
      const OpKind op = node(producer(t)).op;
      if (op_class(op) != OpClass::Elementwise && !is_transparent(op)) {
        result.insert(t);
        return;
      }
      for (TensorId input : node(producer(t)).inputs) walk(input);
    };
    walk(id);
    return result;
  }

  void place_elementwise(NodeId id) {
    const Node& n = node(id);
    const bool copy = is_transparent(n.op);  // a forced view is read through its index map
    if (!copy && !request_.separate.count(n.output())) {
      std::set<int> groups;
      for (TensorId input : n.inputs) {
        TensorId base = strip_reshapes(input);
        if (node(producer(base)).op == OpKind::BroadcastTo && !computes(producer(base))) {
          base = strip_reshapes(node(producer(base)).inputs[0]);
        }
        if (group_of(producer(base)) >= 0) groups.insert(group_of(producer(base)));
      }
      // The latest first, but elementwise ones last: they can be merged into the others.
      std::vector<int> candidates(groups.rbegin(), groups.rend());
      std::stable_partition(candidates.begin(), candidates.end(),
                            [&](int g) { return group(g).kind != GroupKind::Elementwise; });
      for (int g : candidates) {
        Level level = Level::None;
        for (TensorId input : n.inputs) {
          const Level at = aligned(input, g);
          if (at == Level::Full || (at == Level::Outer && level == Level::None)) level = at;
        }
        if (level == Level::None || !may_join(id, g, level)) continue;
        join(id, g, level == Level::Full);
        for (int other : candidates) {
          if (other != g) try_merge(other, g);
        }
        return;
      }
    }
    start(id, GroupKind::Elementwise, size(n.output()), 1);
  }

  /// Takes group a into group b if the two can share a kernel.
  void try_merge(int a, int b) {
    Group &from = group(a), &into = group(b);
    if (from.nodes.empty() || from.phase != into.phase) return;
    bool lift = false;  // a's outer values become full ones of b
    if (from.kind == GroupKind::Elementwise) {
      if (into.kind == GroupKind::Row && from.rows == into.rows * into.cols) {
        lift = into.cols > 1;
      } else if (from.rows != into.rows) {
        return;
      }
    } else if (from.kind != GroupKind::Row || into.kind != GroupKind::Row ||
               from.rows != into.rows || from.cols != into.cols) {
      return;
    }
    for (int d : deps_[static_cast<std::size_t>(a)]) {
      if (d != b && reaches(d, b)) return;
    }
    for (int d : deps_[static_cast<std::size_t>(b)]) {
      if (d != a && reaches(d, a)) return;
    }
    if (deps_[static_cast<std::size_t>(a)].count(b)) return;  // b is the later one; keep it simple
    // Every use of a's values inside b must be at the same point.
    for (NodeId id : into.nodes) {
      for (TensorId input : node(id).inputs) {
        bool uses = false;
        for_each_source(input, [&](TensorId t) { uses = uses || group_of(producer(t)) == a; });
        if (!uses) continue;
        const TensorId base = strip_reshapes(input);
        const bool spread = from.kind == GroupKind::Row && aligned(input, a) == Level::Full &&
                            result_.full[static_cast<std::size_t>(id)];
        const bool same =
            group_of(producer(base)) == a &&
            (lift ? result_.full[static_cast<std::size_t>(id)] ||
                        op_class(node(id).op) == OpClass::Reduce
                  : from.kind == GroupKind::Row || !result_.full[static_cast<std::size_t>(id)] ||
                        into.cols == 1);
        if (!same && !spread) return;
      }
    }
    for (NodeId id : from.nodes) {
      result_.group_of[static_cast<std::size_t>(id)] = b;
      if (lift) result_.full[static_cast<std::size_t>(id)] = true;
    }
    into.nodes.insert(into.nodes.end(), from.nodes.begin(), from.nodes.end());
    std::sort(into.nodes.begin(), into.nodes.end());
    from.nodes.clear();
    deps_[static_cast<std::size_t>(b)].insert(deps_[static_cast<std::size_t>(a)].begin(),
                                              deps_[static_cast<std::size_t>(a)].end());
    deps_[static_cast<std::size_t>(b)].erase(a);
    deps_[static_cast<std::size_t>(b)].erase(b);
    deps_[static_cast<std::size_t>(a)].clear();
    for (auto& d : deps_) {
      if (d.erase(a)) d.insert(b);
    }
    deps_[static_cast<std::size_t>(b)].erase(b);
  }

  // ---- what lives in memory

  void decide_stores() {
    const auto count = static_cast<std::size_t>(graph_.tensor_count());
    std::vector<std::set<int>> users(count);  // groups other than its own that read a tensor
    std::vector<bool> inside(count, false);   // read by its own group
    std::vector<bool> needed(count, false);
    for (TensorId id : request_.stored) needed[static_cast<std::size_t>(id)] = true;
    for (TensorId id : forced_) needed[static_cast<std::size_t>(id)] = true;
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes().size()); ++id) {
      const bool update = op_class(node(id).op) == OpClass::Update;
      if (!computes(id) && !update) continue;
      for (TensorId input : node(id).inputs) {
        for_each_source(input, [&](TensorId t) {
          if (update || reads_by_strides(node(id))) needed[static_cast<std::size_t>(t)] = true;
          if (!update && group_of(producer(t)) != group_of(id))
            users[static_cast<std::size_t>(t)].insert(group_of(id));
          if (!update && group_of(producer(t)) == group_of(id))
            inside[static_cast<std::size_t>(t)] = true;
        });
      }
    }
    const auto budget = [&](std::size_t k) {
      return users[k].size() == 1 && !inside[k] ? 2 * request_.recompute : request_.recompute;
    };
    // A group whose values are wanted elsewhere keeps the one they all come from, if there is one:
    // what goes into an activation made of ops rather than the parts of its slope.
    for (const Group& g : result_.groups) {
      std::vector<TensorId> wanted;
      for (NodeId id : g.nodes) {
        const TensorId t = node(id).output();
        const auto k = static_cast<std::size_t>(t);
        if (op_class(node(id).op) == OpClass::Elementwise && !needed[k] && !users[k].empty() &&
            !recomputable(t, budget(k)))
          wanted.push_back(t);
      }
      if (wanted.size() < 2) continue;
      TensorId best = -1;
      std::ptrdiff_t most = 1;
      for (NodeId id : g.nodes) {
        const TensorId t = node(id).output();
        if (realised(t) || size(t) > size(wanted.front())) continue;
        result_.realised[static_cast<std::size_t>(t)] = true;
        const auto spared = std::count_if(wanted.begin(), wanted.end(), [&](TensorId w) {
          return w == t || recomputable(w, budget(static_cast<std::size_t>(w)));
        });
        result_.realised[static_cast<std::size_t>(t)] = false;
        // The last of those that spare as much: it needs the least arithmetic.
        if (spared > most || (best >= 0 && spared == most && size(t) <= size(best)))
          best = t, most = spared;
      }
      if (best >= 0) realise(best);
    }
    // Readers outside of any kernel group (write-backs, outputs that are views) are in `stored`.
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes().size()); ++id) {
      if (!computes(id)) continue;
      for (TensorId t : node(id).outputs) {
        const auto k = static_cast<std::size_t>(t);
        if (!needed[k] && users[k].empty()) continue;
        const bool cheap =
            op_class(node(id).op) == OpClass::Elementwise && !needed[k] && recompute(t, budget(k));
        if (!cheap) realise(t);
      }
    }
    for (int g = 0; g < static_cast<int>(result_.groups.size()); ++g) keep_repeated(g);
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes().size()); ++id) {
      if (!computes(id)) continue;
      for (TensorId t : node(id).outputs) {
        if (realised(t)) group(group_of(id)).stores.push_back(t);
      }
    }
  }

  /// A kernel that reads a value by several views computes it for each of them: the taps of a
  /// convolution all want the same gradient, each a step further. Keeps what that repeats too much.
  void keep_repeated(int g) {
    while (true) {
      std::map<TensorId, std::set<TensorId>> views;  // of each tensor that is computed again
      for (NodeId id : group(g).nodes) {
        for (TensorId input : node(id).inputs) {
          const TensorId view = strip_reshapes(input);
          for_each_source(view, [&](TensorId t) {
            if (t == view || group_of(producer(t)) == g || realised(t)) return;
            for (TensorId part : computed_again(t)) views[part].insert(view);
          });
        }
      }
      TensorId worst = -1;
      int most = request_.recompute;
      for (const auto& [t, through] : views) {
        int each = 0;
        for (TensorId part : computed_again(t)) each += cost(node(producer(part)).op);
        const int repeated = (static_cast<int>(through.size()) - 1) * each;
        if (repeated > most) worst = t, most = repeated;
      }
      if (worst < 0) return;
      realise(worst);
    }
  }

  /// The elementwise values, t among them, that are computed where t is not read from memory.
  std::set<TensorId> computed_again(TensorId t) const {
    std::set<TensorId> seen, result;
    const std::function<void(TensorId)> walk = [&](TensorId id) {
      if (realised(id) || !seen.insert(id).second) return;
      const NodeId p = producer(id);
      if (op_class(node(p).op) == OpClass::Elementwise) result.insert(id);
      for (TensorId input : node(p).inputs) walk(input);
    };
    walk(t);
    return result;
  }

  /// Whether t can be computed again from what lives in memory within the budget. Results of row
  /// reductions it needs are small and are then stored.
  bool recompute(TensorId t, int budget) {
    std::vector<TensorId> small;
    if (!recomputable(t, budget, &small)) return false;
    for (TensorId id : small) realise(id);
    return true;
  }

  bool recomputable(TensorId t, int budget, std::vector<TensorId>* small = nullptr) const {
    int spent = 0;
    std::set<TensorId> seen;
    const std::function<bool(TensorId)> walk = [&](TensorId id) {
      if (realised(id) || !seen.insert(id).second) return true;
      const Node& n = node(producer(id));
      switch (op_class(n.op)) {
        case OpClass::Elementwise:
          spent += cost(n.op);
          break;
        case OpClass::Reduce:
          if (size(id) * 8 > size(t)) return false;
          if (small) small->push_back(id);
          return true;
        case OpClass::Contract:
        case OpClass::Scatter:
        case OpClass::Special:
        case OpClass::Update:
          return false;
        default:
          break;
      }
      if (spent > budget) return false;
      return std::all_of(n.inputs.begin(), n.inputs.end(), walk);
    };
    return walk(t);
  }

  // ---- order

  void order_groups() {
    // What a group's stores are computed from, now that it is known what lives in memory.
    const auto n = result_.groups.size();
    std::vector<std::set<int>> needs(n);
    for (std::size_t g = 0; g < n; ++g) {
      std::set<TensorId> seen;
      const std::function<void(TensorId)> walk = [&](TensorId id) {
        if (!seen.insert(id).second) return;
        const int owner = group_of(producer(id));
        if (realised(id) && owner != static_cast<int>(g)) {
          if (owner >= 0) needs[g].insert(owner);
          return;
        }
        for (TensorId input : node(producer(id)).inputs) walk(input);
      };
      for (TensorId store : result_.groups[g].stores) walk(store);
    }
    std::vector<int> waiting(n, 0);
    std::vector<std::vector<int>> users(n);
    using Entry = std::pair<NodeId, int>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>>
        ready;  // earliest in the graph first
    const auto rank = [&](int g) { return producer(group(g).stores.front()); };
    int alive = 0;
    for (std::size_t g = 0; g < n; ++g) {
      if (result_.groups[g].stores.empty()) continue;
      ++alive;
      waiting[g] = static_cast<int>(needs[g].size());
      for (int d : needs[g]) users[static_cast<std::size_t>(d)].push_back(static_cast<int>(g));
      if (waiting[g] == 0) ready.push({rank(static_cast<int>(g)), static_cast<int>(g)});
    }
    std::vector<int> position(n, -1);
    std::vector<Group> ordered;
    while (!ready.empty()) {
      const int g = ready.top().second;
      ready.pop();
      position[static_cast<std::size_t>(g)] = static_cast<int>(ordered.size());
      ordered.push_back(group(g));
      for (int u : users[static_cast<std::size_t>(g)]) {
        if (--waiting[static_cast<std::size_t>(u)] == 0) ready.push({rank(u), u});
      }
    }
    if (static_cast<int>(ordered.size()) != alive)
      throw InternalError("fuse: groups depend on each other in a circle");
    for (int& g : result_.group_of) {
      if (g >= 0) g = position[static_cast<std::size_t>(g)];
    }
    result_.groups = std::move(ordered);
  }

  const Graph& graph_;
  const FusionRequest& request_;
  Fusion result_;
  std::set<TensorId> forced_;                        // transparent tensors that must live in memory
  std::vector<std::set<int>> deps_;                  // by group: the groups it reads from
  std::map<std::string, std::vector<int>> columns_;  // by space: the groups of column reductions
};

}  // namespace

Fusion fuse(const Graph& graph, const FusionRequest& request) {
  return Fuser(graph, request).run();
}

}  // namespace tensorgrad
