#include "framework/suites/json_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/comparison/comparison.h"
#include "framework/experiment/compositions.h"
#include "framework/experiment/experiment.h"
#include "framework/experiment/keys.h"
#include "framework/manifest/option_lookup.h"
#include "framework/manifest/python_file.h"
#include "framework/suites/suite_keys.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;  // editors show keys in this order

constexpr Kind kKinds[] = {Kind::model, Kind::attention, Kind::task, Kind::dataset};
/// A text with a reference, or `???`, may stand for a value of any type.
constexpr const char* kLater = R"(\$\{|^\?\?\?$)";
/// `is_python_name`: "mine.py", "folder/mine.py:Mine".
constexpr const char* kPythonName = R"(.\.py(:[^/]*)?$)";

Json reference_to(const std::string& definition) { return {{"$ref", "#/$defs/" + definition}}; }

Json number_or_nothing(double value) {
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  return whole ? Json(static_cast<std::int64_t>(value)) : Json(finite_or_null(value));
}

Json json_of(const Node& value) {
  if (value.is_list()) {
    Json list = Json::array();
    for (const Node& item : value.items()) list.push_back(json_of(item));
    return list;
  }
  if (const auto integer = value.as_int()) return *integer;
  if (const auto number = value.as_double()) return number_or_nothing(*number);
  if (const auto truth = value.as_bool()) return *truth;
  return value.is_null() ? Json(nullptr) : Json(value.text());
}

Json choice_of(const std::vector<std::string>& choices) {
  Json names = Json::array();
  for (const std::string& choice : choices) names.push_back(choice);
  names.push_back(nullptr);
  return {{"anyOf", {{{"enum", names}}, {{"type", "string"}, {"pattern", kLater}}}}};
}

/// One value, without description: limits apply to numbers and the pattern to texts only.
Json scalar_schema(const OptionSpec& spec) {
  if (!spec.choices.empty()) return choice_of(spec.choices);
  switch (spec.type) {
    case OptionSpec::Type::boolean:
      return {{"type", {"boolean", "string", "null"}}, {"pattern", kLater}};
    case OptionSpec::Type::string:  // what is not quoted may look like anything
      return {{"type", {"string", "number", "boolean", "null"}}};
    default:
      break;
  }
  const bool whole = spec.type == OptionSpec::Type::integer;
  Json out = {{"type", {whole ? "integer" : "number", "string", "null"}}, {"pattern", kLater}};
  if (spec.low && std::isfinite(*spec.low)) out["minimum"] = number_or_nothing(*spec.low);
  if (spec.high && std::isfinite(*spec.high)) out["maximum"] = number_or_nothing(*spec.high);
  return out;
}

Json files_schema() {
  return {{"description", "files to begin with, left to right, relative to this file"},
          {"anyOf", {{{"type", "string"}}, {{"type", "array"}, {"items", {{"type", "string"}}}}}}};
}

void close_map(Json& map, const std::vector<std::string>& removable) {
  map["properties"]["extends"] = files_schema();
  map["patternProperties"][fmt::format("^({})-$", join(removable, "|"))] = {
      {"type", "null"}, {"description", "removes the key and everything below it"}};
  map["additionalProperties"] = false;
}

void add_list_edits(Json& properties, const std::string& name, const Json& items) {
  properties[name + "+"] = {
      {"type", "array"}, {"items", items}, {"description", "appends to " + name}};
  properties[name + "-"] = {
      {"type", {"array", "null"}},
      {"items", items},
      {"description", fmt::format("removes items of {}; without a value: all of them", name)}};
}

Json map_schema(const Schema& options);
Json option_schema(const OptionSpec& spec);

/// A map of free names.
Json free_names_schema(const OptionSpec& spec) {
  const OptionSpec& any = spec.options.front();
  return {
      {"type", {"object", "string", "null"}},
      {"pattern", kLater},
      {"properties", {{"extends", files_schema()}}},
      {"patternProperties",
       {{"-$", {{"type", "null"}, {"description", "removes the key and everything below it"}}}}},
      {"additionalProperties", any.holds_options() ? map_schema(any.options) : scalar_schema(any)}};
}

Json value_schema(const OptionSpec& spec) {
  if (spec.type == OptionSpec::Type::map) return free_names_schema(spec);
  if (spec.type != OptionSpec::Type::group) return scalar_schema(spec);
  if (!spec.options.empty()) return map_schema(spec.options);
  return {{"type", {"object", "string", "null"}}, {"pattern", kLater}};
}

/// One item of a list. A map among them is whole: composing changes nothing in it.
Json item_schema(const OptionSpec& spec) {
  if (spec.options.empty()) return value_schema(spec);
  Json item = {{"type", "object"}, {"required", Json::array()}, {"additionalProperties", false}};
  for (const OptionSpec& one : spec.options) {
    item["properties"][one.name] = option_schema(one);
    if (one.required) item["required"].push_back(one.name);
  }
  return item;
}

Json option_schema(const OptionSpec& spec) {
  Json out = value_schema(spec);
  if (spec.list) {
    const Json list = {
        {"type", {"array", "string", "null"}}, {"items", item_schema(spec)}, {"pattern", kLater}};
    out = spec.single ? Json{{"anyOf", {list, out}}} : list;
  }
  if (!spec.help.empty()) out["description"] = spec.help;
  const Json otherwise = json_of(spec.default_value);
  if (!otherwise.is_null()) out["default"] = otherwise;
  return out;
}

Json map_schema(const Schema& options) {
  Json map = {{"type", {"object", "string", "null"}}, {"pattern", kLater}};
  std::vector<std::string> removable;
  for (const OptionSpec& spec : options) {
    map["properties"][spec.name] = option_schema(spec);
    if (spec.list) {
      add_list_edits(map["properties"], spec.name, item_schema(spec));
    } else {
      removable.push_back(spec.name);
    }
  }
  close_map(map, removable);
  return map;
}

// ---- Python files

/// A class in a Python file as a composition names it.
struct NamedFile {
  std::string name;  ///< "ideas/mine.py:Mine"
  Json section;      ///< what a section is that names it
  const Manifest* manifest = nullptr;
};

Json with_use(const std::string& use) { return {{"use", {{"const", use}}}}; }

/// Adds what a node, or one below it, names.
void add_named_files(const Node& node, std::vector<NamedFile>& out) {
  if ((node.is_scalar() || node.is_map()) && is_python(node)) {
    try {
      NamedFile one{named_plugin(node), {}, nullptr};
      one.manifest = &*python_file(located_name(node)).candidate.manifest;
      const Node& use = node.is_map() ? node.at("use") : node;
      one.section = {{"required", {"use"}}, {"properties", with_use(use.text())}};
      if (use.text() == kPython) {
        one.section["required"] = {"use", "file"};
        one.section["properties"]["file"] = {{"const", python_name(node).file}};
      }
      const auto same = [&](const NamedFile& other) { return other.section == one.section; };
      if (std::none_of(out.begin(), out.end(), same)) out.push_back(std::move(one));
    } catch (const PluginError&) {  // no file, or its own check says what is wrong with it
    }
  }
  for (const Node& item : node.items()) add_named_files(item, out);
  for (const auto& [key, value] : node.entries()) add_named_files(value, out);
}

/// What every section of a Python file may hold.
Schema keys_of_files() {
  return {make_option("file", OptionSpec::Type::string, "the Python file"),
          make_option("class", OptionSpec::Type::string, "the class in it, where it has several"),
          make_group("options", {}, "options of the class")};
}

Json python_use() {
  return {{"anyOf", {{{"const", kPython}}, {{"type", "string"}, {"pattern", kPythonName}}}}};
}

// ---- parts

Json names_schema(Kind kind, const Catalogue& catalogue) {
  Json names = Json::array();
  Json ids = Json::array();
  for (const Candidate* plugin : catalogue.usable(kind)) {
    const Manifest& manifest = *plugin->manifest;
    names.push_back({{"const", manifest.name}, {"description", manifest.summary}});
    ids.push_back(manifest.id);
  }
  if (!ids.empty()) names.push_back({{"enum", ids}});
  if (kind != Kind::task) names.push_back(python_use());
  names.push_back({{"type", "string"}, {"pattern", kLater}});
  return {{"anyOf", names}};
}

/// A part's map: the keys that all plugins of the kind have in common, and some options.
Json part_map(Kind kind, const Schema& options, const Catalogue& catalogue) {
  Json map = map_schema(part_keys(kind, &options, catalogue));
  map["properties"]["use"] = reference_to(std::string(name_of(kind)) + ".name");
  if (kind == Kind::attention) {
    map["properties"]["layers"]["additionalProperties"] = reference_to("attention");
    Json& positions = map["properties"]["positions"];
    const Json kinds = choice_of(find_option(schema_of<PositionsOptions>(), "use")->choices);
    positions = {{"anyOf", {kinds, positions}}};
  }
  return map;
}

/// Where the file itself does not say which plugin, any plugin's options may stand.
Json any_part_map(Kind kind, const Catalogue& catalogue) {
  Schema united;
  std::vector<std::pair<std::string, Json>> meanings;
  for (const Candidate* plugin : catalogue.usable(kind)) {
    for (const OptionSpec& spec : plugin->manifest->options) {
      if (find_option(united, spec.name) == nullptr) united.push_back(spec);
      meanings.emplace_back(spec.name, option_schema(spec));
    }
  }
  Json map = part_map(kind, united, catalogue);
  for (const OptionSpec& spec : united) {
    Json different = Json::array();
    for (const auto& [name, meaning] : meanings) {
      if (name != spec.name) continue;
      if (std::find(different.begin(), different.end(), meaning) == different.end()) {
        different.push_back(meaning);
      }
    }
    if (different.size() > 1) map["properties"][spec.name] = {{"anyOf", different}};
  }
  return map;
}

/// Adds definitions of parts in Python, "model.python" and one for each file, "model.net.py".
/// @param rules  get what a section is that names one
void define_files(Json& definitions, Kind kind, const Catalogue& catalogue,
                  const std::vector<NamedFile>& files, Json& rules) {
  const std::string key(name_of(kind));
  Json others = Json::array();
  for (const NamedFile& file : files) {
    if (file.manifest->kind != kind) continue;
    const std::string definition = fmt::format("{}.{}", key, file.name);
    definitions[definition] = part_map(kind, file.manifest->options, catalogue);
    Json condition = file.section;
    condition["type"] = "object";
    others.push_back(file.section);
    rules.push_back({{"if", condition}, {"then", reference_to(definition)}});
  }
  definitions[key + ".python"] = part_map(kind, keys_of_files(), catalogue);
  Json any = {{"type", "object"}, {"required", {"use"}}, {"properties", {{"use", python_use()}}}};
  if (!others.empty()) any["not"] = {{"anyOf", others}};
  rules.push_back({{"if", any}, {"then", reference_to(key + ".python")}});
}

/// Adds `model`, `model.name`, `model.any` and a definition for each plugin, "model.vit".
void define_part(Json& definitions, Kind kind, const Catalogue& catalogue,
                 const std::vector<NamedFile>& files) {
  const std::string key(name_of(kind));
  definitions[key + ".name"] = names_schema(kind, catalogue);
  definitions[key + ".any"] = any_part_map(kind, catalogue);
  Json known = Json::array();
  Json rules = Json::array();
  Json short_form = reference_to(key + ".name");
  if (kind == Kind::attention) {  // the name of a composition stands for it, too
    Json composed = Json::array();
    for (const auto& [name, files] : compositions(key)) composed.push_back(name);
    if (!composed.empty()) short_form = {{"anyOf", {short_form, {{"enum", composed}}}}};
  }
  rules.push_back({{"if", {{"type", "string"}}}, {"then", short_form}});
  for (const Candidate* plugin : catalogue.usable(kind)) {
    const Manifest& manifest = *plugin->manifest;
    definitions[fmt::format("{}.{}", key, manifest.name)] =
        part_map(kind, manifest.options, catalogue);
    known.push_back(manifest.name);
    known.push_back(manifest.id);
    const Json named = {{"use", {{"enum", {manifest.name, manifest.id}}}}};
    rules.push_back({{"if", {{"type", "object"}, {"required", {"use"}}, {"properties", named}}},
                     {"then", reference_to(fmt::format("{}.{}", key, manifest.name))}});
  }
  Json any_known = {{"use", {{"enum", known}}}};
  if (kind != Kind::task) {
    define_files(definitions, kind, catalogue, files, rules);
    any_known = {{"use", {{"anyOf", {{{"enum", known}}, python_use()}}}}};
  }
  rules.push_back(
      {{"if", {{"type", "object"}, {"not", {{"required", {"use"}}, {"properties", any_known}}}}},
       {"then", reference_to(key + ".any")}});
  definitions[key] = {{"type", {"object", "string"}}, {"allOf", rules}};
}

// ---- whole files

/// Puts what schemas of options cannot say into an entry of `evaluate`.
void complete_entry(Json& entry) {
  Json parts = Json::object();
  for (const Kind kind : kKinds)
    parts[std::string(name_of(kind))] = reference_to(std::string(name_of(kind)));
  Json& properties = entry["properties"];
  properties["set"]["properties"] = parts;
  properties["set"]["additionalProperties"] = false;
  const Json values = {{"type", "array"}, {"items", {{"type", {"string", "number", "boolean"}}}}};
  properties["over"] = {{"type", "object"},
                        {"description", properties["over"]["description"]},
                        {"additionalProperties", values}};
}

Json experiment_map(const Catalogue& catalogue) {
  const Schema keys = experiment_keys(Node(), catalogue);
  Json map = map_schema(keys);
  for (const Kind kind : kKinds) {
    const std::string key(name_of(kind));
    Json& part = map["properties"][key];
    part = reference_to(key);
    part["description"] = find_option(keys, key)->help;
  }
  complete_entry(map["properties"]["evaluate"]["additionalProperties"]);
  map["type"] = "object";
  map.erase("pattern");
  map["properties"]["schema"] = {{"const", 1}, {"description", find_option(keys, "schema")->help}};
  return map;
}

/// An entry of a suite's `attentions` that brings changes of the experiment with it.
Json attention_with_changes() {
  return {{"type", "object"},
          {"properties",
           {{"use", reference_to("attention.name")}, {"set", reference_to("experiment")}}},
          {"required", {"use", "set"}}};
}

Json suite_map(const Catalogue& catalogue) {
  const Schema keys = suite_keys(catalogue);
  Json map = map_schema(keys);
  map["type"] = "object";
  map.erase("pattern");
  Json& properties = map["properties"];
  properties["schema"] = {{"const", 1}, {"description", find_option(keys, "schema")->help}};
  for (const char* list : {"attentions", "attentions+", "attentions-"}) {
    properties[list]["items"] = {{"anyOf", {reference_to("attention"), attention_with_changes()}}};
  }
  for (const char* changes : {"set", "fallback"}) {
    properties[changes] = reference_to("experiment");
    properties[changes]["description"] = find_option(keys, changes)->help;
  }
  return map;
}

/// What a file must hold unless it extends others.
void require(Json& schema, const std::vector<std::string>& keys) {
  schema["if"] = {{"not", {{"required", {"extends"}}}}};
  schema["then"] = {{"required", keys}};
}

}  // namespace

const std::vector<std::string>& schema_kinds() {
  static const std::vector<std::string> kinds = {"experiment", "suite", "base",   "model",
                                                 "attention",  "task",  "dataset"};
  return kinds;
}

std::string json_schema(const std::string& kind, const Catalogue& catalogue,
                        const std::vector<Node>& compositions) {
  const auto& kinds = schema_kinds();
  if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) {
    throw ConfigError(fmt::format("there is no schema of '{}'{}", kind, suggestion(kind, kinds)));
  }
  Json definitions;
  std::vector<NamedFile> files;
  for (const Node& composition : compositions) add_named_files(composition, files);
  for (const Kind part : kKinds) define_part(definitions, part, catalogue, files);
  definitions["experiment"] = experiment_map(catalogue);
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                 {"title", "attnlab " + kind}};
  if (kind == "suite") {
    definitions["suite"] = suite_map(catalogue);
    schema.update(reference_to("suite"));
    require(schema, {"schema", "attentions", "experiments"});
  } else if (kind == "experiment" || kind == "base") {
    schema.update(reference_to("experiment"));
    if (kind == "experiment") require(schema, {"schema", "model", "attention", "task", "dataset"});
  } else {
    schema.update(reference_to(kind));
  }
  schema["$defs"] = std::move(definitions);
  return json_text(schema);
}

}  // namespace attnlab
