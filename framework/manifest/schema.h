// Option schemas at run time, and checking compositions against them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/config/node.h"
#include "framework/manifest/manifest_writer.h"

namespace attnlab {

/// One option of a part, as its manifest declares it.
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
  bool list = false;
  bool required = false;
  Node default_value;  ///< null where there is none
  std::optional<double> low, high;
  std::vector<std::string> choices;
  std::string help;
  /// Of a group: what it holds. Of a map: first the group that any name stands for (called NAME),
  /// then the same group by each name that is known (`with_names`).
  std::vector<OptionSpec> options;

  /// A group or a map, which has no value of its own.
  bool holds_options() const { return type == Type::group || type == Type::map; }
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

/// The schema of an options struct of the host itself.
template <OptionsStruct Options>
const Schema& schema_of() {
  static const Schema schema = [] {
    JsonText out;
    write_schema<Options>(out);
    return parse_schema(out.text());
  }();
  return schema;
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
