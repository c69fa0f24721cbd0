// Arithmetic and simplification of index maps.
#include "tensorgrad/index.hpp"

#include <algorithm>
#include <numeric>

namespace tensorgrad {

namespace {

std::int64_t floor_div(std::int64_t a, std::int64_t b) {  // b > 0
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

std::int64_t floor_mod(std::int64_t a, std::int64_t b) { return a - b * floor_div(a, b); }

std::shared_ptr<const IndexAtom> quotient(const Index& arg, std::int64_t divisor) {
  auto atom = std::make_shared<IndexAtom>();
  atom->kind = IndexAtom::Kind::Div;
  atom->arg = std::make_shared<Index>(arg);
  atom->divisor = divisor;
  atom->low = floor_div(arg.low(), divisor);
  atom->high = floor_div(arg.high(), divisor);
  atom->key = "(" + arg.to_string() + ")/" + std::to_string(divisor);
  return atom;
}

std::shared_ptr<const IndexAtom> remainder(const Index& arg, std::int64_t divisor) {
  auto atom = std::make_shared<IndexAtom>();
  atom->kind = IndexAtom::Kind::Mod;
  atom->arg = std::make_shared<Index>(arg);
  atom->divisor = divisor;
  atom->low = 0;
  atom->high = divisor - 1;
  atom->key = "(" + arg.to_string() + ")%" + std::to_string(divisor);
  return atom;
}

/// x = factor·high + low with 0 ≤ low < factor, where factor divides `divisor`: then the low part
/// takes no part in a division. factor is 1 if there is no such split.
struct LowSplit {
  std::int64_t factor = 1;
  Index high, low;
};

LowSplit split_low_part(const Index& x, std::int64_t divisor) {
  LowSplit best;
  for (const Index::Term& candidate : x.terms()) {
    const std::int64_t factor =
        candidate.coefficient < 0 ? -candidate.coefficient : candidate.coefficient;
    if (factor <= best.factor || divisor % factor != 0) continue;
    LowSplit split{factor, floor_div(x.constant(), factor), floor_mod(x.constant(), factor)};
    for (const Index::Term& t : x.terms()) {
      Index term = Index::single(t.atom);
      if (t.coefficient % factor == 0) {
        split.high = split.high + term * (t.coefficient / factor);
      } else {
        split.low = split.low + term * t.coefficient;
      }
    }
    if (split.low.low() >= 0 && split.low.high() < factor) best = std::move(split);
  }
  return best;
}

}  // namespace

Index Index::single(const std::shared_ptr<const IndexAtom>& atom) {
  Index index;
  index.add_term(1, atom);
  return index;
}

Index Index::var(int id, std::int64_t extent) {
  if (extent == 1) return 0;
  auto atom = std::make_shared<IndexAtom>();
  atom->kind = IndexAtom::Kind::Var;
  atom->id = id;
  atom->high = extent - 1;
  atom->key = "i" + std::to_string(id);
  Index index;
  index.add_term(1, atom);
  return index;
}

Index Index::data(int expr, std::int64_t extent) {
  auto atom = std::make_shared<IndexAtom>();
  atom->kind = IndexAtom::Kind::Data;
  atom->id = expr;
  atom->high = extent - 1;
  atom->key = "[e" + std::to_string(expr) + "]";
  Index index;
  index.add_term(1, atom);
  return index;
}

std::int64_t Index::low() const {
  std::int64_t sum = constant_;
  for (const Term& t : terms_)
    sum += t.coefficient * (t.coefficient > 0 ? t.atom->low : t.atom->high);
  return sum;
}

std::int64_t Index::high() const {
  std::int64_t sum = constant_;
  for (const Term& t : terms_)
    sum += t.coefficient * (t.coefficient > 0 ? t.atom->high : t.atom->low);
  return sum;
}

bool Index::uses_var(int id) const {
  return std::any_of(terms_.begin(), terms_.end(), [&](const Term& t) {
    if (t.atom->kind == IndexAtom::Kind::Var) return t.atom->id == id;
    return t.atom->arg && t.atom->arg->uses_var(id);
  });
}

bool Index::uses_data() const {
  return std::any_of(terms_.begin(), terms_.end(), [&](const Term& t) {
    return t.atom->kind == IndexAtom::Kind::Data || (t.atom->arg && t.atom->arg->uses_data());
  });
}

bool Index::is_affine() const {
  return std::all_of(terms_.begin(), terms_.end(),
                     [](const Term& t) { return t.atom->kind == IndexAtom::Kind::Var; });
}

std::int64_t Index::stride(int id) const {
  for (const Term& t : terms_) {
    if (t.atom->kind == IndexAtom::Kind::Var && t.atom->id == id) return t.coefficient;
  }
  return 0;
}

void Index::add_term(std::int64_t coefficient, const std::shared_ptr<const IndexAtom>& atom) {
  if (coefficient == 0) return;
  const auto at =
      std::lower_bound(terms_.begin(), terms_.end(), atom->key,
                       [](const Term& t, const std::string& key) { return t.atom->key < key; });
  if (at != terms_.end() && at->atom->key == atom->key) {
    at->coefficient += coefficient;
    if (at->coefficient == 0) terms_.erase(at);
  } else {
    terms_.insert(at, {coefficient, atom});
  }
}

Index Index::operator+(const Index& other) const {
  Index sum = *this;
  sum.constant_ += other.constant_;
  for (const Term& t : other.terms_) sum.add_term(t.coefficient, t.atom);
  sum.recombine();
  return sum;
}

// c·m·(y/m) + c·(y%m) = c·y: what a reshape took apart, another puts together.
void Index::recombine() {
  for (bool changed = true; changed;) {
    changed = false;
    for (const Term& t : terms_) {
      if (t.atom->kind != IndexAtom::Kind::Mod) continue;
      const Index quotient = t.atom->arg->div(t.atom->divisor);
      if (quotient.terms_.size() != 1 || quotient.constant_ != 0 ||
          quotient.terms_[0].coefficient != 1)
        continue;
      const std::string& key = quotient.terms_[0].atom->key;
      const auto partner = std::find_if(terms_.begin(), terms_.end(), [&](const Term& o) {
        return o.atom->key == key && o.coefficient == t.coefficient * t.atom->divisor;
      });
      if (partner == terms_.end()) continue;
      const Term mod = t, div = *partner;
      add_term(-mod.coefficient, mod.atom);
      add_term(-div.coefficient, div.atom);
      constant_ += mod.coefficient * mod.atom->arg->constant_;
      for (const Term& inner : mod.atom->arg->terms_)
        add_term(mod.coefficient * inner.coefficient, inner.atom);
      changed = true;
      break;
    }
  }
}

Index Index::operator*(std::int64_t factor) const {
  Index product;
  if (factor == 0) return product;
  product = *this;
  product.constant_ *= factor;
  for (Term& t : product.terms_) t.coefficient *= factor;
  return product;
}

// floor((c·q + r)/c) = q + floor(r/c): what divides evenly leaves; the rest vanishes if it lies in
// [0, c), and is divided through by a common factor otherwise.
Index Index::div(std::int64_t divisor) const {
  if (divisor == 1) return *this;
  Index whole = floor_div(constant_, divisor), rest = floor_mod(constant_, divisor);
  std::int64_t common = divisor;
  for (const Term& t : terms_) {
    if (t.coefficient % divisor == 0) {
      whole.add_term(t.coefficient / divisor, t.atom);
    } else {
      rest.add_term(t.coefficient, t.atom);
      common = std::gcd(common, t.coefficient);
    }
  }
  if (rest.low() >= 0 && rest.high() < divisor) return whole;
  if (const auto split = split_low_part(rest, divisor); split.factor > 1) {
    return whole + split.high.div(divisor / split.factor);
  }
  if (common > 1) {
    // The constant's own remainder below the common factor never carries.
    Index smaller = floor_div(rest.constant_, common);
    for (const Term& t : rest.terms_) smaller.add_term(t.coefficient / common, t.atom);
    return whole + smaller.div(divisor / common);
  }
  for (const Term& t : rest.terms_) {  // (x/a + y)/b = (x + a·y)/(a·b)
    if (t.coefficient != 1 || t.atom->kind != IndexAtom::Kind::Div) continue;
    const IndexAtom& inner = *t.atom;
    Index others = rest;
    others.add_term(-1, t.atom);
    return whole + (*inner.arg + others * inner.divisor).div(inner.divisor * divisor);
  }
  whole.add_term(1, quotient(rest, divisor));
  return whole;
}

Index Index::mod(std::int64_t divisor) const {
  if (divisor == 1) return 0;
  Index rest = floor_mod(constant_, divisor);
  std::int64_t common = divisor;
  for (const Term& t : terms_) {
    if (t.coefficient % divisor == 0) continue;
    rest.add_term(t.coefficient, t.atom);
    common = std::gcd(common, t.coefficient);
  }
  if (rest.low() >= 0 && rest.high() < divisor) return rest;
  if (const auto split = split_low_part(rest, divisor); split.factor > 1) {
    return split.high.mod(divisor / split.factor) * split.factor + split.low;
  }
  if (common > 1 && rest.constant_ % common == 0) {
    Index smaller = rest.constant_ / common;
    for (const Term& t : rest.terms_) smaller.add_term(t.coefficient / common, t.atom);
    return smaller.mod(divisor / common) * common;
  }
  Index result;
  result.add_term(1, remainder(rest, divisor));
  return result;
}

Index Index::substitute(const std::function<Index(int)>& replacement) const {
  Index result = constant_;
  for (const Term& t : terms_) {
    switch (t.atom->kind) {
      case IndexAtom::Kind::Var:
        result = result + replacement(t.atom->id) * t.coefficient;
        break;
      case IndexAtom::Kind::Div:
        result = result + t.atom->arg->substitute(replacement).div(t.atom->divisor) * t.coefficient;
        break;
      case IndexAtom::Kind::Mod:
        result = result + t.atom->arg->substitute(replacement).mod(t.atom->divisor) * t.coefficient;
        break;
      case IndexAtom::Kind::Data:
        result.add_term(t.coefficient, t.atom);
        break;
    }
  }
  return result;
}

std::string Index::to_string() const {
  std::string text;
  for (const Term& t : terms_) {
    if (!text.empty()) text += " + ";
    if (t.coefficient != 1) text += std::to_string(t.coefficient) + "*";
    text += t.atom->key;
  }
  if (constant_ != 0 || text.empty())
    text += (text.empty() ? "" : " + ") + std::to_string(constant_);
  return text;
}

}  // namespace tensorgrad
