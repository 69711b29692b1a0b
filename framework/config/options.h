// Options: one declaration from which checking, help, completion and the manifest come.
//
// An options struct names each member once:
//
//   struct QuestOptions {
//     double eps = 1e-12;
//     template <class Visitor>
//     constexpr void describe(Visitor& v) {
//       v("eps", eps, range(0, 1), "floor of a key's norm");
//     }
//   };
//
// `describe` runs at compile time to write the schema into the plugin's manifest (so it must be
// constexpr) and at run time to fill the struct from a composition. Members may be bool, int64_t,
// double, std::string, vectors of the last three, another options struct (a group), or an
// `OptionMap` of one: options structs under names that the composition chooses. A rule is optional;
// a rule with `required()` has no default: the composition must give the value.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "framework/base/error.h"
#include "framework/config/node.h"

namespace attnlab {

/// Options structs by name, in the order in which the composition gives them; none by default:
/// `groups: {backbone: {lr_scale: 0.1}, head: {}}`.
/// Of doubles, an empty one stays out of what is resolved.
template <class Options>
using OptionMap = std::vector<std::pair<std::string, Options>>;

inline constexpr std::size_t kMostChoices = 64;

/// What values an option accepts. Numbers are bounded, both ends included; strings are chosen from
/// a list where it is not empty. Applies to each element of a list option.
struct Rule {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  std::array<std::string_view, kMostChoices> choices{};
  std::size_t choice_count = 0;
  bool required = false;
};

constexpr Rule range(double low, double high) {
  Rule rule;
  rule.low = low;
  rule.high = high;
  return rule;
}
constexpr Rule at_least(double low) { return range(low, std::numeric_limits<double>::infinity()); }
template <class... Strings>
constexpr Rule one_of(Strings... strings) {
  static_assert(sizeof...(Strings) <= kMostChoices, "an option has at most 64 choices");
  Rule rule;
  ((rule.choices[rule.choice_count++] = std::string_view(strings)), ...);
  return rule;
}
constexpr Rule required(Rule rule = {}) {
  rule.required = true;
  return rule;
}

namespace detail {
struct AnyVisitor {
  template <class T>
  constexpr void operator()(std::string_view, T&, std::string_view) {}
  template <class T>
  constexpr void operator()(std::string_view, T&, const Rule&, std::string_view) {}
};
}  // namespace detail

/// A struct with `template <class V> constexpr void describe(V&)`.
template <class T>
concept OptionsStruct = requires(T options, detail::AnyVisitor visitor) {
  options.describe(visitor);
};

/// A part without options.
struct NoOptions {
  template <class Visitor>
  constexpr void describe(Visitor&) {}
};

/// Fills an options struct from a resolved map: every option is present, checked against its
/// schema. Only `read_options` needs it.
class OptionReader {
 public:
  explicit OptionReader(const Node& values) : values_(values) {}

  template <class T>
  void operator()(std::string_view name, T& member, std::string_view) {
    const Node* value = values_.find(name);
    if (value == nullptr || value->is_null()) return;  // the struct's own default stands
    read(*value, member);
  }
  template <class T>
  void operator()(std::string_view name, T& member, const Rule&, std::string_view help) {
    (*this)(name, member, help);
  }

 private:
  static void read(const Node& value, bool& out);
  static void read(const Node& value, std::int64_t& out);
  static void read(const Node& value, double& out);
  static void read(const Node& value, std::string& out);
  template <class T>
  static void read(const Node& value, std::vector<T>& out) {
    out.clear();
    for (const Node& item : value.items()) {
      T element{};
      read(item, element);
      out.push_back(std::move(element));
    }
  }
  template <OptionsStruct T>
  static void read(const Node& value, T& out) {
    OptionReader reader(value);
    out.describe(reader);
  }
  template <OptionsStruct T>
  static void read(const Node& value, OptionMap<T>& out) {
    out.clear();
    for (const auto& [name, options] : value.entries())
      read(options, out.emplace_back(name, T{}).second);
  }
  static void read(const Node& value, OptionMap<double>& out) {
    out.clear();
    for (const auto& [name, number] : value.entries()) {
      read(number, out.emplace_back(name, 0.0).second);
    }
  }

  const Node& values_;
};

/// @param values  a resolved map of options (`resolve_options` makes one).
/// @throws ConfigError with the value's place when a value is not of the option's type.
template <OptionsStruct T>
T read_options(const Node& values) {
  T options{};
  OptionReader reader(values);
  options.describe(reader);
  return options;
}

}  // namespace attnlab
