#include "framework/manifest/schema_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "framework/base/foreign_text.h"
#include "framework/base/text.h"

namespace attnlab {
namespace {

using nlohmann::json;

/// A number as manifests write it: plain, by its bits where it has no short decimal form, or in
/// YAML's words.
double number_of(const json& value) {
  if (value.is_object()) return std::bit_cast<double>(value.at("bits").get<std::int64_t>());
  if (!value.is_string()) return value.get<double>();
  const auto special = Node::scalar(value.get<std::string>()).as_double();
  if (!special) throw Error(fmt::format("'{}' is not a number", value.get<std::string>()));
  return *special;
}

Node node_of(const json& value) {
  if (value.is_array()) {
    Node list = Node::list();
    for (const json& item : value) list.items().push_back(node_of(item));
    return list;
  }
  if (value.is_object()) return Node::scalar(shortest(number_of(value)));
  if (value.is_string()) return Node::scalar(value.get<std::string>(), {}, true);
  if (value.is_number_float()) return Node::scalar(shortest(value.get<double>()));
  return Node::scalar(value.dump());
}

/// Floats that JSON cannot write stand in manifests as YAML's words.
void unquote_special_floats(Node& value) {
  if (value.is_list()) {
    for (Node& item : value.items()) unquote_special_floats(item);
  } else if (value.quoted()) {
    value = Node::scalar(value.text());
  }
}

Schema parse(const json& list);

/// Whether compositions can set it: dots part keys, `a+` and `a-` add to a list and take from it.
bool can_be_key(const std::string& name) {
  return !name.empty() && one_line(name) == name && name.find('.') == std::string::npos &&
         name.back() != '+' && name.back() != '-' && name != "extends";
}

OptionSpec parse_option(const json& entry) {
  OptionSpec spec;
  spec.name = entry.at("name").get<std::string>();
  if (!can_be_key(spec.name)) {
    throw Error(fmt::format("'{}' cannot be the name of an option", one_line(spec.name)));
  }
  const std::string type = entry.at("type").get<std::string>();
  if (type == "group") {
    spec.type = OptionSpec::Type::group;
    spec.options = parse(entry.at("options"));
  } else if (type == "map") {
    spec.type = OptionSpec::Type::map;
    if (entry.contains("options")) {
      spec.options = {make_group("NAME", parse(entry.at("options")), "what a name stands for")};
    } else {
      spec.options = {make_option("NAME", OptionSpec::Type::real, "a number")};
    }
  } else if (type == "bool") {
    spec.type = OptionSpec::Type::boolean;
  } else if (type == "int") {
    spec.type = OptionSpec::Type::integer;
  } else if (type == "float") {
    spec.type = OptionSpec::Type::real;
  } else if (type != "string") {
    throw Error(fmt::format("option '{}' has the unknown type '{}'", spec.name, one_line(type)));
  }
  spec.list = entry.value("list", false);
  spec.required = entry.value("required", false);
  spec.help = one_line(entry.value("help", ""));
  if (entry.contains("low")) spec.low = number_of(entry.at("low"));
  if (entry.contains("high")) spec.high = number_of(entry.at("high"));
  for (const auto& bound : {spec.low, spec.high}) {
    if (!bound || !std::isnan(*bound)) continue;
    throw Error(fmt::format("a bound of option '{}' is not a number", spec.name));
  }
  if (spec.low && spec.high && !(*spec.low <= *spec.high)) {
    throw Error(fmt::format("option '{}' has the empty range [{}, {}]", spec.name,
                            shortest(*spec.low), shortest(*spec.high)));
  }
  if (entry.contains("choices")) spec.choices = entry.at("choices").get<std::vector<std::string>>();
  for (const std::string& choice : spec.choices) {
    if (one_line(choice) == choice) continue;
    throw Error(fmt::format("'{}' cannot be a choice of option '{}'", one_line(choice), spec.name));
  }
  if (entry.contains("default")) {
    if (entry.at("default").is_null()) {
      throw Error(fmt::format("the default of option '{}' is nothing", spec.name));
    }
    spec.default_value = node_of(entry.at("default"));
    if (spec.type == OptionSpec::Type::real) unquote_special_floats(spec.default_value);
  }
  return spec;
}

Schema parse(const json& list) {
  Schema schema;
  for (const json& entry : list) {
    OptionSpec spec = parse_option(entry);
    const auto named = [&](const OptionSpec& other) { return other.name == spec.name; };
    if (std::any_of(schema.begin(), schema.end(), named)) {
      throw Error(fmt::format("option '{}' is declared twice", spec.name));
    }
    schema.push_back(std::move(spec));
  }
  return schema;
}

/// @throws Error for a default that the option itself would refuse.
void check_defaults(const Schema& schema) {
  for (const OptionSpec& spec : schema) {
    if (spec.holds_options()) {
      check_defaults(spec.options);
    } else if (!spec.required && !spec.default_value.is_null()) {
      Node given = Node::map();
      given.set(spec.name, spec.default_value);
      std::vector<std::string> problems;
      resolve_options(given, {spec}, "", "", problems);
      if (!problems.empty()) throw Error("the default of option " + problems.front());
    }
  }
}

}  // namespace

Schema schema_from(const json& list) {
  try {
    Schema schema = parse(list);
    check_defaults(schema);
    return schema;
  } catch (const json::exception& error) {
    throw Error(std::string("not a schema of options: ") + error.what());
  }
}

Schema parse_schema(const std::string& text) {
  try {
    return schema_from(json::parse(text));
  } catch (const json::exception& error) {
    throw Error(std::string("not a schema of options: ") + error.what());
  }
}

}  // namespace attnlab
