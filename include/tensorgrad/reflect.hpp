// A plain struct is a model: walks its members at compile time, nested structs and containers
// included, and gives every leaf (a Tensor) with its path, `layers.0.attn.q.b`. Nothing is
// registered. What cannot be walked fails to compile with a sentence that says what to do.
// Used by the front end to find the parameters of a model, before tracing.
//
//   walked       aggregates of up to 48 members, classes with TENSORGRAD_MEMBERS, std::vector,
//                array, optional, tuple, pair, map<std::string, T>, unique_ptr, shared_ptr
//   holds none   numbers, enums, strings, functions, function pointers, empty classes
//   an error     everything else
//
// How: an aggregate's members are counted by trying brace-initialisation, taken apart by a
// structured binding, and named from the compiler's spelling of a pointer to each of them.
//
// Two things are refused by the compiler in its own words: a bit-field, and a member whose type has
// a constexpr constructor from anything, without a constraint, that does not compile for anything.
// Listing the other members with TENSORGRAD_MEMBERS helps there too.
#pragma once

#include <array>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

/// Lists the members to walk, once, in the body of a class that has constructors, private members
/// or a base class: `TENSORGRAD_MEMBERS(W, b)`. The names are those of the paths, as written
/// (`Base::W` gives `W`). `TENSORGRAD_MEMBERS()` says that there is nothing to walk. It may stand
/// under any access specifier, which it leaves as it was, and after or before the members. A
/// derived class does not inherit the list: it writes its own.
#define TENSORGRAD_MEMBERS(...)                                       \
  friend struct ::tensorgrad::reflect::Access;                        \
  auto tensorgrad_members() { return ::std::tie(__VA_ARGS__); }       \
  auto tensorgrad_members() const { return ::std::tie(__VA_ARGS__); } \
  auto tensorgrad_members_of() const->decltype(this) { return this; } \
  static constexpr const char* tensorgrad_member_names() { return #__VA_ARGS__; }

namespace tensorgrad::reflect {

/// The most members of an aggregate. TENSORGRAD_MEMBERS has no such limit.
/// (One of the messages below says the number, too.)
inline constexpr std::size_t kMaxMembers = 48;

/// The friend of classes with TENSORGRAD_MEMBERS: the only one to call what the macro defines.
struct Access {
  /// Whether T itself has the macro; a base class's does not count, as it leaves out T's members.
  template <class T>
  static constexpr bool has_members() {
    if constexpr (requires(const T& object) { object.tensorgrad_members_of(); }) {
      using Lister = decltype(std::declval<const T&>().tensorgrad_members_of());
      return std::is_same_v<Lister, const T*>;
    } else {
      return false;
    }
  }

  template <class T>
  static constexpr auto members(T& object) {
    return object.tensorgrad_members();
  }

  template <class T>
  static constexpr std::string_view member_names() {
    return T::tensorgrad_member_names();
  }
};

namespace detail {

template <class T>
inline constexpr bool kNever = false;  // false, but not before T is known

// ---- Counting the members of an aggregate ----
//
// The aggregate T has n initialisers if T{p, p, ...} compiles with n probes and not with n + 1,
// where a probe converts to anything. Fewer than n may not compile, for want of a default
// constructor, but if n - k do then so do n - k + 1, ..., n.
//
// Compilers instantiate the bodies of constexpr constructors that T{...} would call. So all probes
// convert to (nearly) everything, by functions that are defined though never called, and a form is
// tried only if the simpler ones have failed.

/// Converts to anything except T.
template <class T>
struct AnythingBut {
  template <class U>
  requires(!std::is_same_v<std::remove_cv_t<U>, T>) operator U() const { std::abort(); }
};

/// T has a constructor template that takes the probe itself: T(U&&), T(U), or constrained ones such
/// as std::optional<float>'s. Converting to T as well would be ambiguous.
template <class T>
concept TakesProbe = std::is_class_v<T> && std::is_convertible_v<AnythingBut<T>, T>;

/// Converts to any value. Not to T&: beside T this would be ambiguous for some types, and instead
/// of T it would ask for a copy constructor.
struct Probe {
  template <class T>
  requires(!TakesProbe<T>) operator T() const { std::abort(); }
};

/// As Probe, and also for members of type T&.
struct LvalueProbe {
  template <class T>
  requires(!TakesProbe<T>) operator T() const&& { std::abort(); }
  template <class T>
  operator T&() const& {
    std::abort();
  }
};

// A trap is a probe that is as good a match as a Probe for every type, but an error to use for
// some. A trap that did not convert to them at all would be tried for their first members instead.

/// An error for the base classes of T, also for those that take a probe: to those, from a const
/// trap, there are two equally good ways.
template <class T>
class BaseTrap {
 public:
  template <class U>
  requires(!std::is_base_of_v<U, T> && !TakesProbe<U>) operator U() const { std::abort(); }

 private:
  template <class U>
  requires(std::is_base_of_v<U, T>) operator U() const { std::abort(); }
};

/// An error for unions.
class UnionTrap {
 public:
  template <class U>
  requires(!std::is_union_v<U> && !TakesProbe<U>) operator U() const { std::abort(); }

 private:
  template <class U>
  requires(std::is_union_v<U>) operator U() const { std::abort(); }
};

template <std::size_t, class P>
using Repeat = P;

/// Whether T{p, p, ...} compiles, with n probes of type P.
template <class T, class P, std::size_t... I>
constexpr bool takes_flat(std::index_sequence<I...>) {
  return requires { T{Repeat<I, P>{}...}; };
}

/// Whether T{p, ..., {p, ...}, p, ...} compiles: I before, J inside, K after the inner braces.
template <class T, std::size_t... I, std::size_t... J, std::size_t... K>
constexpr bool takes_nested(std::index_sequence<I...>, std::index_sequence<J...>,
                            std::index_sequence<K...>) {
  return requires { T{Repeat<I, Probe>{}..., {Repeat<J, Probe>{}...}, Repeat<K, Probe>{}...}; };
}

template <class T, class P, std::size_t n>
constexpr bool takes_flat() {
  return takes_flat<T, P>(std::make_index_sequence<n>{});
}

template <class T, std::size_t before, std::size_t inside, std::size_t after>
constexpr bool takes_nested() {
  return takes_nested<T>(std::make_index_sequence<before>{}, std::make_index_sequence<inside>{},
                         std::make_index_sequence<after>{});
}

inline constexpr std::size_t kTooMany = kMaxMembers + 1;
inline constexpr std::size_t kUnknown = kMaxMembers + 2;

/// The largest number of initialisers that T takes; kTooMany if above kMaxMembers; kUnknown if none
/// of the numbers tried is right, because of a reference, or of more that have no default.
template <class T, class P, std::size_t n = 0, bool found = false>
constexpr std::size_t count_initialisers() {
  if constexpr (takes_flat<T, P, n>()) {
    if constexpr (n == kTooMany) {
      return kTooMany;
    } else {
      return count_initialisers<T, P, n + 1, true>();
    }
  } else if constexpr (found) {
    return n - 1;
  } else if constexpr (n == kTooMany) {
    return kUnknown;
  } else {
    return count_initialisers<T, P, n + 1, false>();
  }
}

// A probe does not convert to a C array, so an array of k elements takes k of the initialisers (its
// braces are elided). Braces around those k say where it ends: behind them n - i - k more are
// accepted and not one above. Every other member takes one initialiser; behind it, braced or not,
// n - i - 1 are accepted if the braces hold something that its type can be made from.

/// How many of the n initialisers, from i on, belong to the member that the i-th is for.
template <class T, std::size_t n, std::size_t i, std::size_t k = 2>
constexpr std::size_t initialisers_of_member() {
  if constexpr (i + k > n) {
    return 1;
  } else if constexpr (!takes_nested<T, i, k, n - i - k>()) {
    return initialisers_of_member<T, n, i, k + 1>();
  } else if constexpr (takes_nested<T, i, k, n - i - k + 1>()) {
    return initialisers_of_member<T, n, i, k + 1>();
  } else {
    return k;
  }
}

/// The number of members of T, C arrays counted as one, of an aggregate of n initialisers.
template <class T, std::size_t n, std::size_t i = 0>
constexpr std::size_t count_members() {
  if constexpr (i == n) {
    return 0;
  } else if constexpr (takes_nested<T, i, 0, n - i - 1>()) {  // the usual cases, without a search
    return 1 + count_members<T, n, i + 1>();
  } else if constexpr (takes_nested<T, i, 1, n - i - 1>()) {
    return 1 + count_members<T, n, i + 1>();
  } else if constexpr (takes_nested<T, i, 2, n - i - 1>()) {
    return 1 + count_members<T, n, i + 1>();
  } else {
    return 1 + count_members<T, n, i + initialisers_of_member<T, n, i>()>();
  }
}

// ---- Taking an aggregate apart ----

template <class... T>
struct Types {};

// TENSORGRAD_M03(f) is f(m01), f(m02), f(m03): the names of a structured binding, or what f makes
// of them.
#define TENSORGRAD_M01(f) f(m01)
#define TENSORGRAD_M02(f) TENSORGRAD_M01(f), f(m02)
#define TENSORGRAD_M03(f) TENSORGRAD_M02(f), f(m03)
#define TENSORGRAD_M04(f) TENSORGRAD_M03(f), f(m04)
#define TENSORGRAD_M05(f) TENSORGRAD_M04(f), f(m05)
#define TENSORGRAD_M06(f) TENSORGRAD_M05(f), f(m06)
#define TENSORGRAD_M07(f) TENSORGRAD_M06(f), f(m07)
#define TENSORGRAD_M08(f) TENSORGRAD_M07(f), f(m08)
#define TENSORGRAD_M09(f) TENSORGRAD_M08(f), f(m09)
#define TENSORGRAD_M10(f) TENSORGRAD_M09(f), f(m10)
#define TENSORGRAD_M11(f) TENSORGRAD_M10(f), f(m11)
#define TENSORGRAD_M12(f) TENSORGRAD_M11(f), f(m12)
#define TENSORGRAD_M13(f) TENSORGRAD_M12(f), f(m13)
#define TENSORGRAD_M14(f) TENSORGRAD_M13(f), f(m14)
#define TENSORGRAD_M15(f) TENSORGRAD_M14(f), f(m15)
#define TENSORGRAD_M16(f) TENSORGRAD_M15(f), f(m16)
#define TENSORGRAD_M17(f) TENSORGRAD_M16(f), f(m17)
#define TENSORGRAD_M18(f) TENSORGRAD_M17(f), f(m18)
#define TENSORGRAD_M19(f) TENSORGRAD_M18(f), f(m19)
#define TENSORGRAD_M20(f) TENSORGRAD_M19(f), f(m20)
#define TENSORGRAD_M21(f) TENSORGRAD_M20(f), f(m21)
#define TENSORGRAD_M22(f) TENSORGRAD_M21(f), f(m22)
#define TENSORGRAD_M23(f) TENSORGRAD_M22(f), f(m23)
#define TENSORGRAD_M24(f) TENSORGRAD_M23(f), f(m24)
#define TENSORGRAD_M25(f) TENSORGRAD_M24(f), f(m25)
#define TENSORGRAD_M26(f) TENSORGRAD_M25(f), f(m26)
#define TENSORGRAD_M27(f) TENSORGRAD_M26(f), f(m27)
#define TENSORGRAD_M28(f) TENSORGRAD_M27(f), f(m28)
#define TENSORGRAD_M29(f) TENSORGRAD_M28(f), f(m29)
#define TENSORGRAD_M30(f) TENSORGRAD_M29(f), f(m30)
#define TENSORGRAD_M31(f) TENSORGRAD_M30(f), f(m31)
#define TENSORGRAD_M32(f) TENSORGRAD_M31(f), f(m32)
#define TENSORGRAD_M33(f) TENSORGRAD_M32(f), f(m33)
#define TENSORGRAD_M34(f) TENSORGRAD_M33(f), f(m34)
#define TENSORGRAD_M35(f) TENSORGRAD_M34(f), f(m35)
#define TENSORGRAD_M36(f) TENSORGRAD_M35(f), f(m36)
#define TENSORGRAD_M37(f) TENSORGRAD_M36(f), f(m37)
#define TENSORGRAD_M38(f) TENSORGRAD_M37(f), f(m38)
#define TENSORGRAD_M39(f) TENSORGRAD_M38(f), f(m39)
#define TENSORGRAD_M40(f) TENSORGRAD_M39(f), f(m40)
#define TENSORGRAD_M41(f) TENSORGRAD_M40(f), f(m41)
#define TENSORGRAD_M42(f) TENSORGRAD_M41(f), f(m42)
#define TENSORGRAD_M43(f) TENSORGRAD_M42(f), f(m43)
#define TENSORGRAD_M44(f) TENSORGRAD_M43(f), f(m44)
#define TENSORGRAD_M45(f) TENSORGRAD_M44(f), f(m45)
#define TENSORGRAD_M46(f) TENSORGRAD_M45(f), f(m46)
#define TENSORGRAD_M47(f) TENSORGRAD_M46(f), f(m47)
#define TENSORGRAD_M48(f) TENSORGRAD_M47(f), f(m48)

#define TENSORGRAD_NAME(m) m
#define TENSORGRAD_TYPE(m) decltype(m)
#define TENSORGRAD_BIND(n, names)              \
  if constexpr (kCount == n) {                 \
    auto& [names(TENSORGRAD_NAME)] = object;   \
    if constexpr (kAsTypes) {                  \
      return Types<names(TENSORGRAD_TYPE)>{};  \
    } else {                                   \
      return std::tie(names(TENSORGRAD_NAME)); \
    }                                          \
  }

/// References to the kCount members of an aggregate, or their declared types.
template <std::size_t kCount, bool kAsTypes, class T>
constexpr auto take_apart([[maybe_unused]] T& object) {
  TENSORGRAD_BIND(1, TENSORGRAD_M01)
  TENSORGRAD_BIND(2, TENSORGRAD_M02)
  TENSORGRAD_BIND(3, TENSORGRAD_M03)
  TENSORGRAD_BIND(4, TENSORGRAD_M04)
  TENSORGRAD_BIND(5, TENSORGRAD_M05)
  TENSORGRAD_BIND(6, TENSORGRAD_M06)
  TENSORGRAD_BIND(7, TENSORGRAD_M07)
  TENSORGRAD_BIND(8, TENSORGRAD_M08)
  TENSORGRAD_BIND(9, TENSORGRAD_M09)
  TENSORGRAD_BIND(10, TENSORGRAD_M10)
  TENSORGRAD_BIND(11, TENSORGRAD_M11)
  TENSORGRAD_BIND(12, TENSORGRAD_M12)
  TENSORGRAD_BIND(13, TENSORGRAD_M13)
  TENSORGRAD_BIND(14, TENSORGRAD_M14)
  TENSORGRAD_BIND(15, TENSORGRAD_M15)
  TENSORGRAD_BIND(16, TENSORGRAD_M16)
  TENSORGRAD_BIND(17, TENSORGRAD_M17)
  TENSORGRAD_BIND(18, TENSORGRAD_M18)
  TENSORGRAD_BIND(19, TENSORGRAD_M19)
  TENSORGRAD_BIND(20, TENSORGRAD_M20)
  TENSORGRAD_BIND(21, TENSORGRAD_M21)
  TENSORGRAD_BIND(22, TENSORGRAD_M22)
  TENSORGRAD_BIND(23, TENSORGRAD_M23)
  TENSORGRAD_BIND(24, TENSORGRAD_M24)
  TENSORGRAD_BIND(25, TENSORGRAD_M25)
  TENSORGRAD_BIND(26, TENSORGRAD_M26)
  TENSORGRAD_BIND(27, TENSORGRAD_M27)
  TENSORGRAD_BIND(28, TENSORGRAD_M28)
  TENSORGRAD_BIND(29, TENSORGRAD_M29)
  TENSORGRAD_BIND(30, TENSORGRAD_M30)
  TENSORGRAD_BIND(31, TENSORGRAD_M31)
  TENSORGRAD_BIND(32, TENSORGRAD_M32)
  TENSORGRAD_BIND(33, TENSORGRAD_M33)
  TENSORGRAD_BIND(34, TENSORGRAD_M34)
  TENSORGRAD_BIND(35, TENSORGRAD_M35)
  TENSORGRAD_BIND(36, TENSORGRAD_M36)
  TENSORGRAD_BIND(37, TENSORGRAD_M37)
  TENSORGRAD_BIND(38, TENSORGRAD_M38)
  TENSORGRAD_BIND(39, TENSORGRAD_M39)
  TENSORGRAD_BIND(40, TENSORGRAD_M40)
  TENSORGRAD_BIND(41, TENSORGRAD_M41)
  TENSORGRAD_BIND(42, TENSORGRAD_M42)
  TENSORGRAD_BIND(43, TENSORGRAD_M43)
  TENSORGRAD_BIND(44, TENSORGRAD_M44)
  TENSORGRAD_BIND(45, TENSORGRAD_M45)
  TENSORGRAD_BIND(46, TENSORGRAD_M46)
  TENSORGRAD_BIND(47, TENSORGRAD_M47)
  TENSORGRAD_BIND(48, TENSORGRAD_M48)
}

#undef TENSORGRAD_BIND
#undef TENSORGRAD_TYPE
#undef TENSORGRAD_NAME
#undef TENSORGRAD_M01
#undef TENSORGRAD_M02
#undef TENSORGRAD_M03
#undef TENSORGRAD_M04
#undef TENSORGRAD_M05
#undef TENSORGRAD_M06
#undef TENSORGRAD_M07
#undef TENSORGRAD_M08
#undef TENSORGRAD_M09
#undef TENSORGRAD_M10
#undef TENSORGRAD_M11
#undef TENSORGRAD_M12
#undef TENSORGRAD_M13
#undef TENSORGRAD_M14
#undef TENSORGRAD_M15
#undef TENSORGRAD_M16
#undef TENSORGRAD_M17
#undef TENSORGRAD_M18
#undef TENSORGRAD_M19
#undef TENSORGRAD_M20
#undef TENSORGRAD_M21
#undef TENSORGRAD_M22
#undef TENSORGRAD_M23
#undef TENSORGRAD_M24
#undef TENSORGRAD_M25
#undef TENSORGRAD_M26
#undef TENSORGRAD_M27
#undef TENSORGRAD_M28
#undef TENSORGRAD_M29
#undef TENSORGRAD_M30
#undef TENSORGRAD_M31
#undef TENSORGRAD_M32
#undef TENSORGRAD_M33
#undef TENSORGRAD_M34
#undef TENSORGRAD_M35
#undef TENSORGRAD_M36
#undef TENSORGRAD_M37
#undef TENSORGRAD_M38
#undef TENSORGRAD_M39
#undef TENSORGRAD_M40
#undef TENSORGRAD_M41
#undef TENSORGRAD_M42
#undef TENSORGRAD_M43
#undef TENSORGRAD_M44
#undef TENSORGRAD_M45
#undef TENSORGRAD_M46
#undef TENSORGRAD_M47
#undef TENSORGRAD_M48

// ---- Naming the members ----

constexpr bool is_identifier_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '$' || static_cast<unsigned char>(c) >= 0x80;  // UTF-8
}

/// The last identifier in the text: `W` of `... = (& Fake<Mlp>::object.Fake<Mlp>::value.Mlp::W)]`.
constexpr std::string_view last_identifier(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0 && !is_identifier_char(text[end - 1])) --end;
  std::size_t begin = end;
  while (begin > 0 && is_identifier_char(text[begin - 1])) --begin;
  return text.substr(begin, end - begin);
}

/// A pointer as a template argument. Clang before 18 takes no pointer to a subobject as it is, but
/// takes one in a class.
template <class P>
struct Address {
  P value;
  constexpr explicit Address(P p) : value(p) {}
};

/// The compiler's spelling of the address. Were the result an alias such as std::string_view, GCC
/// would add its meaning at the end.
template <class P, Address<P> address>
constexpr const char* spelling() {
  return __PRETTY_FUNCTION__;
}

// Clang warns that Fake<T>::object has no definition, which is the intention: only its address is
// used, and only at compile time.
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wundefined-var-template"
#pragma clang diagnostic ignored "-Wundefined-internal"
#endif

/// An object to take members' addresses of. It is declared only: no T is ever made. (A variable of
/// type T itself GCC would refuse to leave undefined where T is local to a function.)
template <class T>
struct Fake {
  T value;
  static Fake object;
};

template <class T, std::size_t... I>
constexpr std::array<std::string_view, sizeof...(I)> spelled_names(std::index_sequence<I...>) {
  constexpr auto addresses =
      std::apply([](auto&... member) { return std::tuple(std::addressof(member)...); },
                 take_apart<sizeof...(I), false>(Fake<T>::object.value));
  return {
      last_identifier(spelling<std::tuple_element_t<I, std::remove_const_t<decltype(addresses)>>,
                               Address(std::get<I>(addresses))>())...};
}

#if defined(__clang__)
#pragma clang diagnostic pop
#endif

template <std::size_t n>
constexpr std::size_t list_size(const std::array<std::string_view, n>& names) {
  std::size_t size = 0;
  for (std::string_view name : names) size += name.size() + 1;
  return size;
}

/// The names of an aggregate's members, `W,b,`. Copied, so that the program holds the names and not
/// the compiler's long spellings.
template <class T, std::size_t kCount>
struct MemberNames {
  static constexpr auto copy() {
    constexpr auto names = spelled_names<T>(std::make_index_sequence<kCount>{});
    std::array<char, list_size(names)> list{};
    std::size_t end = 0;
    for (std::string_view name : names) {
      for (char c : name) list[end++] = c;
      list[end++] = ',';
    }
    return list;
  }
  static constexpr auto kList = copy();
};

struct SpellingCheck {
  std::string first;
  const char* second_;
};
static_assert(spelled_names<SpellingCheck>(std::index_sequence<0, 1>{})[0] == "first" &&
                  spelled_names<SpellingCheck>(std::index_sequence<0, 1>{})[1] == "second_",
              "tensorgrad: this compiler does not spell the names of members as GCC and Clang do");

constexpr std::size_t count_names(std::string_view list) {
  std::size_t count = list.empty() ? 0 : 1;
  for (char c : list) count += c == ',';
  return count;
}

/// Splits a list of names, `W,b,` or as in TENSORGRAD_MEMBERS `W, Base::b`, into `W` and `b`.
template <std::size_t n>
constexpr std::array<std::string_view, n> split_names(std::string_view list) {
  std::array<std::string_view, n> names{};
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t comma = list.find(',');
    names[i] = last_identifier(list.substr(0, comma));
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  }
  return names;
}

// ---- What the types are ----

template <class T, template <class...> class Template>
inline constexpr bool kIs = false;
template <template <class...> class Template, class... Args>
inline constexpr bool kIs<Template<Args...>, Template> = true;

template <class T>
inline constexpr bool kIsStdArray = false;
template <class T, std::size_t n>
inline constexpr bool kIsStdArray<std::array<T, n>> = true;

template <class T>
inline constexpr bool kIsArrayPointer = false;
template <class T, class Deleter>
inline constexpr bool kIsArrayPointer<std::unique_ptr<T[], Deleter>> = true;
template <class T>
inline constexpr bool kIsArrayPointer<std::shared_ptr<T>> = std::is_array_v<T>;

template <class T>
inline constexpr bool kIsStringMap = false;
template <class T, class Compare, class Allocator>
inline constexpr bool kIsStringMap<std::map<std::string, T, Compare, Allocator>> = true;

template <class T>
inline constexpr bool kIsChar =
    std::is_same_v<T, char> || std::is_same_v<T, wchar_t> || std::is_same_v<T, char8_t> ||
    std::is_same_v<T, char16_t> || std::is_same_v<T, char32_t>;

/// Nothing in a T can hold a leaf, so that a std::vector<float> is passed by and not iterated.
/// Structs are not looked into here: they may contain themselves, through a container.
template <class Leaf, class T>
constexpr bool holds_no_leaf() {
  if constexpr (std::is_same_v<T, Leaf>) {
    return false;
  } else if constexpr (std::is_const_v<T>) {
    return holds_no_leaf<Leaf, std::remove_const_t<T>>();
  } else if constexpr (std::is_pointer_v<T>) {
    using Pointee = std::remove_cv_t<std::remove_pointer_t<T>>;
    return kIsChar<Pointee> || std::is_function_v<Pointee>;
  } else if constexpr (kIsStdArray<T>) {
    return holds_no_leaf<Leaf, typename T::value_type>();
  } else if constexpr (kIs<T, std::vector> || kIs<T, std::optional> || kIs<T, std::tuple> ||
                       kIs<T, std::pair> || kIs<T, std::variant> || kIs<T, std::map> ||
                       kIs<T, std::unordered_map> || kIs<T, std::unique_ptr> ||
                       kIs<T, std::shared_ptr>) {
    // The arguments besides the elements' types, allocators and so on, are empty classes.
    return []<template <class...> class Template, class... Args>(const Template<Args...>*) {
      return (holds_no_leaf<Leaf, Args>() && ...);
    }(static_cast<const T*>(nullptr));
  } else {
    return std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_empty_v<T> ||
           kIs<T, std::basic_string> || kIs<T, std::basic_string_view> || kIs<T, std::function>;
  }
}

// ---- Walking ----

/// Fails to compile, with the reason why a T cannot be walked.
template <class T>
constexpr void refuse() {
  if constexpr (std::is_array_v<T>) {
    static_assert(kNever<T>, "tensorgrad: a C array member cannot be walked; use std::array");
  } else if constexpr (std::is_reference_v<T>) {
    static_assert(kNever<T>,
                  "tensorgrad: a reference member cannot be walked; hold the object itself, or a "
                  "std::shared_ptr to share it");
  } else if constexpr (std::is_pointer_v<T>) {
    static_assert(kNever<T>,
                  "tensorgrad: a raw pointer member cannot be walked; hold the object itself, a "
                  "std::unique_ptr or a std::shared_ptr");
  } else if constexpr (std::is_union_v<T>) {
    static_assert(kNever<T>,
                  "tensorgrad: a union cannot be walked, as nothing says which of its members is "
                  "in use; use a std::optional for each of them");
  } else if constexpr (kIs<T, std::variant>) {
    static_assert(kNever<T>,
                  "tensorgrad: a std::variant cannot be walked; use a std::optional for each of "
                  "its alternatives");
  } else if constexpr (kIs<T, std::unordered_map>) {
    static_assert(kNever<T>,
                  "tensorgrad: a std::unordered_map cannot be walked, as its order may change from "
                  "run to run; use a std::map with std::string keys");
  } else if constexpr (kIs<T, std::map>) {
    static_assert(kNever<T>,
                  "tensorgrad: a std::map can be walked only if its keys, which become parts of "
                  "the paths, are of type std::string");
  } else if constexpr (std::is_class_v<T>) {
    static_assert(
        kNever<T>,
        "tensorgrad: a class with constructors, private members or virtual functions "
        "cannot be walked; list its members in its body with TENSORGRAD_MEMBERS(W, b), "
        "or write TENSORGRAD_MEMBERS() if it holds no tensors. Of the standard library, "
        "vector, array, optional, tuple, pair, map, unique_ptr and shared_ptr are walked");
  } else {
    static_assert(kNever<T>,
                  "tensorgrad: a member of this type cannot be walked; keep it out of the model, "
                  "or list the members to walk with TENSORGRAD_MEMBERS");
  }
}

template <class T>
union UnionIn {};

template <class... Declared>
constexpr bool has_reference(Types<Declared...>) {
  return (std::is_reference_v<Declared> || ...);
}

template <class Leaf, class Visit>
class Walker {
 public:
  explicit Walker(Visit& visit) : visit_(visit) {}

  template <class T>
  void walk(T& value) {
    using U = std::remove_cv_t<T>;
    if constexpr (std::is_same_v<U, Leaf>) {
      visit_(std::as_const(path_), value);
    } else if constexpr (holds_no_leaf<Leaf, U>()) {
      // nothing to visit
    } else if constexpr (Access::has_members<U>()) {
      walk_listed(value);
    } else if constexpr (kIs<U, std::vector> || kIsStdArray<U>) {
      std::size_t i = 0;
      for (auto& element : value) walk_part(std::to_string(i++), element);
    } else if constexpr (kIsStringMap<U>) {
      for (auto& [key, element] : value) walk_part(key, element);
    } else if constexpr (kIs<U, std::tuple> || kIs<U, std::pair>) {
      walk_tuple(value, std::make_index_sequence<std::tuple_size_v<U>>{});
    } else if constexpr (kIs<U, std::optional>) {
      if (value) walk(*value);
    } else if constexpr (kIs<U, std::unique_ptr> || kIs<U, std::shared_ptr>) {
      walk_pointee(value);
    } else if constexpr (std::is_class_v<U> && std::is_aggregate_v<U>) {
      walk_aggregate(value);
    } else {
      refuse<U>();
    }
  }

 private:
  /// Walks a value one step further down the path.
  template <class T>
  void walk_part(std::string_view name, T& value) {
    const std::size_t length = path_.size();
    if (length > 0) path_ += '.';
    path_ += name;
    walk(value);
    path_.resize(length);
  }

  template <class T, std::size_t... I>
  void walk_tuple(T& value, std::index_sequence<I...>) {
    (walk_part(std::to_string(I), std::get<I>(value)), ...);
  }

  /// What a pointer points to stands for the pointer, and is const if the pointer is.
  template <class Pointer>
  void walk_pointee(Pointer& pointer) {
    using T = typename Pointer::element_type;
    if constexpr (kIsArrayPointer<std::remove_cv_t<Pointer>>) {
      static_assert(kNever<T>,
                    "tensorgrad: a pointer to a C array cannot be walked, as it does not know its "
                    "length; use std::vector");
    } else if constexpr (std::is_void_v<T>) {
      refuse<T>();
    } else if constexpr (std::is_polymorphic_v<T> && !std::is_final_v<T>) {
      static_assert(kNever<T>,
                    "tensorgrad: a pointer to a class with virtual functions cannot be walked, as "
                    "the object may be of a derived class with more members; point to the derived "
                    "class, and declare it final");
    } else if constexpr (std::is_const_v<Pointer>) {
      if (pointer) walk(std::as_const(*pointer));
    } else {
      if (pointer) walk(*pointer);
    }
  }

  /// A member of a const object is const, even if it is a reference.
  template <class Object, class Member>
  using MemberOf = std::conditional_t<std::is_const_v<Object>, const Member, Member>;

  /// Walks a tuple of references to the members of an object, whose names are in the list.
  template <class Object, class... Member>
  void walk_members(std::string_view list, const std::tuple<Member&...>& members) {
    std::apply(
        [&](auto&... member) {
          const auto names = split_names<sizeof...(member)>(list);
          [[maybe_unused]] auto name = names.begin();
          (walk_part<MemberOf<Object, Member>>(*name++, member), ...);
        },
        members);
  }

  template <class T>
  void walk_listed(T& object) {
    constexpr std::string_view list = Access::member_names<std::remove_cv_t<T>>();
    if constexpr (count_names(list) == std::tuple_size_v<decltype(Access::members(object))>) {
      walk_members<T>(list, Access::members(object));
    } else {
      static_assert(kNever<T>,
                    "tensorgrad: TENSORGRAD_MEMBERS takes names of members, without "
                    "template arguments");
    }
  }

  template <class T>
  void walk_aggregate(T& object) {
    using U = std::remove_cv_t<T>;
    constexpr std::size_t n = count_initialisers<U, Probe>();
    if constexpr (n == kUnknown && count_initialisers<U, LvalueProbe>() < kTooMany) {
      refuse<T&>();
    } else if constexpr (n == kUnknown || n == kTooMany) {
      static_assert(kNever<T>,
                    "tensorgrad: the members of this struct cannot be counted; use std::array if "
                    "it has a C array, group the members if they are more than 48, or list them "
                    "in its body with TENSORGRAD_MEMBERS");
    } else if constexpr (!takes_flat<U, const BaseTrap<U>, n>()) {
      static_assert(kNever<T>,
                    "tensorgrad: a struct with a base class cannot be walked; make the base a "
                    "member, or list the members to walk, the base's too, with "
                    "TENSORGRAD_MEMBERS");
    } else if constexpr (!takes_flat<U, UnionTrap, n>()) {
      refuse<UnionIn<T>>();
    } else {
      constexpr std::size_t kCount = count_members<U, n>();
      if constexpr (has_reference(decltype(take_apart<kCount, true>(object)){})) {
        refuse<T&>();
      } else {
        constexpr auto& list = MemberNames<U, kCount>::kList;
        walk_members<T>({list.data(), list.size()}, take_apart<kCount, false>(object));
      }
    }
  }

  Visit& visit_;
  std::string path_;
};

}  // namespace detail

/// Calls `visit(path, leaf)` for every Leaf in the model, in the order of declaration. The path is
/// a `const std::string&` such as `l1.W` or `layers.0.attn.q.b`, valid during the call; the leaf is
/// a `Leaf&`, or a `const Leaf&` if the model, or the member, is const. Elements of containers,
/// tuples and pairs are named by their index, those of a map by their key; an optional or a pointer
/// adds nothing to the path, and is passed by if empty. A leaf that two pointers share is visited
/// twice, under two paths.
template <class Leaf, class Model, class Visit>
void for_each_leaf(Model& model, Visit&& visit) {
  detail::Walker<Leaf, std::remove_reference_t<Visit>>(visit).walk(model);
}

}  // namespace tensorgrad::reflect
