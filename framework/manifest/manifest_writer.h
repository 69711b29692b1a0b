// Writes a plugin's manifest at compile time, from the declaration beside its code.
//
// The result is JSON text in a char array, so that it can stand in an ELF section and be read from
// the file without loading it (`readelf -p .attnlab.manifest PLUGIN.so` shows it).
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "framework/config/options.h"

namespace attnlab {

/// The four kinds of parts.
enum class Kind { attention, model, task, dataset };

constexpr std::string_view name_of(Kind kind) {
  constexpr std::array<std::string_view, 4> kNames = {"attention", "model", "task", "dataset"};
  return kNames[static_cast<std::size_t>(kind)];
}

/// A list of names that can be written in a constant expression.
struct Names {
  static constexpr std::size_t kMost = 64;

  std::array<std::string_view, kMost> items{};
  std::size_t count = 0;

  constexpr Names() = default;
  constexpr Names(std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) items.at(count++) = name;
  }
};

/// What a plugin says of itself beside its options and traits.
struct PluginInfo {
  std::string_view id{};        ///< "lab/name"; the name is what `use:` says
  std::string_view version{};   ///< "1.0.0"
  std::string_view summary{};   ///< one line
  std::string_view citation{};  ///< the paper or data to cite
  std::string_view licence{};   ///< SPDX identifier, of code or data
  Names takes{};                ///< fields and outputs that it needs: "image", "class", "logits"
  Names gives{};                ///< fields or outputs that it provides
  /// Attention traits that a model relies on: "causal". Of an attention "consecutive": its layers
  /// of a stack must follow each other, since each reads what the one before left in the state.
  Names needs{};
  /// Of a model: its options that say how many attention layers each of its stacks has: "depth".
  Names stacks{};
  /// A model that can hold many members (ModelSetup::members); a task whose `losses` of members are
  /// what `step` gives each of them.
  bool ensemble = false;
  /// Of a model: its layers go through `recomputed` (framework/contracts/recompute.h).
  bool recompute = false;
};

/// The number of the plugin contract; raised whenever a shared type or the entry changes meaning.
inline constexpr int kContractVersion = 4;
inline constexpr const char* kManifestSection = ".attnlab.manifest";
inline constexpr const char* kStampSection = ".attnlab.stamp";
inline constexpr const char* kSdkSection = ".attnlab.sdk";
inline constexpr const char* kEntrySymbol = "attnlab_plugin";

/// A constexpr JSON text builder; only what manifests need.
class JsonText {
 public:
  constexpr const std::string& text() const { return text_; }

  constexpr JsonText& open(char bracket) {
    separate();
    text_ += bracket;
    fresh_ = true;
    return *this;
  }
  constexpr JsonText& close(char bracket) {
    text_ += bracket;
    fresh_ = false;
    return *this;
  }
  constexpr JsonText& key(std::string_view name) {
    value(name);
    text_ += ':';
    fresh_ = true;
    return *this;
  }
  constexpr JsonText& value(std::string_view text) {
    separate();
    text_ += '"';
    for (const char c : text) append_escaped(c);
    text_ += '"';
    return *this;
  }
  constexpr JsonText& value(const char* text) { return value(std::string_view(text)); }
  constexpr JsonText& value(const std::string& text) { return value(std::string_view(text)); }
  constexpr JsonText& value(bool flag) {
    separate();
    text_ += flag ? "true" : "false";
    return *this;
  }
  constexpr JsonText& value(std::int64_t number) {
    separate();
    append_integer(number);
    return *this;
  }
  constexpr JsonText& value(double number) {
    separate();
    append_double(number);
    return *this;
  }
  template <class T>
  constexpr JsonText& value(const std::vector<T>& items) {
    open('[');
    for (const T& item : items) value(item);
    return close(']');
  }
  constexpr JsonText& value(const Names& names) {
    open('[');
    for (std::size_t i = 0; i < names.count; ++i) value(names.items[i]);
    return close(']');
  }
  template <class T>
  constexpr JsonText& member(std::string_view name, const T& item) {
    key(name);
    return value(item);
  }

 private:
  constexpr void separate() {
    if (!fresh_) text_ += ',';
    fresh_ = false;
  }
  constexpr void append_escaped(char c) {
    constexpr std::string_view kHex = "0123456789abcdef";
    if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      text_ += "\\u00";
      text_ += kHex[static_cast<unsigned char>(c) / 16];
      text_ += kHex[static_cast<unsigned char>(c) % 16];
    } else {
      text_ += c;
    }
  }
  constexpr void append_integer(std::int64_t number) {
    std::array<char, 24> digits{};
    std::size_t count = 0;
    const bool negative = number < 0;
    std::uint64_t rest = negative ? std::uint64_t{0} - static_cast<std::uint64_t>(number)
                                  : static_cast<std::uint64_t>(number);
    do {
      digits[count++] = static_cast<char>('0' + rest % 10);
      rest /= 10;
    } while (rest != 0);
    if (negative) text_ += '-';
    while (count > 0) text_ += digits[--count];
  }
  /// Exact: d * 10^-k where d and 10^k are exact doubles (every default that a person writes), else
  /// the bits. Such a d / 10^k is correctly rounded, so equality proves that reading it back gives
  /// the same double (Clinger 1990).
  constexpr void append_double(double number) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (number != number || number == kInfinity || number == -kInfinity) {  // YAML's words
      text_ += number != number ? "\".nan\"" : number > 0 ? "\".inf\"" : "\"-.inf\"";
      return;
    }
    constexpr double kExact = 9007199254740992.0;  // 2^53
    double power = 1;
    for (int k = 0; k <= 22; ++k, power *= 10) {
      const double scaled = number * power;
      if (scaled >= kExact || scaled <= -kExact) break;
      const auto near = static_cast<std::int64_t>(scaled + (scaled < 0 ? -0.5 : 0.5));
      if (static_cast<double>(near) / power != number) continue;
      append_integer(near);
      if (k > 0) {
        text_ += "e-";
        append_integer(k);
      }
      return;
    }
    text_ += "{\"bits\":";
    append_integer(std::bit_cast<std::int64_t>(number));
    text_ += '}';
  }

  std::string text_;
  bool fresh_ = true;
};

/// Visits an options struct and writes its schema as a JSON list.
class SchemaWriter {
 public:
  constexpr explicit SchemaWriter(JsonText& out) : out_(out) {}

  template <class T>
  constexpr void operator()(std::string_view name, const T& member, std::string_view help) {
    (*this)(name, member, Rule{}, help);
  }
  template <class T>
  constexpr void operator()(std::string_view name, const T& member, const Rule& rule,
                            std::string_view help) {
    out_.open('{').member("name", name);
    write_type(member);
    if constexpr (OptionsStruct<T>) {
      write_options(member);
    } else if constexpr (OptionsStruct<typename Element<T>::type> && Element<T>::named) {
      write_options(typename Element<T>::type{});
    } else if constexpr (Element<T>::named) {
      write_rule(rule);  // of each number
    } else {
      write_rule(rule);
      if (rule.required) {
        out_.member("required", true);
      } else {
        out_.member("default", member);
      }
    }
    out_.member("help", help).close('}');
  }

 private:
  template <class T>
  struct Element {
    using type = T;
    static constexpr bool list = false, named = false;
  };
  template <class T>
  struct Element<std::vector<T>> {
    using type = T;
    static constexpr bool list = true, named = false;
  };
  template <class T>
  struct Element<OptionMap<T>> {
    using type = T;
    static constexpr bool list = false, named = true;
  };

  template <OptionsStruct T>
  constexpr void write_options(T group) {
    out_.key("options").open('[');
    group.describe(*this);
    out_.close(']');
  }

  template <class T>
  constexpr void write_type(const T&) {
    using Item = typename Element<T>::type;
    if constexpr (OptionsStruct<T>) {
      out_.member("type", "group");
    } else if constexpr (Element<T>::named) {
      static_assert(OptionsStruct<Item> || std::is_same_v<Item, double>,
                    "an OptionMap holds structs with describe(), or doubles");
      out_.member("type", "map");
    } else if constexpr (std::is_same_v<Item, bool>) {
      static_assert(!Element<T>::list, "a list of booleans is not an option; use strings");
      out_.member("type", "bool");
    } else if constexpr (std::is_same_v<Item, std::int64_t>) {
      out_.member("type", "int");
    } else if constexpr (std::is_same_v<Item, double>) {
      out_.member("type", "float");
    } else {
      static_assert(std::is_same_v<Item, std::string>,
                    "an option is a bool, std::int64_t, double, std::string, a vector of the last "
                    "three, a struct with describe(), or an OptionMap of such structs or doubles");
      out_.member("type", "string");
    }
    if (Element<T>::list) out_.member("list", true);
  }
  constexpr void write_rule(const Rule& rule) {
    if (rule.low != Rule{}.low) out_.member("low", rule.low);
    if (rule.high != Rule{}.high) out_.member("high", rule.high);
    if (rule.choice_count == 0) return;
    out_.key("choices").open('[');
    for (std::size_t i = 0; i < rule.choice_count; ++i) out_.value(rule.choices[i]);
    out_.close(']');
  }

  JsonText& out_;
};

/// The schema of an options struct, as a JSON list.
template <OptionsStruct Options>
constexpr void write_schema(JsonText& out) {
  out.open('[');
  SchemaWriter writer(out);
  Options defaults{};
  defaults.describe(writer);
  out.close(']');
}

namespace detail {

/// A text of a compile-time function as an array that can be stored in a section.
template <class Source>
constexpr auto embed() {
  constexpr std::size_t kSize = Source::text().size();
  std::array<char, kSize + 1> stored{};
  const std::string text = Source::text();
  for (std::size_t i = 0; i < kSize; ++i) stored[i] = text[i];
  return stored;
}

}  // namespace detail
}  // namespace attnlab
