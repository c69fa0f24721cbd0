// The last stage before a device: groups become kernels, tensors get places.
#include "tensorgrad/plan.hpp"

#include <algorithm>
#include <functional>

#include "codegen/lower.hpp"
#include "codegen/update.hpp"
#include "codegen/write_through.hpp"
#include "schedule/buffers.hpp"
#include "schedule/fusion.hpp"

namespace tensorgrad {

namespace {

class Planner {
 public:
  Planner(std::shared_ptr<const Graph> graph, const Target& target,
          const std::map<std::string, SharedParam>& shared)
      : graph_(*graph), shared_(shared) {
    plan_.graph = std::move(graph);
    plan_.target = target;
    request_.recompute = target.recompute;
    request_.straight_product = target.straight_product;
  }

  Plan run() {
    place_leaves();
    claim_roots();
    if (plan_.target.fuse) {
      fuse_and_lower();
    } else {
      one_kernel_a_node();
    }
    append_copies();
    if (plan_.target.fuse) {
      write_through(
          graph_, plan_.target.shortest_run,
          [&](TensorId id) { return !plan_.places.count(id) && !request_.stored.count(id); },
          lowered_);
    }
    append_updates();
    place_temps();
    for (std::size_t k = 0; k < lowered_.size(); ++k) finish(lowered_[k]);
    name_results();
    return std::move(plan_);
  }

 private:
  // ---- buffers and leaves

  int add_buffer(std::string name, BufferRole role, std::int64_t elements, bool external = false) {
    plan_.buffers.push_back(
        {std::move(name), role, elements * plan_.target.element_bytes, external});
    return static_cast<int>(plan_.buffers.size()) - 1;
  }

  void place(TensorId id, int buffer, std::int64_t offset) {
    plan_.places[id] = {buffer, offset, graph_.type(id)};
  }

  static std::string segment_name(const std::string& base, std::size_t segment, std::size_t count) {
    return count == 1 ? base : base + "." + std::to_string(segment);
  }

  /// One buffer for each segment of the arena, of `role`, as long as the whole or the updated part.
  std::vector<int> add_arena(const std::string& name, BufferRole role, bool updated_only) {
    std::vector<int> buffers;
    for (std::size_t s = 0; s < layout_.segments.size(); ++s) {
      const auto& segment = layout_.segments[s];
      const std::int64_t elements = updated_only ? segment.updated : segment.elements;
      buffers.push_back(elements == 0 ? -1
                                      : add_buffer(segment_name(name, s, layout_.segments.size()),
                                                   role, elements));
    }
    return buffers;
  }

  void place_leaves() {
    layout_ = lay_out_params(graph_, plan_.target);
    place_params();
    if (!graph_.gradients.empty())
      gradient_arena_ = add_arena("gradients", BufferRole::Gradient, true);
    for (const Node& node : graph_.nodes()) {
      if (node.op != OpKind::AdamUpdate && node.op != OpKind::SgdUpdate) continue;
      updates_.push_back(&node);
      const int states = static_cast<int>(node.outputs.size()) - 1;
      for (int k = 0; k < states; ++k) {
        if (static_cast<int>(moment_arenas_.size()) <= k) {
          moment_arenas_.push_back(add_arena(states == 1 ? "momentum"
                                             : k == 0    ? "moments.m"
                                                         : "moments.v",
                                             BufferRole::Moment, true));
        }
        const auto slot =
            layout_.slots.at(std::get<InputAttr>(graph_.producer(node.inputs[0]).attrs).name);
        place(node.inputs[static_cast<std::size_t>(2 + k)],
              moment_arenas_[static_cast<std::size_t>(k)][static_cast<std::size_t>(slot.segment)],
              slot.offset);
      }
    }
    // All inputs share a buffer, so that a step uploads once; so do literals.
    place_together(OpKind::TensorInput, "inputs", BufferRole::Input);
    place_together(OpKind::Literal, "literals", BufferRole::Literal);
    for (const Node& node : graph_.nodes()) {
      if (node.op == OpKind::TensorInput) {
        plan_.inputs[std::get<InputAttr>(node.attrs).name] = plan_.places.at(node.output());
      } else if (node.op == OpKind::StateInput) {
        const std::string& name = std::get<StateAttr>(node.attrs).name;
        if (!plan_.places.count(node.output())) {
          place(node.output(),
                add_buffer(name, BufferRole::State, graph_.type(node.output()).shape.size()), 0);
        }
        plan_.states[name] = plan_.places.at(node.output());
      }
    }
  }

  void place_params() {
    int shared_count = 0;
    for (const auto& [name, param] : shared_)
      shared_count = std::max(shared_count, param.buffer + 1);
    plan_.shared_buffers.assign(static_cast<std::size_t>(shared_count), -1);
    bool own = false;
    for (const ParamInfo& param : graph_.params) own = own || !shared_.count(param.name);
    std::vector<int> arena;
    if (own) arena = add_arena("params", BufferRole::Param, false);
    for (const ParamInfo& param : graph_.params) {
      const auto found = shared_.find(param.name);
      if (found == shared_.end()) {
        const auto slot = layout_.slots.at(param.name);
        place(param.tensor, arena[static_cast<std::size_t>(slot.segment)], slot.offset);
      } else {
        int& buffer = plan_.shared_buffers[static_cast<std::size_t>(found->second.buffer)];
        if (buffer < 0) {
          buffer = add_buffer("shared." + std::to_string(found->second.buffer), BufferRole::Param,
                              0, true);
          plan_.buffers.back().bytes = found->second.buffer_bytes;
        }
        place(param.tensor, buffer, found->second.offset);
      }
      plan_.params[param.name] = plan_.places.at(param.tensor);
    }
  }

  void place_together(OpKind op, const char* name, BufferRole role) {
    std::int64_t elements = 0;
    std::vector<std::pair<TensorId, std::int64_t>> at;
    for (const Node& node : graph_.nodes()) {
      if (node.op != op) continue;
      at.push_back({node.output(), elements});
      elements += arena_round(graph_.type(node.output()).shape.size());
    }
    if (at.empty()) return;
    const int buffer = add_buffer(name, role, elements);
    for (const auto& [tensor, offset] : at) place(tensor, buffer, offset);
  }

  // ---- what must be in memory at the end

  struct Copy {
    TensorId source;
    Place destination;
    Phase phase;
  };

  TensorId strip_reshapes(TensorId id) const {
    while (graph_.producer(id).op == OpKind::Reshape) id = graph_.producer(id).inputs[0];
    return id;
  }

  /// Whether a kernel computes `id`, so that it can be told where to put it.
  bool is_computed(TensorId id) const {
    const OpKind op = graph_.producer(id).op;
    return !is_transparent(op) && op_class(op) != OpClass::Input;
  }

  Place in_place(const Place& place, TensorId id) const {
    return {place.buffer, place.offset, graph_.type(id)};
  }

  /// Puts `id` at `destination`: by its own kernel if no other place was claimed, else by a copy.
  Place claim(TensorId id, const std::function<Place()>& destination, Phase phase) {
    const TensorId base = strip_reshapes(id);
    if (is_computed(base) && !plan_.places.count(base)) {
      const Place at = destination();
      place(base, at.buffer, at.offset);
      request_.stored.insert(base);
      return in_place(at, id);
    }
    const Place at = destination();
    need(id);
    copies_.push_back({id, at, phase});
    return in_place(at, id);
  }

  /// The computed tensors that `id` reads through views must live in memory for a copy.
  void need(TensorId id) {
    const NodeId node = graph_.tensor(id).producer;
    if (is_computed(id)) {
      request_.stored.insert(id);
    } else {
      for (TensorId input : graph_.node(node).inputs) need(input);
    }
  }

  Place new_output(const std::string& name, TensorId id) {
    return {add_buffer(name, BufferRole::Output, graph_.type(id).shape.size()), 0, graph_.type(id)};
  }

  void claim_roots() {
    for (const NamedTensor& grad : graph_.gradients) {
      const auto slot = layout_.slots.at(grad.name);
      const Place at{gradient_arena_[static_cast<std::size_t>(slot.segment)], slot.offset,
                     graph_.type(grad.tensor)};
      plan_.gradients[grad.name] = claim(
          grad.tensor, [&] { return at; }, Phase::Gradient);
    }
    const auto results = [&](const std::vector<NamedTensor>& items, const char* prefix,
                             std::map<std::string, Place>& to) {
      for (const NamedTensor& item : items) {
        const TensorId base = strip_reshapes(item.tensor);
        if (is_computed(base) && plan_.places.count(base)) {  // already kept for another reader
          to[item.name] = in_place(plan_.places.at(base), item.tensor);
        } else {
          to[item.name] = claim(
              item.tensor, [&] { return new_output(prefix + item.name, item.tensor); },
              Phase::Gradient);
        }
      }
    };
    results(graph_.outputs, "output.", plan_.outputs);
    results(graph_.captures, "capture.", plan_.captures);
    claim_write_backs();
  }

  /// A state's new value is copied into its place at the end, when nobody reads the old one any
  /// more. A value that reads a state which is itself replaced goes through a buffer of its own.
  void claim_write_backs() {
    std::set<TensorId> replaced;
    for (const WriteBack& wb : graph_.write_backs) replaced.insert(wb.destination);
    const std::function<bool(TensorId)> reads_replaced = [&](TensorId id) {
      if (is_computed(id)) return false;
      if (replaced.count(id)) return true;
      const auto& inputs = graph_.producer(id).inputs;
      return std::any_of(inputs.begin(), inputs.end(), reads_replaced);
    };
    std::vector<Copy> last;
    for (const WriteBack& wb : graph_.write_backs) {
      const Node& producer = graph_.producer(wb.value);
      if (op_class(producer.op) == OpClass::Update) continue;  // the update kernel works in place
      need(wb.value);
      if (reads_replaced(wb.value)) {
        const Place at = new_output("write_back." + std::to_string(wb.destination), wb.value);
        copies_.push_back({wb.value, at, producer.phase});
        last.push_back({-1, plan_.places.at(wb.destination), producer.phase});
        moved_.push_back(at);
      } else {
        last.push_back({wb.value, plan_.places.at(wb.destination), producer.phase});
      }
    }
    copies_.insert(copies_.end(), last.begin(), last.end());
  }

  // ---- kernels

  void fuse_and_lower() {
    if (plan_.target.separate) {
      for (TensorId id = 0; id < graph_.tensor_count(); ++id) {
        if (!is_computed(id) || op_class(graph_.producer(id).op) == OpClass::Update) continue;
        request_.stored.insert(id);
        request_.separate.insert(id);
      }
    }
    // A kernel that needs too many bindings is relieved by storing what it recomputes, or by giving
    // its last member a kernel of its own, until all fit.
    for (;;) {
      fusion_ = fuse(graph_, request_);
      lowered_.clear();
      bool fits = true;
      for (std::size_t g = 0; g < fusion_.groups.size(); ++g) {
        lowered_.push_back(lower_group(graph_, fusion_, static_cast<int>(g)));
        if (static_cast<int>(lowered_.back().kernel.bindings.size()) > plan_.target.max_bindings) {
          relieve(fusion_.groups[g], lowered_.back());
          fits = false;
        }
      }
      if (fits) return;
    }
  }

  void relieve(const Group& group, const LoweredKernel& kernel) {
    for (TensorId id : kernel.recomputed) {
      if (request_.stored.insert(id).second) return;
    }
    for (std::size_t k = group.nodes.size(); k-- > 1;) {
      if (request_.separate.insert(graph_.node(group.nodes[k]).output()).second) return;
    }
    // A single node with many inputs: what it reads through views gets a place.
    const std::function<bool(TensorId)> store_view = [&](TensorId id) {
      const Node& n = graph_.producer(id);
      if (!is_transparent(n.op) || op_class(n.op) == OpClass::Generated) return false;
      if (n.inputs.size() > 1 && request_.stored.insert(id).second) return true;
      return std::any_of(n.inputs.begin(), n.inputs.end(), store_view);
    };
    for (TensorId input : graph_.node(group.nodes.front()).inputs) {
      if (store_view(input)) return;
    }
    throw DeviceError(
        "The kernel " + kernel.kernel.name + " needs " +
        std::to_string(kernel.kernel.bindings.size()) + " buffers, but " + plan_.target.name +
        " binds at most " + std::to_string(plan_.target.max_bindings) +
        ". Join fewer tensors at once.\n  at " + graph_.node(group.nodes.front()).site.to_string());
  }

  void one_kernel_a_node() {
    fusion_.realised.assign(static_cast<std::size_t>(graph_.tensor_count()), true);
    fusion_.group_of.assign(graph_.nodes().size(), -1);
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes().size()); ++id) {
      const Node& node = graph_.node(id);
      if (op_class(node.op) == OpClass::Input || op_class(node.op) == OpClass::Update) continue;
      lowered_.push_back(node_kernel(id));
    }
  }

  LoweredKernel node_kernel(NodeId id) {
    const Node& node = graph_.node(id);
    LoweredKernel k;
    k.kernel.name = to_string(node.op);
    k.kernel.phase = node.phase;
    k.kernel.nodes = {id};
    const auto bind = [&](TensorId tensor, bool written) {
      Binding b;
      b.elements = graph_.type(tensor).shape.size();
      b.dtype = graph_.type(tensor).dtype;
      b.read = !written;
      b.written = written;
      k.kernel.bindings.push_back(b);
      k.tensors.push_back(tensor);
    };
    for (TensorId input : node.inputs) bind(input, false);
    for (TensorId output : node.outputs) bind(output, true);
    return k;
  }

  void set(Binding& binding, const Place& place) const {
    binding.buffer = place.buffer;
    binding.offset = place.offset;
  }

  void append_copies() {
    std::size_t moved = 0;
    for (const Copy& copy : copies_) {
      LoweredKernel k;
      if (copy.source >= 0) {
        k = lower_copy(graph_, fusion_, copy.source);
      } else {  // the second half of a write-back that went through a buffer
        const Place& from = moved_[moved++];
        Kernel& kernel = k.kernel;
        const std::int64_t n = from.type.shape.size();
        kernel.vars = {{n}};
        kernel.outer_count = 1;
        Binding read, written;
        read.elements = written.elements = n;
        read.dtype = written.dtype = from.type.dtype;
        read.read = written.written = true;
        set(read, from);
        kernel.bindings = {read, written};
        k.tensors = {-1, -1};
        Expr load{Expr::Kind::Load};
        load.dtype = from.type.dtype;
        load.binding = 0;
        load.index = Index::var(0, n);
        kernel.exprs = {load};
        kernel.stores = {{1, Index::var(0, n), 0, false}};
      }
      k.kernel.phase = copy.phase;
      k.kernel.name = "copy";
      set(k.kernel.bindings.back(), copy.destination);
      lowered_.push_back(std::move(k));
    }
  }

  void append_updates() {
    if (updates_.empty()) return;
    if (!plan_.target.fuse) {
      for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes().size()); ++id) {
        const Node& node = graph_.node(id);
        if (op_class(node.op) != OpClass::Update) continue;
        LoweredKernel k = node_kernel(id);
        // Outputs land where the inputs they replace live.
        std::size_t output = node.inputs.size();
        for (TensorId out : node.outputs) {
          for (const WriteBack& wb : graph_.write_backs) {
            if (wb.value != out) continue;
            k.tensors[output] = -1;
            set(k.kernel.bindings[output], plan_.places.at(wb.destination));
          }
          ++output;
        }
        lowered_.push_back(std::move(k));
      }
      return;
    }
    const Node& first = *updates_.front();
    const auto& attrs = std::get<UpdateAttr>(first.attrs);
    const Place scalars = plan_.inputs.at("optimizer.scalars");
    Place norm;
    if (attrs.max_norm > 0) norm = append_norm();
    std::vector<NodeId> nodes;
    for (const Node* node : updates_) nodes.push_back(graph_.tensor(node->output()).producer);
    for (std::size_t s = 0; s < layout_.segments.size(); ++s) {
      const auto& segment = layout_.segments[s];
      if (segment.updated == 0) continue;
      LoweredKernel k = lower_update(first.op, attrs, {segment.updated, segment.decayed});
      std::size_t b = 0;
      const auto next = [&](const Place& place) { set(k.kernel.bindings[b++], place); };
      next({param_buffer(s), 0, {}});
      next({gradient_arena_[s], 0, {}});
      for (const auto& arena : moment_arenas_) next({arena[s], 0, {}});
      next(scalars);
      if (attrs.max_norm > 0) next(norm);
      k.kernel.nodes = nodes;
      lowered_.push_back(std::move(k));
    }
  }

  int param_buffer(std::size_t segment) const {
    for (const auto& [name, slot] : layout_.slots) {
      if (slot.segment == static_cast<int>(segment)) return plan_.params.at(name).buffer;
    }
    return -1;
  }

  Place append_norm() {
    std::vector<std::int64_t> parts;
    std::int64_t total = 0;
    for (const auto& segment : layout_.segments) {
      // On a GPU enough pieces to keep it busy; on a CPU the executor splits by itself.
      const std::int64_t pieces = plan_.target.passes.parallelism > 8
                                      ? std::clamp<std::int64_t>(segment.updated / 2048, 1, 1024)
                                      : 1;
      parts.push_back(segment.updated == 0 ? 0 : pieces);
      total += parts.back();
    }
    NodeId norm_node = -1;
    for (const Node& node : graph_.nodes()) {
      if (node.op == OpKind::GlobalNorm) norm_node = graph_.tensor(node.output()).producer;
    }
    const int sums = add_buffer("norm.partial", BufferRole::Temp, arena_round(total));
    const Place norm{add_buffer("norm", BufferRole::Temp, 1), 0, {}};
    // Partial sums of several segments lie side by side, each written through the whole buffer.
    std::int64_t at = 0;
    for (std::size_t s = 0; s < layout_.segments.size(); ++s) {
      if (parts[s] == 0) continue;
      LoweredKernel k = lower_norm_partial(layout_.segments[s].updated, parts[s]);
      set(k.kernel.bindings[0], {gradient_arena_[s], 0, {}});
      set(k.kernel.bindings[1], {sums, 0, {}});
      k.kernel.bindings[1].elements = total;
      k.kernel.stores[0].index = k.kernel.stores[0].index + at;
      k.kernel.nodes = {norm_node};
      at += parts[s];
      lowered_.push_back(std::move(k));
    }
    LoweredKernel k = lower_norm_final(total);
    set(k.kernel.bindings[0], {sums, 0, {}});
    set(k.kernel.bindings[1], norm);
    k.kernel.nodes = {norm_node};
    lowered_.push_back(std::move(k));
    return norm;
  }

  // ---- temporaries

  void place_temps() {
    std::stable_sort(lowered_.begin(), lowered_.end(),
                     [](const LoweredKernel& a, const LoweredKernel& b) {
                       return a.kernel.phase < b.kernel.phase;
                     });
    std::map<TensorId, Lifetime> alive;
    for (std::size_t k = 0; k < lowered_.size(); ++k) {
      for (TensorId id : lowered_[k].tensors) {
        if (id < 0 || plan_.places.count(id)) continue;
        auto [it, fresh] = alive.try_emplace(
            id,
            Lifetime{id, graph_.type(id).shape.size(), static_cast<int>(k), static_cast<int>(k)});
        if (!fresh) it->second.last = static_cast<int>(k);
      }
    }
    for (auto& [id, lifetime] : alive) lifetime.replaces = replaced_by(id, lifetime.first, alive);
    std::vector<Lifetime> lifetimes;
    for (const auto& [id, lifetime] : alive) lifetimes.push_back(lifetime);
    const bool whole = plan_.target.whole_buffers;
    const TempPlan temps = whole ? assign_whole_buffers(lifetimes) : assign_offsets(lifetimes);
    std::vector<int> buffers;
    for (std::size_t b = 0; b < temps.buffers.size(); ++b) {
      buffers.push_back(add_buffer(segment_name("temps", b, temps.buffers.size()), BufferRole::Temp,
                                   temps.buffers[b]));
    }
    for (std::size_t i = 0; i < lifetimes.size(); ++i) {
      place(lifetimes[i].tensor, buffers[static_cast<std::size_t>(temps.places[i].first)],
            temps.places[i].second);
    }
  }

  /// A temporary that kernel k reads for the last time, only at the points where it writes `id`.
  TensorId replaced_by(TensorId id, int k, const std::map<TensorId, Lifetime>& alive) const {
    const LoweredKernel& lowered = lowered_[static_cast<std::size_t>(k)];
    const Kernel& kernel = lowered.kernel;
    const auto store = std::find_if(
        kernel.stores.begin(), kernel.stores.end(),
        [&](const Store& s) { return lowered.tensors[static_cast<std::size_t>(s.binding)] == id; });
    if (store == kernel.stores.end()) return -1;
    // Where threads share an outer point, one would overwrite what others have yet to read.
    const bool shared_points =
        static_cast<int>(kernel.vars.size()) > kernel.outer_count && !kernel.matmul;
    if (shared_points && !store->inner) return -1;
    for (std::size_t b = 0; b < lowered.tensors.size(); ++b) {
      const auto other = alive.find(lowered.tensors[b]);
      if (other == alive.end() || !kernel.bindings[b].read || other->second.last != k ||
          other->second.first == k || other->second.elements != graph_.type(id).shape.size() ||
          kernel.bindings[b].dtype != graph_.type(id).dtype)
        continue;
      const bool same_points =
          std::all_of(kernel.exprs.begin(), kernel.exprs.end(), [&](const Expr& e) {
            return e.kind != Expr::Kind::Load || e.binding != static_cast<int>(b) ||
                   (e.index == store->index && e.inner == store->inner);
          });
      if (same_points) return other->first;
    }
    return -1;
  }

  void finish(LoweredKernel& lowered) {
    Kernel& kernel = lowered.kernel;
    for (std::size_t b = 0; b < lowered.tensors.size(); ++b) {
      if (lowered.tensors[b] >= 0) set(kernel.bindings[b], plan_.places.at(lowered.tensors[b]));
    }
    // What is read and written in place is one binding.
    for (Store& s : kernel.stores) {
      Binding& written = kernel.bindings[static_cast<std::size_t>(s.binding)];
      for (std::size_t b = 0; b < kernel.bindings.size(); ++b) {
        const Binding& read = kernel.bindings[b];
        if (read.written || read.buffer != written.buffer || read.offset != written.offset)
          continue;
        for (Expr& e : kernel.exprs) {
          if (e.kind == Expr::Kind::Load && e.binding == static_cast<int>(b)) e.binding = s.binding;
        }
        written.read = true;
        drop_binding(kernel, b);
        break;
      }
    }
    plan_.kernels.push_back(std::move(kernel));
  }

  void name_results() {
    for (const BufferSpec& buffer : plan_.buffers) {
      if (buffer.external || buffer.bytes <= plan_.target.max_binding_bytes) continue;
      throw DeviceError("The buffer \"" + buffer.name + "\" needs " + std::to_string(buffer.bytes) +
                        " bytes, but " + plan_.target.name + " binds at most " +
                        std::to_string(plan_.target.max_binding_bytes) +
                        ". Use a smaller batch or another device.");
    }
  }

  const Graph& graph_;
  const std::map<std::string, SharedParam>& shared_;
  Plan plan_;
  ArenaLayout layout_;
  std::vector<int> gradient_arena_;              // by segment
  std::vector<std::vector<int>> moment_arenas_;  // by moment and segment
  std::vector<const Node*> updates_;
  FusionRequest request_;
  Fusion fusion_;
  std::vector<Copy> copies_;
  std::vector<Place> moved_;
  std::vector<LoweredKernel> lowered_;
};

}  // namespace

Plan plan(std::shared_ptr<const Graph> graph, const Target& target,
          const std::map<std::string, SharedParam>& shared) {
  return Planner(std::move(graph), target, shared).run();
}

}  // namespace tensorgrad
