#include "framework/experiment/keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/experiment/evaluations.h"
#include "framework/experiment/experiment.h"
#include "framework/manifest/option_lookup.h"
#include "framework/manifest/python_file.h"

namespace attnlab {
namespace {

/// An entry of `evaluate`; what `set` and `over` hold are keys of the parts.
struct EvaluationKeys : EvaluationOptions {
  NoOptions set, over;
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("set", set, "what is changed: options of model, attention, dataset, task");
    v("over", over, "values of keys: each combination is evaluated");
    EvaluationOptions::describe(v);
  }
};

struct ExperimentKeys {
  std::int64_t schema = 1;
  std::optional<std::string> name;
  NoOptions model, attention, task, dataset;  // `part_keys` of the plugins that are named
  std::optional<InitOptions> init;
  TrainOptions train;
  std::optional<TraceOptions> trace;
  OptionMap<EvaluationKeys> evaluate;
  std::vector<std::int64_t> seeds = {0};
  std::optional<PublishedCounts> published;
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("schema", schema, required(range(1, 1)), "version of the file's format");
    v("name", name, counts_for(Role::none), "name in folders and tables; default: the file's name");
    v("model", model, "what is trained");
    v("attention", attention, "the mechanism of the model's attention layers");
    v("task", task, "loss, metrics and evaluation");
    v("dataset", dataset, "data for training and evaluation");
    v("init", init, "initial parameters, if not random");
    v("train", train, "how the model is trained");
    v("trace", trace, counts_for(Role::identity), "what is recorded of attention layers");
    v("evaluate", evaluate, counts_for(Role::none),
      "further evaluations of a finished run, beside its own test split, by name");
    v("seeds", seeds, counts_for(Role::none, at_least(0)), "one run for each");
    v("published", published, counts_for(Role::none),
      "counts that a paper prints; --dry-run shows them beside ours");
  }
};

void keep_counted(Node& map, const Schema& schema, Role role) {
  for (const OptionSpec& spec : schema) {
    if (spec.role < role) {
      map.erase(spec.name);
    } else if (Node* group = map.find(spec.name); group != nullptr && spec.holds_options()) {
      keep_counted(*group, spec.options, role);
    }
  }
}

/// The options of the plugin that a section names; null when it names none.
/// @param part  the section; null where the composition has none
const Schema* options_of(const Node* part, Kind kind, const Catalogue& catalogue) {
  if (part == nullptr) return nullptr;
  const Node* use = part->is_map() ? part->find("use") : part;
  if (use == nullptr) return nullptr;
  if (kind != Kind::task && is_python(*part)) {
    try {
      return &python_file(located_name(*part), kind).candidate.manifest->options;
    } catch (const PluginError&) {  // its own check says what is wrong
      return nullptr;
    }
  }
  for (const Candidate* plugin : catalogue.usable(kind)) {
    const Manifest& manifest = *plugin->manifest;
    if (use->text() == manifest.name || use->text() == manifest.id) return &manifest.options;
  }
  return nullptr;
}

/// `layers` of an attention.
/// @param section  keys of what stands below one of its keys
OptionSpec layers_key(const Schema& section) {
  OptionSpec key = make_option("layers", OptionSpec::Type::map,
                               "what some layers have instead: first, last, every_4, 2, 4-7 "
                               "(counted from 0), first+last, each {use: NAME, options...}");
  key.optional = true;
  key.options = {make_group("NAME", section, "the mechanism of these layers")};
  return key;
}

OptionSpec* find_named(Schema& schema, std::string_view name) {
  const auto found = std::find_if(schema.begin(), schema.end(),
                                  [&](const OptionSpec& one) { return one.name == name; });
  return found == schema.end() ? nullptr : &*found;
}

/// Adds to the keys of each mechanism of `attention.layers` the options of its plugin.
void add_options_of_layers(Schema& keys, const Node& composed, const Catalogue& catalogue) {
  const Node* attention = composed.find("attention");
  const Node* layers = attention == nullptr ? nullptr : attention->find("layers");
  if (layers == nullptr) return;
  OptionSpec* key = find_named(find_named(keys, "attention")->options, "layers");
  for (const auto& [name, section] : layers->entries()) {
    const Schema* options = options_of(&section, Kind::attention, catalogue);
    if (options == nullptr) continue;
    Schema& known = find_named(key->options, name)->options;
    known.insert(known.end(), options->begin(), options->end());
  }
}

}  // namespace

Schema part_keys(Kind kind, const Schema* options, const Catalogue& catalogue) {
  const std::string kind_name(name_of(kind));
  OptionSpec use = make_option("use", OptionSpec::Type::string,
                               fmt::format("name of the {}'s plugin", kind_name));
  use.choices = catalogue.names(kind);
  use.required = true;
  Schema keys = {use};
  if (kind == Kind::attention) {
    keys.push_back(make_option("as", OptionSpec::Type::string,
                               "label in folders and tables; default: the plugin's name"));
    keys.push_back(layers_key(keys));
    keys.push_back(
        make_group("projection", schema_of<ProjectionOptions>(),
                   "how layers compute keys and values: with fewer heads, or of low rank"));
    keys.back().optional = true;
    keys.push_back(make_group(
        "positions", schema_of<PositionsOptions>(),
        "which positions layers give to the attention: a kind, or {use: KIND, options...}"));
    keys.back().optional = true;
  }
  if (options != nullptr) keys.insert(keys.end(), options->begin(), options->end());
  return keys;
}

const Schema& experiment_keys() { return schema_of<ExperimentKeys>(); }

Schema experiment_keys(const Node& composed, const Catalogue& catalogue) {
  Schema keys = experiment_keys();
  for (OptionSpec& key : keys) {
    for (const Kind kind : {Kind::model, Kind::attention, Kind::task, Kind::dataset}) {
      if (key.name != name_of(kind)) continue;
      const Node* part = composed.find(name_of(kind));
      key.options = part_keys(kind, options_of(part, kind, catalogue), catalogue);
    }
  }
  keys = with_names(std::move(keys), composed);
  add_options_of_layers(keys, composed, catalogue);
  return keys;
}

Role role_of(const KeyPath& path) {
  Role role = Role::cost;
  const Schema* keys = &experiment_keys();
  for (const std::string_view name : path) {
    const auto key = std::find_if(keys->begin(), keys->end(),
                                  [&](const OptionSpec& one) { return one.name == name; });
    if (key == keys->end()) break;
    role = std::min(role, key->role);
    keys = &key->options;
  }
  return role;
}

Node counted(Node config, Role role) {
  keep_counted(config, experiment_keys(), role);
  return config;
}

}  // namespace attnlab
