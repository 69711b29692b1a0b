#include "framework/core/keys.h"

#include <algorithm>
#include <filesystem>

#include "framework/core/comparison.h"
#include "framework/core/experiment.h"
#include "framework/core/match.h"
#include "framework/core/text.h"

namespace attnlab {
namespace {

OptionSpec option(std::string name, OptionSpec::Type type, std::string help) {
  OptionSpec spec;
  spec.name = std::move(name);
  spec.type = type;
  spec.help = std::move(help);
  return spec;
}

OptionSpec group(std::string name, Schema options, std::string help) {
  OptionSpec spec = option(std::move(name), OptionSpec::Type::group, std::move(help));
  spec.options = std::move(options);
  return spec;
}

OptionSpec format_key() {
  OptionSpec spec = option("schema", OptionSpec::Type::integer, "version of the file's format");
  spec.low = spec.high = 1;
  spec.required = true;
  return spec;
}

OptionSpec seeds_key() {
  OptionSpec spec = option("seeds", OptionSpec::Type::integer, "one run for each");
  spec.list = true;
  spec.low = 0;
  spec.default_value = Node::list();
  spec.default_value.items().push_back(Node::scalar("0"));
  return spec;
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

void add_keys(const Schema& schema, const std::string& prefix, std::vector<std::string>& keys) {
  for (const OptionSpec& spec : schema) {
    keys.push_back(prefix + spec.name);
    add_keys(spec.options, prefix + spec.name + ".", keys);
  }
}

/// The key of a single value of this name below the schema's groups.
std::string deeper(const std::string& name, const Schema& schema) {
  for (const std::string& key : option_keys(schema)) {
    const std::size_t dot = key.rfind('.');
    if (dot == std::string::npos || key.substr(dot + 1) != name) continue;
    if (find_option(schema, key)->type != OptionSpec::Type::group) return key;
  }
  return "";
}

/// "train.epochs" as a file writes it: "train: {epochs: ...}".
std::string nested(const std::string& key) {
  const std::size_t dot = key.find('.');
  if (dot == std::string::npos) return key + ": ...";
  return key.substr(0, dot) + ": {" + nested(key.substr(dot + 1)) + "}";
}

}  // namespace

Schema part_keys(Kind kind, const Schema* options, const Catalogue& catalogue) {
  const std::string kind_name(name_of(kind));
  OptionSpec use =
      option("use", OptionSpec::Type::string, "name of the " + kind_name + "'s plugin");
  use.choices = catalogue.names(kind);
  use.required = true;
  Schema keys = {use};
  if (kind == Kind::attention) {
    keys.push_back(option("as", OptionSpec::Type::string,
                          "what folders and tables call it; else the plugin's name"));
  }
  if (options != nullptr) keys.insert(keys.end(), options->begin(), options->end());
  return keys;
}

Schema experiment_keys(const Node& composed, const Catalogue& catalogue) {
  Schema keys = {format_key(), option("name", OptionSpec::Type::string,
                                      "what folders and tables call it; else the file's name")};
  const auto part = [&](Kind kind, const char* help) {
    const Schema* options = options_of(composed, kind, catalogue);
    keys.push_back(group(std::string(name_of(kind)), part_keys(kind, options, catalogue), help));
  };
  part(Kind::model, "what is trained");
  part(Kind::attention, "the mechanism of the model's attention layers");
  part(Kind::task, "loss, metrics and evaluation");
  part(Kind::dataset, "what is learned from");
  keys.push_back(group("train", schema_of<TrainOptions>(), "how the model is trained"));
  keys.push_back(group("trace", schema_of<TraceOptions>(), "what is recorded of attention layers"));
  keys.push_back(seeds_key());
  return keys;
}

/// The keys of `reference` (suite_reference.h); its values are a map of the user's own names.
Schema reference_keys() {
  return {option("source", OptionSpec::Type::string, "where the numbers stand"),
          option("metric", OptionSpec::Type::string, "what they are numbers of; else accuracy")};
}

Schema suite_keys(const Catalogue& catalogue) {
  const Schema experiment = experiment_keys(Node(), catalogue);
  const auto text = [](const char* name, const char* help, bool list) {
    OptionSpec spec = option(name, OptionSpec::Type::string, help);
    spec.list = list;
    return spec;
  };
  OptionSpec missing =
      text("missing_data", "what to do where an experiment's data are missing", false);
  missing.choices = {"error", "skip"};
  return {format_key(),
          text("name", "of the suite's folder; else the file's name", false),
          text("baseline", "label of the attention to compare with; else the first", false),
          text("attentions", "names, or maps with use, options and as, the label", true),
          text("experiments", "files relative to this one, or names", true),
          seeds_key(),
          group("grid", {}, "values of keys: each experiment at every combination of them"),
          text("pool", "what tables are pooled by; else all that the grid varies", true),
          group("set", experiment, "what to change in every experiment"),
          group("fallback", experiment, "what else to change where data are missing"),
          text("skip", "cells left out: experiment, attention, seeds, reason", true),
          missing,
          group("reference", reference_keys(), "a publication's numbers, shown beside these"),
          group("match", schema_of<MatchOptions>(), "what every attention has alike"),
          group("compare", schema_of<CompareOptions>(), "how the attentions are compared")};
}

const OptionSpec* find_option(const Schema& schema, std::string_view key) {
  const std::size_t dot = key.find('.');
  for (const OptionSpec& spec : schema) {
    if (spec.name != key.substr(0, dot)) continue;
    return dot == std::string_view::npos ? &spec : find_option(spec.options, key.substr(dot + 1));
  }
  return nullptr;
}

std::vector<std::string> option_keys(const Schema& schema) {
  std::vector<std::string> keys;
  add_keys(schema, "", keys);
  return keys;
}

std::string suggest_key(const std::string& word, const Schema& schema) {
  const bool dotted = word.find('.') != std::string::npos;
  if (dotted && find_option(schema, word) != nullptr) {
    return "; dots are for the command line, in a file write " + nested(word);
  }
  const std::string below = deeper(word, schema);
  if (!below.empty()) return "; did you mean '" + below + "'?";
  std::vector<std::string> names;
  for (const OptionSpec& spec : schema) names.push_back(spec.name);
  return suggestion(word, names);
}

std::map<std::string, std::vector<std::string>> compositions(const std::string& folder) {
  namespace fs = std::filesystem;
  std::map<std::string, std::vector<std::string>> all;
  for (const std::string& root :
       {std::string("configs"), Installation::of_this_program().configs()}) {
    std::map<std::string, std::vector<std::string>> here;
    std::error_code error;
    for (const auto& entry : fs::recursive_directory_iterator(root + "/" + folder, error)) {
      if (entry.path().extension() != ".yaml") continue;
      here[entry.path().stem().string()].push_back(entry.path().string());
    }
    all.merge(here);  // what stands in ./configs stays
  }
  for (auto& [name, files] : all) std::sort(files.begin(), files.end());
  return all;
}

}  // namespace attnlab
