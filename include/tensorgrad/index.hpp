// Quasi-affine index maps: sums of multiples of iteration variables, of quotients and remainders by
// constants, and of values that are data. Views in the graph become these; codegen prints them.
//
// An Index is kept in normal form (terms sorted and merged, quotients and remainders simplified by
// the known ranges), so that equal maps have equal text.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tensorgrad {

class Index;

/// What an index is a sum of.
struct IndexAtom {
  enum class Kind : std::uint8_t {
    Var,   ///< iteration variable `id`
    Div,   ///< floor(arg / divisor)
    Mod,   ///< arg − divisor·floor(arg / divisor)
    Data,  ///< the i32 value of kernel expression `id`
  };
  Kind kind;
  int id = -1;
  std::shared_ptr<const Index> arg;
  std::int64_t divisor = 1;
  std::int64_t low = 0, high = 0;  ///< the range of its values, both ends included
  std::string key;                 ///< its text, which identifies it
};

class Index {
 public:
  struct Term {
    std::int64_t coefficient;
    std::shared_ptr<const IndexAtom> atom;
  };

  Index(std::int64_t constant = 0) : constant_(constant) {}  // NOLINT: implicit on purpose
  /// Iteration variable `id`, which runs over [0, extent). A variable of extent 1 is 0.
  static Index var(int id, std::int64_t extent);
  /// The value of a kernel expression, promised to lie in [0, extent).
  static Index data(int expr, std::int64_t extent);
  static Index single(const std::shared_ptr<const IndexAtom>& atom);

  const std::vector<Term>& terms() const { return terms_; }
  std::int64_t constant() const { return constant_; }
  std::int64_t low() const;
  std::int64_t high() const;
  bool is_constant() const { return terms_.empty(); }
  /// Whether variable `id` occurs anywhere in it.
  bool uses_var(int id) const;
  bool uses_data() const;
  /// If it is a sum of multiples of plain variables: the multiple of variable `id`.
  bool is_affine() const;
  std::int64_t stride(int id) const;

  Index operator+(const Index& other) const;
  Index operator-(const Index& other) const { return *this + other * -1; }
  Index operator*(std::int64_t factor) const;
  Index div(std::int64_t divisor) const;
  Index mod(std::int64_t divisor) const;

  /// The same map with every variable replaced, simplified anew.
  Index substitute(const std::function<Index(int var)>& replacement) const;

  friend bool operator==(const Index& a, const Index& b) { return a.to_string() == b.to_string(); }
  /// `64*i0 + i1/4`, for people and as a key.
  std::string to_string() const;

 private:
  void add_term(std::int64_t coefficient, const std::shared_ptr<const IndexAtom>& atom);
  void recombine();
  std::vector<Term> terms_;
  std::int64_t constant_ = 0;
};

}  // namespace tensorgrad
