#include "codegen/wgsl/quads.hpp"

#include <algorithm>
#include <set>

namespace tensorgrad::wgsl {

bool Quads::starts(int binding, const Index& index) const {
  if (extent(var_) % 4 != 0 || !index.is_affine() || index.stride(var_) != 1) return false;
  if (module_.array(binding).as_bits) return false;
  if ((index.constant() + module_.array(binding).start) % 4 != 0) return false;
  return std::all_of(index.terms().begin(), index.terms().end(), [&](const Index::Term& t) {
    return t.atom->id == var_ || t.coefficient % 4 == 0;
  });
}

Index Quads::number(const Index& index) const {
  return index
      .substitute([&](int v) {
        return v == var_ ? Index::var(v, extent(v) / 4) * 4 : Index::var(v, extent(v));
      })
      .div(4);
}

std::string Quads::element(Body& body, int binding, const Index& index) const {
  const ArrayRef& ref = module_.array(binding);
  return ref.array + "[" + body.index(number(index + ref.start)) + "]";
}

int Quads::claim(const std::function<std::optional<bool>(ExprId)>& by_quads) {
  std::set<std::string> whole, broken;
  const auto touch = [&](int binding, bool quads) {
    (quads ? whole : broken).insert(module_.array(binding).array);
  };
  for (ExprId id = 0; id < static_cast<ExprId>(module_.kernel.exprs.size()); ++id) {
    const Expr& e = expr(id);
    if (e.kind != Expr::Kind::Load) continue;
    const std::optional<bool> known = by_quads ? by_quads(id) : std::nullopt;
    touch(e.binding, known ? *known
                           : e.dtype == DType::F32 && e.guards.empty() && !e.inner &&
                                 starts(e.binding, e.index));
  }
  for (const Store& s : module_.kernel.stores)
    touch(s.binding, expr(s.value).dtype == DType::F32 && starts(s.binding, s.index));
  int claimed = 0;
  for (std::size_t b = 0; b < module_.kernel.bindings.size(); ++b) {
    const std::string& array = module_.array(static_cast<int>(b)).array;
    if (!whole.count(array) || broken.count(array)) continue;
    module_.use_quads(array);
    ++claimed;
  }
  return claimed;
}

void Quads::print(Writer& out, const std::function<void(Body&, int lane)>& place,
                  const std::function<std::string(int lane)>& guard,
                  const std::map<ExprId, std::string>& known) {
  const Kernel& kernel = module_.kernel;
  Body quads(module_, out);
  place(quads, -1);
  std::vector<ExprId> needed;
  for (const Store& s : kernel.stores) {
    const std::vector<ExprId> ids = quads.needs(s);
    needed.insert(needed.end(), ids.begin(), ids.end());
  }
  std::vector<std::pair<ExprId, std::string>> loaded;
  for (ExprId id = 0; id < static_cast<ExprId>(kernel.exprs.size()); ++id) {
    const Expr& e = expr(id);
    if (e.kind != Expr::Kind::Load || e.inner || !module_.has_quads(e.binding)) continue;
    if (const auto found = known.find(id); found != known.end()) {
      loaded.push_back(*found);
      continue;
    }
    loaded.emplace_back(id, "quad" + std::to_string(id));
    out.line("let " + loaded.back().second + " = " + element(quads, e.binding, e.index) + ";",
             e.node);
  }
  std::vector<Body> lanes;
  for (int c = 0; c < 4; ++c) {
    Body& lane = lanes.emplace_back(module_, out);
    lane.set_suffix("_" + std::to_string(c));
    place(lane, c);
    for (const auto& [id, name] : loaded) lane.name(id, name + "[" + std::to_string(c) + "]");
    if (guard) out.open("if (" + guard(c) + ")");
    lane.compute(needed);
    for (const Store& s : kernel.stores) {
      if (!module_.has_quads(s.binding)) lane.store(s);
    }
    if (guard) out.close();
  }
  for (const Store& s : kernel.stores) {
    if (!module_.has_quads(s.binding)) continue;
    std::string values;
    for (Body& lane : lanes) values += (values.empty() ? "" : ", ") + lane.value(s.value);
    out.line(element(quads, s.binding, s.index) + " = vec4<f32>(" + values + ");",
             expr(s.value).node);
  }
}

}  // namespace tensorgrad::wgsl
