#include "framework/experiment/keys.h"

#include <fmt/format.h>

#include "framework/experiment/evaluations.h"
#include "framework/manifest/option_lookup.h"

namespace attnlab {
namespace {

OptionSpec format_key() {
  OptionSpec spec =
      make_option("schema", OptionSpec::Type::integer, "version of the file's format");
  spec.low = spec.high = 1;
  spec.required = true;
  return spec;
}

OptionSpec seeds_key() {
  OptionSpec spec = make_option("seeds", OptionSpec::Type::integer, "one run for each");
  spec.list = true;
  spec.low = 0;
  spec.default_value = Node::list();
  spec.default_value.items().push_back(Node::scalar("0"));
  return spec;
}

/// Entries of any names; what `set` and `over` hold are keys of the parts.
OptionSpec evaluate_keys() {
  Schema entry = {
      make_group("set", {}, "what is changed: options of model, attention, dataset, task"),
      make_group("over", {}, "values of keys: each combination is evaluated")};
  for (const OptionSpec& spec : schema_of<EvaluationOptions>()) entry.push_back(spec);
  OptionSpec keys = make_group("evaluate", {make_group("NAME", std::move(entry), "an evaluation")},
                               "what a finished run is asked beside its own test split, by name");
  keys.type = OptionSpec::Type::map;
  return keys;
}

/// The options of the plugin that a composition names for a part; null when it names none.
const Schema* options_of(const Node& composed, Kind kind, const Catalogue& catalogue) {
  const Node* part = composed.find(name_of(kind));
  if (part == nullptr) return nullptr;
  const Node* use = part->is_map() ? part->find("use") : part;
  if (use == nullptr) return nullptr;
  for (const Candidate* plugin : catalogue.usable(kind)) {
    const Manifest& manifest = *plugin->manifest;
    if (use->text() == manifest.name || use->text() == manifest.id) return &manifest.options;
  }
  return nullptr;
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
                               "what folders and tables call it; else the plugin's name"));
  }
  if (options != nullptr) keys.insert(keys.end(), options->begin(), options->end());
  return keys;
}

Schema experiment_keys(const Node& composed, const Catalogue& catalogue) {
  Schema keys = {format_key(),
                 make_option("name", OptionSpec::Type::string,
                             "what folders and tables call it; else the file's name")};
  const auto part = [&](Kind kind, const char* help) {
    const Schema* options = options_of(composed, kind, catalogue);
    keys.push_back(
        make_group(std::string(name_of(kind)), part_keys(kind, options, catalogue), help));
  };
  part(Kind::model, "what is trained");
  part(Kind::attention, "the mechanism of the model's attention layers");
  part(Kind::task, "loss, metrics and evaluation");
  part(Kind::dataset, "what is learned from");
  keys.push_back(
      make_group("init", schema_of<InitOptions>(), "what parameters begin with, if not at random"));
  keys.push_back(make_group("train", schema_of<TrainOptions>(), "how the model is trained"));
  keys.push_back(
      make_group("trace", schema_of<TraceOptions>(), "what is recorded of attention layers"));
  keys.push_back(evaluate_keys());
  keys.push_back(seeds_key());
  keys.push_back(make_group("published", schema_of<PublishedCounts>(),
                            "counts that a paper prints; --dry-run shows them beside ours"));
  return with_names(std::move(keys), composed);
}

}  // namespace attnlab
