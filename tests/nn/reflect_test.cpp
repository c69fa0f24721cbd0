// What the walk over a plain struct visits, in which order and under which paths. What it refuses
// is in tests/nn/compile_fail.
#include <gtest/gtest.h>

#include <any>
#include <array>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tensorgrad/reflect.hpp>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace {

using tensorgrad::reflect::for_each_leaf;

/// Stands in for tensorgrad::Tensor: copyable, with constructors that invite every conversion.
class Tensor {
 public:
  Tensor() = default;
  Tensor(double value) : value_(value) {}
  Tensor(const std::string& name, int value = 0) : value_(value), name_(name) {}
  Tensor(std::initializer_list<double> values) : value_(values.size() ? *values.begin() : 0) {}
  template <class T>
  Tensor(const std::vector<T>& values) : value_(double(values.size())) {}

  double value() const { return value_; }
  void set(double value) { value_ = value; }

 private:
  double value_ = 0;
  std::string name_;
};

using Paths = std::vector<std::string>;

/// The paths, after a check that a const walk gives the same ones in the same order.
template <class Model>
Paths paths(Model& model) {
  Paths found, found_const;
  for_each_leaf<Tensor>(model,
                        [&](const std::string& path, const Tensor&) { found.push_back(path); });
  for_each_leaf<Tensor>(std::as_const(model), [&](const std::string& path, auto& leaf) {
    static_assert(std::is_same_v<decltype(leaf), const Tensor&>);
    found_const.push_back(path);
  });
  EXPECT_EQ(found, found_const);
  return found;
}

// ---- Aggregates ----

struct Linear {
  Tensor W, b;
};

struct Attention {
  Linear q, k, v;
  int heads = 4;
};

struct Block {
  Attention attn;
  Tensor scale = 1.0;
};

struct Transformer {
  Tensor embedding;
  std::vector<Block> layers;
  Linear head;
};

TEST(Reflect, NestedStructsGivePathsInTheOrderOfDeclaration) {
  Transformer model;
  model.layers.resize(2);
  EXPECT_EQ(
      paths(model),
      (Paths{"embedding", "layers.0.attn.q.W", "layers.0.attn.q.b", "layers.0.attn.k.W",
             "layers.0.attn.k.b", "layers.0.attn.v.W", "layers.0.attn.v.b", "layers.0.scale",
             "layers.1.attn.q.W", "layers.1.attn.q.b", "layers.1.attn.k.W", "layers.1.attn.k.b",
             "layers.1.attn.v.W", "layers.1.attn.v.b", "layers.1.scale", "head.W", "head.b"}));
}

TEST(Reflect, ALeafAsTheModelHasAnEmptyPath) {
  Tensor model;
  EXPECT_EQ(paths(model), Paths{""});
}

TEST(Reflect, AContainerAsTheModelBeginsThePath) {
  std::vector<Linear> model(2);
  EXPECT_EQ(paths(model), (Paths{"0.W", "0.b", "1.W", "1.b"}));
}

TEST(Reflect, TheLeafVisitedIsTheMemberItself) {
  Transformer model;
  model.layers.resize(1);
  std::map<std::string, const Tensor*> found;
  for_each_leaf<Tensor>(model, [&](const std::string& path, Tensor& leaf) { found[path] = &leaf; });
  EXPECT_EQ(found.at("embedding"), &model.embedding);
  EXPECT_EQ(found.at("layers.0.attn.k.b"), &model.layers[0].attn.k.b);
  EXPECT_EQ(found.at("layers.0.scale"), &model.layers[0].scale);
  EXPECT_EQ(found.at("head.W"), &model.head.W);
}

TEST(Reflect, ChangesMadeByTheVisitorStay) {
  Transformer model;
  model.layers.resize(1);
  double next = 1;
  for_each_leaf<Tensor>(model, [&](const std::string&, Tensor& leaf) { leaf.set(next++); });
  EXPECT_EQ(model.embedding.value(), 1);
  EXPECT_EQ(model.layers[0].attn.q.W.value(), 2);
  EXPECT_EQ(model.head.b.value(), 10);
}

TEST(Reflect, AVisitorMayBeAnLvalueAndKeepState) {
  struct Count {
    int leaves = 0;
    void operator()(const std::string&, const Tensor&) { ++leaves; }
  } count;
  Attention model;
  for_each_leaf<Tensor>(model, count);
  EXPECT_EQ(count.leaves, 6);
}

TEST(Reflect, AConstMemberIsGivenAsConst) {
  struct Model {
    const Tensor frozen = 1.0;
    Tensor W;
  } model;
  std::map<std::string, bool> is_const;
  for_each_leaf<Tensor>(model, [&](const std::string& path, auto& leaf) {
    is_const[path] = std::is_const_v<std::remove_reference_t<decltype(leaf)>>;
  });
  EXPECT_EQ(is_const, (std::map<std::string, bool>{{"frozen", true}, {"W", false}}));
}

TEST(Reflect, AnyTypeCanBeTheLeaf) {
  struct Model {
    std::string name;
    std::vector<std::string> tags{"a", "b"};
    int id = 0;
  } model;
  Paths found;
  for_each_leaf<std::string>(model,
                             [&](const std::string& path, std::string&) { found.push_back(path); });
  EXPECT_EQ(found, (Paths{"name", "tags.0", "tags.1"}));
}

// ---- Where a struct may be defined ----

template <class T, int n>
struct Pair {
  T first_one;
  std::array<T, n> others;
};

TEST(Reflect, ClassTemplatesAreWalked) {
  Pair<Linear, 2> model;
  EXPECT_EQ(paths(model), (Paths{"first_one.W", "first_one.b", "others.0.W", "others.0.b",
                                 "others.1.W", "others.1.b"}));
}

TEST(Reflect, StructsLocalToAFunctionAreWalked) {
  struct Layer {
    Tensor W_out;
  };
  struct Model {
    Layer layer1;
    Pair<Layer, 1> both;
  } model;
  EXPECT_EQ(paths(model), (Paths{"layer1.W_out", "both.first_one.W_out", "both.others.0.W_out"}));
}

template <class T>
Paths paths_of_local_struct() {
  struct Model {
    T inside;
  } model;
  return paths(model);
}

TEST(Reflect, StructsLocalToAFunctionTemplateAreWalked) {
  EXPECT_EQ(paths_of_local_struct<Linear>(), (Paths{"inside.W", "inside.b"}));
}

struct Tree {
  Tensor W;
  std::vector<Tree> children;
  std::unique_ptr<Tree> next;
};

TEST(Reflect, AStructMayContainItselfThroughAContainer) {
  Tree model;
  model.children.resize(2);
  model.children[1].next = std::make_unique<Tree>();
  EXPECT_EQ(paths(model), (Paths{"W", "children.0.W", "children.1.W", "children.1.next.W"}));
}

// ---- The standard library ----

TEST(Reflect, ElementsOfSequencesAndTuplesAreNamedByTheirIndex) {
  struct Model {
    std::vector<Tensor> list{1.0, 2.0};
    std::array<Linear, 2> two;
    std::tuple<Tensor, int, Linear> mixed;
    std::pair<Linear, Tensor> couple;
    std::vector<std::vector<Tensor>> grid{{1.0}, {2.0, 3.0}};
  } model;
  EXPECT_EQ(paths(model), (Paths{"list.0", "list.1", "two.0.W", "two.0.b", "two.1.W", "two.1.b",
                                 "mixed.0", "mixed.2.W", "mixed.2.b", "couple.0.W", "couple.0.b",
                                 "couple.1", "grid.0.0", "grid.1.0", "grid.1.1"}));
}

TEST(Reflect, IndicesOfTwoDigitsStayInOrder) {
  std::vector<Tensor> model(12);
  const Paths found = paths(model);
  ASSERT_EQ(found.size(), 12u);
  EXPECT_EQ(found[2], "2");
  EXPECT_EQ(found[11], "11");
}

TEST(Reflect, ElementsOfMapsAreNamedByTheirKey) {
  struct Model {
    std::map<std::string, Linear> heads{{"value", {}}, {"policy", {}}};
    std::map<std::string, Tensor, std::greater<>> down{{"a", 1.0}, {"b", 2.0}};
  } model;
  EXPECT_EQ(paths(model), (Paths{"heads.policy.W", "heads.policy.b", "heads.value.W",
                                 "heads.value.b", "down.b", "down.a"}));
}

TEST(Reflect, OptionalsAndPointersAddNothingToThePath) {
  struct Model {
    std::optional<Linear> maybe = Linear{};
    std::unique_ptr<Linear> owned = std::make_unique<Linear>();
    std::shared_ptr<Tensor> shared = std::make_shared<Tensor>();
    std::vector<std::unique_ptr<Linear>> layers;
  } model;
  model.layers.push_back(std::make_unique<Linear>());
  EXPECT_EQ(paths(model), (Paths{"maybe.W", "maybe.b", "owned.W", "owned.b", "shared", "layers.0.W",
                                 "layers.0.b"}));
}

TEST(Reflect, EmptyOptionalsAndPointersArePassedBy) {
  struct Model {
    std::optional<Tensor> b;
    std::unique_ptr<Linear> owned;
    std::shared_ptr<Linear> shared;
    std::array<std::optional<Tensor>, 3> some{Tensor(), std::nullopt, Tensor()};
  } model;
  EXPECT_EQ(paths(model), (Paths{"some.0", "some.2"}));
}

TEST(Reflect, ASharedPointerToConstGivesAConstLeaf) {
  struct Model {
    std::shared_ptr<const Tensor> W = std::make_shared<const Tensor>();
  } model;
  int leaves = 0;
  for_each_leaf<Tensor>(model, [&](const std::string&, auto& leaf) {
    static_assert(std::is_same_v<decltype(leaf), const Tensor&>);
    ++leaves;
  });
  EXPECT_EQ(leaves, 1);
}

struct FinalLayer final {
  virtual ~FinalLayer() = default;
  Tensor W;
  TENSORGRAD_MEMBERS(W)
};

TEST(Reflect, APointerToAFinalClassWithVirtualFunctionsIsWalked) {
  std::unique_ptr<FinalLayer> model = std::make_unique<FinalLayer>();
  EXPECT_EQ(paths(model), Paths{"W"});
}

// ---- Types that hold no leaf ----

enum class Mode { kTrain, kPredict };
enum Plain { kPlain };

struct Relu {
  double operator()(double x) const { return x > 0 ? x : 0; }
};

const auto double_it = [](double x) { return 2 * x; };

TEST(Reflect, TypesThatHoldNoLeafArePassedBy) {
  struct Model {
    Tensor first;
    int heads = 4;
    const float epsilon = 1e-5f;
    bool bias = true;
    Mode mode = Mode::kTrain;
    Plain plain = kPlain;
    std::string name = "mlp";
    std::string_view view = "mlp";
    const char* c_string = "mlp";
    std::function<double(double)> function = Relu{};
    double (*pointer)(double) = nullptr;
    std::monostate nothing;
    Relu relu;
    std::decay_t<decltype(double_it)> lambda = double_it;
    std::vector<float> numbers = {1, 2, 3};
    std::vector<bool> bits = {true, false};
    std::optional<double> dropout = 0.1;
    std::tuple<int, std::string> pair_of_words{1, "a"};
    std::unordered_map<std::string, int> vocabulary{{"the", 1}};
    std::map<int, std::vector<std::string>> merges{{1, {"a"}}};
    std::variant<int, float> number = 1;
    std::unique_ptr<float> boxed;
    Tensor last;
  } model;
  EXPECT_EQ(paths(model), (Paths{"first", "last"}));
}

TEST(Reflect, AModelWithoutLeavesIsNoError) {
  struct Config {
    int a = 0;
    float b = 0;
  } model;
  EXPECT_EQ(paths(model), Paths{});
}

// ---- Members that make an aggregate hard to count ----

struct NoDefault {
  NoDefault(int in, int out, bool bias = true) : W(in), b(out + bias) {}
  Tensor W, b;
  TENSORGRAD_MEMBERS(W, b)
};

struct ManyArguments {  // more than are tried in inner braces without a search
  ManyArguments(int, int, int, const std::string&) {}
  Tensor W;
  TENSORGRAD_MEMBERS(W)
};

struct ExplicitDefault {
  explicit ExplicitDefault() = default;
  explicit ExplicitDefault(int) {}
  Tensor W;
  TENSORGRAD_MEMBERS(W)
};

struct MoveOnly {
  MoveOnly() = default;
  MoveOnly(MoveOnly&&) = default;
  Tensor W;
  TENSORGRAD_MEMBERS(W)
};

struct Immovable {
  explicit Immovable(int) {}
  Immovable(Immovable&&) = delete;
  Tensor W;
  TENSORGRAD_MEMBERS(W)
};

struct FromList {
  FromList(std::initializer_list<Tensor> tensors) : list(tensors) {}
  std::vector<Tensor> list;
  TENSORGRAD_MEMBERS(list)
};

struct Forwarding {
  template <class T>
  Forwarding(T&&) {}
  Tensor W;
  TENSORGRAD_MEMBERS(W)
};

struct ForwardingMany {
  template <class... T>
  ForwardingMany(T&&...) {}
  Tensor W;
  TENSORGRAD_MEMBERS(W)
};

struct FromAnyValue {
  template <class T>
  FromAnyValue(T) {}
  Tensor W;
  TENSORGRAD_MEMBERS(W)
};

struct FromAnyConst {
  template <class T>
  FromAnyConst(const T&) {}
  Tensor W;
  TENSORGRAD_MEMBERS(W)
};

struct FromNumbers {
  template <class T>
  requires(std::is_convertible_v<T, double>) FromNumbers(T value) : W(value) {}
  Tensor W;
  TENSORGRAD_MEMBERS(W)
};

struct FromAnyAtCompileTime {  // a body that compilers instantiate merely to see whether it fits
  template <class T>
  constexpr FromAnyAtCompileTime(T&& value) : number(value) {}
  double number;
  TENSORGRAD_MEMBERS(number)
};

TEST(Reflect, MembersWithoutDefaultConstructorAreCounted) {
  struct Model {
    int n;
    NoDefault l1;
    Tensor scale;
    ManyArguments many;
    std::array<NoDefault, 2> two;
    NoDefault l2;
  } model{1, {1, 2}, 1.0, {1, 2, 3, "4"}, {NoDefault{1, 2}, NoDefault{3, 4}}, {5, 6}};
  EXPECT_EQ(paths(model), (Paths{"l1.W", "l1.b", "scale", "many.W", "two.0.W", "two.0.b", "two.1.W",
                                 "two.1.b", "l2.W", "l2.b"}));
}

TEST(Reflect, DefaultMemberInitialisersAreNoHindrance) {
  struct Mlp {
    NoDefault l1{1, 64}, l2{64, 64};
    std::vector<Tensor> list{1.0, 2.0};
    const int n = 3;
    NoDefault l3{64, 1};
  } model;
  EXPECT_EQ(paths(model),
            (Paths{"l1.W", "l1.b", "l2.W", "l2.b", "list.0", "list.1", "l3.W", "l3.b"}));
}

TEST(Reflect, MembersThatCannotBeCopiedOrMovedAreCounted) {
  struct Model {
    Immovable immovable{1};
    MoveOnly move_only;
    ExplicitDefault explicit_default = ExplicitDefault{};
    std::unique_ptr<Tensor> owned = std::make_unique<Tensor>();
  } model;
  EXPECT_EQ(paths(model), (Paths{"immovable.W", "move_only.W", "explicit_default.W", "owned"}));
}

TEST(Reflect, MembersWithConvertingConstructorTemplatesAreCounted) {
  struct Model {
    Forwarding forwarding = 1;
    ForwardingMany many;
    FromAnyValue value = 1;
    FromAnyConst constant = 1;
    FromNumbers numbers = 1;
    FromAnyAtCompileTime number_only = 1;
    FromList list{1.0, 2.0};
    std::optional<double> number;
    std::optional<std::optional<Tensor>> twice = std::optional<Tensor>(1.0);
    std::tuple<Tensor> one;
    Tensor last;
  } model;
  EXPECT_EQ(paths(model), (Paths{"forwarding.W", "many.W", "value.W", "constant.W", "numbers.W",
                                 "list.list.0", "list.list.1", "twice", "one.0", "last"}));
}

TEST(Reflect, AGreedyFirstMemberIsNotTakenForABaseClass) {
  struct Model {
    ForwardingMany first;
    Tensor last;
  } model;
  EXPECT_EQ(paths(model), (Paths{"first.W", "last"}));
}

TEST(Reflect, EmptyMembersAreCounted) {
  struct Model {
    Relu first;
    [[no_unique_address]] Relu second;
    Tensor W;
    Relu third;
  } model;
  EXPECT_EQ(paths(model), Paths{"W"});
}

TEST(Reflect, AnAggregateHasUpTo48Members) {
  static_assert(tensorgrad::reflect::kMaxMembers == 48);
  struct Model {
    Tensor a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, c0, c1,
        c2, c3, c4, c5, c6, c7, c8, c9, d0, d1, d2, d3, d4, d5, d6, d7, d8, d9, e0, e1, e2, e3, e4,
        e5, e6;
    NoDefault e7{1, 1};
  } model;
  const Paths found = paths(model);
  ASSERT_EQ(found.size(), 49u);
  EXPECT_EQ(found[0], "a0");
  EXPECT_EQ(found[31], "d1");
  EXPECT_EQ(found[47], "e7.W");
  EXPECT_EQ(found[48], "e7.b");
}

// ---- TENSORGRAD_MEMBERS ----

class Private {
 public:
  explicit Private(double value) : W_(value) {}
  double value() const { return W_.value(); }

 private:
  TENSORGRAD_MEMBERS(W_, layers_)

  Tensor W_;
  std::vector<Linear> layers_{1};
  int cache_[4] = {};  // not listed, so it need not be walkable

 public:
  int cached(int i) const { return cache_[i]; }
};

TEST(Reflect, ListedMembersMayBePrivate) {
  Private model(3);
  EXPECT_EQ(paths(model), (Paths{"W_", "layers_.0.W", "layers_.0.b"}));
  for_each_leaf<Tensor>(model, [](const std::string&, Tensor& leaf) { leaf.set(7); });
  EXPECT_EQ(model.value(), 7);
}

TEST(Reflect, ListedMembersAreVisitedInTheOrderOfTheList) {
  struct Model {
    Tensor a, b, c;
    TENSORGRAD_MEMBERS(c, a);
  } model;
  EXPECT_EQ(paths(model), (Paths{"c", "a"}));
}

TEST(Reflect, AnEmptyListSaysThatThereIsNothingToWalk) {
  struct Opaque {
    Opaque() : numbers{1} {}
    int* pointer = nullptr;
    int numbers[3];
    TENSORGRAD_MEMBERS()
  };
  struct Model {
    Opaque opaque;
    Tensor W;
  } model;
  EXPECT_EQ(paths(model), Paths{"W"});
}

struct UnderPublic {
  TENSORGRAD_MEMBERS(W)
  Tensor W;
};

class UnderPrivate {
  TENSORGRAD_MEMBERS(W)
  Tensor W;
};

template <class T>
concept HasPublicW = requires(T& object) {
  object.W;
};
template <class T>
concept HasPublicMembers = requires(T& object) {
  object.tensorgrad_members();
};

TEST(Reflect, TheMacroLeavesTheAccessLevelAsItIs) {
  static_assert(HasPublicW<UnderPublic> && !HasPublicW<UnderPrivate>);
  static_assert(!HasPublicMembers<UnderPrivate>);
  static_assert(std::is_aggregate_v<UnderPublic>);
  UnderPublic open{.W = 1.0};
  UnderPrivate closed;
  EXPECT_EQ(paths(open), Paths{"W"});
  EXPECT_EQ(paths(closed), Paths{"W"});
}

TEST(Reflect, ADerivedClassListsItsOwnMembersAndItsBases) {
  struct Model : Linear {
    Tensor scale;
    TENSORGRAD_MEMBERS(scale, Linear::W, b)
  };
  struct Further : Model {
    Tensor last;
    TENSORGRAD_MEMBERS(W, last)
  };
  Model model;
  Further further;
  EXPECT_EQ(paths(model), (Paths{"scale", "W", "b"}));
  EXPECT_EQ(paths(further), (Paths{"W", "last"}));
}

template <class T>
class Wrapper {
 public:
  explicit Wrapper(T value) : inner(std::move(value)) {}
  TENSORGRAD_MEMBERS(inner)

 private:
  T inner;
};

TEST(Reflect, ClassTemplatesMayListTheirMembers) {
  Wrapper<Wrapper<Linear>> model{Wrapper<Linear>{Linear{}}};
  EXPECT_EQ(paths(model), (Paths{"inner.inner.W", "inner.inner.b"}));
}

TEST(Reflect, AListedReferenceIsConstInAConstModel) {
  struct Tied {
    explicit Tied(Tensor& other) : W(other) {}
    Tensor& W;
    TENSORGRAD_MEMBERS(W)
  };
  Tensor tensor;
  Tied model(tensor);
  EXPECT_EQ(paths(model), Paths{"W"});  // which checks that the walk over a const model gives const
}

TEST(Reflect, AListMayBeLong) {
  class Model {
   public:
    Model() {}
    TENSORGRAD_MEMBERS(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z,
                       a1, b1, c1, d1)
   private:
    Tensor a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z, a1, b1, c1,
        d1;
  } model;
  const Paths found = paths(model);
  ASSERT_EQ(found.size(), 30u);
  EXPECT_EQ(found[23], "x");
  EXPECT_EQ(found[29], "d1");
}

}  // namespace
