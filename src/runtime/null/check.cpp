// What a kernel promises, checked by the ranges of its index maps.
#include <algorithm>
#include <functional>

#include "runtime/null/null.hpp"

namespace tensorgrad {

namespace {

class Checker {
 public:
  Checker(const Plan& plan, const Kernel& kernel) : plan_(plan), kernel_(kernel) {}

  void run() {
    check_bindings();
    if (kernel_.special) {
      for (const StridedOperand& operand : kernel_.special->inputs) check_operand(operand, false);
      for (const StridedOperand& operand : kernel_.special->outputs) check_operand(operand, true);
      check_aliases();
      return;
    }
    check_space();
    for (std::size_t id = 0; id < kernel_.exprs.size(); ++id) check_expr(static_cast<ExprId>(id));
    for (std::size_t s = 0; s < kernel_.stores.size(); ++s) check_store(s);
    check_aliases();
    check_hints();
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InternalError("kernel " + kernel_.name + ": " + what + "\n" + kernel_.to_string());
  }
  void require(bool holds, const std::string& what) const {
    if (!holds) fail(what);
  }
  const Expr& expr(ExprId id) const { return kernel_.exprs[static_cast<std::size_t>(id)]; }
  static std::string name(ExprId id) { return "e" + std::to_string(id); }
  static std::string binding_name(int id) { return "b" + std::to_string(id); }

  // ---- space and bindings

  void check_space() const {
    const auto count = static_cast<int>(kernel_.vars.size());
    require(kernel_.outer_count >= 0 && kernel_.outer_count <= count,
            "has more outer variables than variables");
    for (const KernelVar& v : kernel_.vars)
      require(v.extent >= 0, "has a variable of negative extent");
    require(!kernel_.stores.empty(), "stores nothing");
  }

  void check_bindings() const {
    if (static_cast<int>(kernel_.bindings.size()) > plan_.target.max_bindings) {
      throw DeviceError("kernel " + kernel_.name + " binds " +
                        std::to_string(kernel_.bindings.size()) + " buffers; " + plan_.target.name +
                        " allows " + std::to_string(plan_.target.max_bindings) + ".");
    }
    for (std::size_t k = 0; k < kernel_.bindings.size(); ++k) {
      const Binding& b = kernel_.bindings[k];
      const std::string who = binding_name(static_cast<int>(k));
      require(b.buffer >= 0 && static_cast<std::size_t>(b.buffer) < plan_.buffers.size(),
              who + " names a buffer that the plan does not have");
      const BufferSpec& buffer = plan_.buffers[static_cast<std::size_t>(b.buffer)];
      require(b.offset >= 0 && b.elements >= 0 &&
                  (b.offset + b.elements) * plan_.target.element_bytes <= buffer.bytes,
              who + " does not lie inside buffer " + buffer.name);
      require(b.offset * plan_.target.element_bytes % plan_.target.alignment == 0,
              who + " does not start at a multiple of " + std::to_string(plan_.target.alignment) +
                  " bytes");
      require(b.elements * plan_.target.element_bytes <= plan_.target.max_binding_bytes,
              who + " is larger than the target can bind");
      require(b.read || b.written, who + " is neither read nor written");
    }
  }

  void check_operand(const StridedOperand& operand, bool written) const {
    if (written && operand.binding < 0) return;  // nobody reads it
    require(
        operand.binding >= 0 && static_cast<std::size_t>(operand.binding) < kernel_.bindings.size(),
        "an operand has no binding");
    const std::string who = binding_name(operand.binding);
    const Binding& b = kernel_.bindings[static_cast<std::size_t>(operand.binding)];
    require(b.dtype == operand.type.dtype && (written ? b.written : b.read),
            who + " does not fit the operand that uses it");
    std::int64_t low = operand.offset, high = operand.offset;
    for (int axis = 0; axis < operand.type.shape.rank(); ++axis) {
      const std::int64_t reach =
          operand.strides.at(static_cast<std::size_t>(axis)) * (operand.type.shape[axis] - 1);
      (reach < 0 ? low : high) += reach;
    }
    require(low >= 0 && high < b.elements, who + " is indexed outside its range");
  }

  /// One buffer read through one binding and written through another that overlaps it.
  void check_aliases() const {
    for (std::size_t i = 0; i < kernel_.bindings.size(); ++i) {
      for (std::size_t j = 0; j < kernel_.bindings.size(); ++j) {
        const Binding &a = kernel_.bindings[i], &b = kernel_.bindings[j];
        if (i == j || a.buffer != b.buffer || !a.written) continue;
        const std::string both =
            binding_name(static_cast<int>(i)) + " and " + binding_name(static_cast<int>(j));
        require(a.offset >= b.offset + b.elements || b.offset >= a.offset + a.elements,
                both + " overlap, and the first is written");
        require(
            !plan_.target.whole_buffers || b.written,
            both + " are of one buffer, one to write and one to read, which the target forbids");
      }
    }
    for (const Store& s : kernel_.stores) {
      if (!kernel_.bindings[static_cast<std::size_t>(s.binding)].read) continue;
      // In place: each point may read only the element that it writes.
      for (std::size_t id = 0; id < kernel_.exprs.size(); ++id) {
        const Expr& e = kernel_.exprs[id];
        if (e.kind != Expr::Kind::Load || e.binding != s.binding) continue;
        require(e.index == s.index, name(static_cast<ExprId>(id)) + " reads " +
                                        binding_name(s.binding) +
                                        " elsewhere than where it is written");
      }
    }
  }

  // ---- expressions

  bool varies(const Index& index) const {
    for (std::size_t v = static_cast<std::size_t>(kernel_.outer_count); v < kernel_.vars.size();
         ++v) {
      if (index.uses_var(static_cast<int>(v))) return true;
    }
    bool found = false;
    for_each_data(index, [&](ExprId id) { found |= expr(id).inner; });
    return found;
  }

  static void for_each_data(const Index& index, const std::function<void(ExprId)>& visit) {
    for (const Index::Term& t : index.terms()) {
      if (t.atom->kind == IndexAtom::Kind::Data) visit(t.atom->id);
      if (t.atom->arg) for_each_data(*t.atom->arg, visit);
    }
  }

  /// Variables and values that an index of expression `user` may mention, with ranges that are
  /// theirs.
  void check_index(const Index& index, ExprId user) const {
    for (const Index::Term& t : index.terms()) {
      const IndexAtom& atom = *t.atom;
      switch (atom.kind) {
        case IndexAtom::Kind::Var:
          require(atom.id >= 0 && static_cast<std::size_t>(atom.id) < kernel_.vars.size(),
                  index.to_string() + " uses a variable that the kernel does not have");
          require(
              atom.low == 0 &&
                  atom.high == kernel_.vars[static_cast<std::size_t>(atom.id)].extent - 1,
              index.to_string() + " takes i" + std::to_string(atom.id) + " to have another extent");
          break;
        case IndexAtom::Kind::Data:
          require(atom.id >= 0 && atom.id < user,
                  index.to_string() + " uses a value that is not known yet");
          require(expr(atom.id).dtype == DType::I32,
                  index.to_string() + " uses a value that is no i32");
          break;
        case IndexAtom::Kind::Div:
        case IndexAtom::Kind::Mod:
          require(atom.divisor > 0, index.to_string() + " divides by nothing");
          check_index(*atom.arg, user);
          break;
      }
    }
  }

  void check_guards(const Expr& e, ExprId id) const {
    for (const Guard& g : e.guards) {
      check_index(g.index, id);
      require(g.low < g.high && g.modulus >= 1, name(id) + " has a guard that never holds");
      require(!g.indirect || g.index.uses_data(),
              name(id) + " has an indirect guard on an index that is no data");
    }
  }

  bool guards_vary(const Expr& e) const {
    return std::any_of(e.guards.begin(), e.guards.end(),
                       [&](const Guard& g) { return varies(g.index); });
  }

  /// The range of an index where the guards hold: where a guard speaks of the same map up to a
  /// constant, or of data that the index uses, its bounds count.
  void check_range(const Index& index, const std::vector<Guard>& guards, std::int64_t elements,
                   const std::string& what) const {
    bool unguarded = true;
    for (const Guard& g : guards) {
      if (!g.indirect) unguarded = false;
    }
    for_each_data(index, [&](ExprId id) {
      const bool guarded = std::any_of(guards.begin(), guards.end(), [&](const Guard& g) {
        bool speaks = false;
        for_each_data(g.index, [&](ExprId other) { speaks |= other == id; });
        return speaks && g.indirect;
      });
      require(guarded, what + " is not guarded though its index is data");
    });
    // Where guards cut the space, the ends of the range may lie outside: the rest is for the
    // evaluator.
    if (!unguarded) return;
    require(index.low() >= 0 && index.high() < elements,
            what + " runs from " + std::to_string(index.low()) + " to " +
                std::to_string(index.high()) + " in " + std::to_string(elements) + " elements");
  }

  void check_expr(ExprId id) const {
    const Expr& e = expr(id);
    for (ExprId arg : e.args)
      require(arg >= 0 && arg < id, name(id) + " uses an expression that is not known yet");
    bool inner = false;
    switch (e.kind) {
      case Expr::Kind::Const:
        break;
      case Expr::Kind::Position:
        check_index(e.index, id);
        inner = varies(e.index);
        break;
      case Expr::Kind::Load: {
        require(e.binding >= 0 && static_cast<std::size_t>(e.binding) < kernel_.bindings.size(),
                name(id) + " loads from a binding that is not there");
        const Binding& b = kernel_.bindings[static_cast<std::size_t>(e.binding)];
        require(b.read, name(id) + " loads from " + binding_name(e.binding) +
                            ", which is not marked as read");
        require(b.dtype == e.dtype,
                name(id) + " loads another dtype than " + binding_name(e.binding) + " has");
        check_index(e.index, id);
        check_guards(e, id);
        if (points() > 0) check_range(e.index, e.guards, b.elements, name(id));
        inner = varies(e.index) || guards_vary(e);
        break;
      }
      case Expr::Kind::Test:
        require(e.dtype == DType::Bool, name(id) + " is a test but no bool");
        check_guards(e, id);
        inner = guards_vary(e);
        break;
      case Expr::Kind::Op: {
        require(op_class(e.op) == OpClass::Elementwise, name(id) + " is no elementwise op");
        require(static_cast<int>(e.args.size()) == op_arity(e.op),
                name(id) + " has the wrong number of arguments");
        for (ExprId arg : e.args) inner |= expr(arg).inner;
        check_op_types(e, id);
        break;
      }
      case Expr::Kind::Reduce:
        require(e.args.size() == 1, name(id) + " reduces more than one expression");
        require(!e.inner, name(id) + " is a reduction but marked as inner");
        return;
    }
    require(e.inner == inner,
            name(id) + (inner ? " varies along a row but is not marked so"
                              : " is marked as inner but does not vary along a row"));
  }

  void check_op_types(const Expr& e, ExprId id) const {
    const DType first = expr(e.args[0]).dtype;
    const std::string who = name(id);
    switch (e.op) {
      case OpKind::Cast:
        return;
      case OpKind::Where:
        require(first == DType::Bool && expr(e.args[1]).dtype == e.dtype &&
                    expr(e.args[2]).dtype == e.dtype,
                who + " selects between values of different dtypes");
        return;
      case OpKind::Random:
        for (ExprId arg : e.args) {
          require(expr(arg).dtype == DType::I32 && e.dtype == DType::F32,
                  who + " does not make f32 of i32");
        }
        return;
      case OpKind::Less:
      case OpKind::LessEqual:
      case OpKind::Equal:
        require(e.dtype == DType::Bool && expr(e.args[1]).dtype == first,
                who + " compares different dtypes");
        return;
      default:
        for (ExprId arg : e.args) require(expr(arg).dtype == e.dtype, who + " mixes dtypes");
        return;
    }
  }

  std::int64_t points() const { return kernel_.outer_size() * kernel_.inner_size(); }

  void check_store(std::size_t at) const {
    const Store& s = kernel_.stores[at];
    const std::string who = "store " + std::to_string(at);
    const auto end = static_cast<ExprId>(kernel_.exprs.size());
    require(s.value >= 0 && s.value < end, who + " has no value");
    require(s.binding >= 0 && static_cast<std::size_t>(s.binding) < kernel_.bindings.size(),
            who + " goes to a binding that is not there");
    const Binding& b = kernel_.bindings[static_cast<std::size_t>(s.binding)];
    require(b.written,
            who + " goes to " + binding_name(s.binding) + ", which is not marked as written");
    require(b.dtype == expr(s.value).dtype,
            who + " puts another dtype than " + binding_name(s.binding) + " has");
    check_index(s.index, end);
    require(!s.index.uses_data(), who + " goes where data say");
    require(s.inner == (varies(s.index) || expr(s.value).inner),
            who + " says wrongly whether it is inner");
    const std::int64_t needed = s.inner ? points() : kernel_.outer_size();
    if (needed > 0) check_range(s.index, {}, b.elements, who);
    require(needed <= b.elements,
            who + " puts more elements than " + binding_name(s.binding) + " has");
  }

  // ---- hints

  void check_hints() const {
    const auto exists = [&](ExprId id) {
      return id >= 0 && static_cast<std::size_t>(id) < kernel_.exprs.size();
    };
    if (kernel_.matmul) {
      const MatMulHint& h = *kernel_.matmul;
      require(exists(h.lhs) && exists(h.rhs) && exists(h.acc),
              "its matmul hint names no expressions");
      require(static_cast<int>(kernel_.vars.size()) == kernel_.outer_count + 1 &&
                  kernel_.outer_count >= 2,
              "has a matmul hint but not the variables of a product");
      for (ExprId id : {h.lhs, h.rhs}) {
        require(expr(id).kind == Expr::Kind::Load && expr(id).guards.empty() &&
                    expr(id).index.is_affine(),
                name(id) + " is no plain operand of a product");
      }
      require(expr(h.acc).kind == Expr::Kind::Reduce && expr(h.acc).reduce == ReduceKind::Sum,
              name(h.acc) + " is no sum of products");
    }
    if (kernel_.scatter) {
      const ScatterHint& h = *kernel_.scatter;
      require(exists(h.sum) && exists(h.indices) && exists(h.source),
              "its scatter hint names no expressions");
      require(static_cast<int>(kernel_.vars.size()) == kernel_.outer_count + 1,
              "has a scatter hint but not one inner variable");
      require(h.row_var >= 0 && h.row_var < kernel_.outer_count,
              "its scatter hint names no outer variable");
      require(expr(h.indices).dtype == DType::I32 && expr(h.sum).kind == Expr::Kind::Reduce,
              "its scatter hint does not fit");
    }
  }

  const Plan& plan_;
  const Kernel& kernel_;
};

}  // namespace

void check_kernels(const Plan& plan) {
  for (const Kernel& kernel : plan.kernels) Checker(plan, kernel).run();
}

}  // namespace tensorgrad
