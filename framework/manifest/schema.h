// Option schemas at run time, and checking compositions against them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/config/node.h"
#include "framework/manifest/manifest_writer.h"

namespace attnlab {

/// What depends on a key of an experiment. Each role has those before it, too.
enum class Role {
  none,        ///< nothing: names, seeds, what a finished run is asked
  identity,    ///< the hash of a run: what it records beside its numbers
  comparison,  ///< its numbers: runs that are compared must agree in it
  cost,        ///< what a step costs
};

/// A rule of a key in the host's own files.
struct KeyRule : Rule {
  Role role = Role::cost;
  bool single = false;  ///< of a list: its only item may stand for it
  bool filled = false;  ///< what must be given must not be empty
};

/// @param role  of the key and of all keys below it
constexpr KeyRule counts_for(Role role, const Rule& rule = {}) { return {rule, role}; }
constexpr KeyRule one_or_more(const Rule& rule = {}) { return {rule, Role::cost, true}; }
constexpr KeyRule filled(const Rule& rule = {}) {
  return {required(rule), Role::cost, false, true};
}

/// One option of a part, as its manifest declares it, or one key of a file.
struct OptionSpec {
  enum class Type {
    boolean,
    integer,
    real,
    string,
    group,  ///< holds options
    map,    ///< holds groups that are alike, under names which the composition chooses
  };

  std::string name;
  Type type = Type::string;
  bool list = false;      ///< of values, or of groups
  bool required = false;  ///< something must be given
  bool filled = false;    ///< a text, a list or a group that is not empty
  bool optional = false;  ///< what is not given stays away, a group with all that it holds
  bool single = false;    ///< of a list: its only item may stand for it
  Role role = Role::cost;
  Node default_value;  ///< null where there is none
  std::optional<double> low, high;
  std::vector<std::string> choices;
  std::string help;
  /// Of a group: what it holds; nothing where somebody else knows its keys. Of a map: first the
  /// group that any name stands for (called NAME), then the same group by each name that is known
  /// (`with_names`).
  std::vector<OptionSpec> options;

  /// A group or a map, which has no value of its own.
  bool holds_options() const { return !list && (type == Type::group || type == Type::map); }
  /// "float in [0, 1]", "list of int >= 1", "pre | post": for help and messages.
  std::string type_text() const;
};

using Schema = std::vector<OptionSpec>;

/// An option without a default, of any value.
OptionSpec make_option(std::string name, OptionSpec::Type type, std::string help);

/// An option that holds others.
OptionSpec make_group(std::string name, Schema options, std::string help);

/// Whether a value stands for one that is still to be given: `???` without quotes.
bool must_be_given(const Node& value);

/// @param json  a JSON list as `write_schema` makes it. @throws Error when it is none, and for an
///              option that no composition could set or that its own default does not fit.
Schema parse_schema(const std::string& json);

namespace detail {
template <class T>
inline constexpr bool kOptional = false;
template <class T>
inline constexpr bool kOptional<std::optional<T>> = true;
template <class T>
inline constexpr bool kGroups = false;
template <OptionsStruct T>
inline constexpr bool kGroups<std::vector<T>> = true;
}  // namespace detail

/// Visits a struct of the host itself. Beside what options are, its members may be vectors of
/// groups and `std::optional`, and its rules may be a `KeyRule`.
class SchemaBuilder {
 public:
  template <class T>
  void operator()(std::string_view name, const T& member, std::string_view help) {
    (*this)(name, member, KeyRule{}, help);
  }
  template <class T>
  void operator()(std::string_view name, const T& member, const Rule& rule, std::string_view help) {
    (*this)(name, member, KeyRule{rule}, help);
  }
  template <class T>
  void operator()(std::string_view name, const T& member, const KeyRule& rule,
                  std::string_view help) {
    OptionSpec spec = spec_of(name, member, rule, help);
    spec.required = rule.required;
    spec.filled = rule.filled;
    spec.single = rule.single;
    spec.role = rule.role;
    schema_.push_back(std::move(spec));
  }

  template <OptionsStruct T>
  static Schema of(T defaults) {
    SchemaBuilder builder;
    defaults.describe(builder);
    return std::move(builder.schema_);
  }

 private:
  template <class T>
  static OptionSpec spec_of(std::string_view name, const T& member, const Rule& rule,
                            std::string_view help) {
    if constexpr (detail::kOptional<T>) {
      OptionSpec spec = spec_of(name, typename T::value_type{}, rule, help);
      spec.optional = true;
      spec.default_value = Node();
      return spec;
    } else if constexpr (OptionsStruct<T>) {
      return make_group(std::string(name), of(member), std::string(help));
    } else if constexpr (detail::kGroups<T>) {
      OptionSpec spec = spec_of(name, typename T::value_type{}, rule, help);
      spec.list = true;
      return spec;
    } else {
      JsonText out;
      out.open('[');
      SchemaWriter writer(out);
      writer(name, member, rule, help);
      return parse_schema(out.close(']').text()).front();
    }
  }

  Schema schema_;
};

/// The schema of a struct of the host itself.
template <OptionsStruct Options>
const Schema& schema_of() {
  static const Schema schema = SchemaBuilder::of(Options{});
  return schema;
}

/// Fills a struct of the host itself; only `read_keys` needs it.
class KeyReader {
 public:
  explicit KeyReader(const Node& values) : values_(values) {}

  template <class T>
  void operator()(std::string_view name, T& member, std::string_view help) {
    const Node* value = values_.find(name);
    if (value == nullptr || value->is_null()) return;
    if constexpr (detail::kOptional<T>) {
      (*this)(name, member.emplace(), help);
    } else if constexpr (OptionsStruct<T>) {
      read(*value, member);
    } else if constexpr (detail::kGroups<T>) {
      for (const Node& item : value->items()) read(item, member.emplace_back());
    } else {
      OptionReader reader(values_);
      reader(name, member, help);
    }
  }
  template <class T>
  void operator()(std::string_view name, T& member, const Rule&, std::string_view help) {
    (*this)(name, member, help);
  }

 private:
  template <OptionsStruct T>
  static void read(const Node& value, T& out) {
    KeyReader reader(value);
    out.describe(reader);
  }

  const Node& values_;
};

/// As `read_options`, of a struct of the host itself.
template <OptionsStruct T>
T read_keys(const Node& values) {
  T keys{};
  KeyReader reader(values);
  keys.describe(reader);
  return keys;
}

/// Checks `given` against a schema and fills in the defaults.
///
/// @param given     a map, or null for "all defaults"
/// @param path      what the map is called in messages, e.g. "model"
/// @param owner     whose schema it is, e.g. "model 'vit'"; defaults are recorded as its
/// @param problems  every problem is appended as "file:line:col: what; did you mean 'x'?"
/// @returns a map with every option of the schema, in its order; options with problems are left out
Node resolve_options(const Node& given, const Schema& schema, const std::string& path,
                     const std::string& owner, std::vector<std::string>& problems);

}  // namespace attnlab
