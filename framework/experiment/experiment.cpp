#include "framework/experiment/experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/config/compose.h"
#include "framework/config/problems.h"
#include "framework/experiment/canonical.h"
#include "framework/experiment/evaluations.h"
#include "framework/experiment/fields.h"
#include "framework/experiment/identity.h"
#include "framework/experiment/init_source.h"
#include "framework/experiment/keys.h"
#include "framework/experiment/names.h"
#include "framework/experiment/part.h"
#include "framework/experiment/resolved_parts.h"
#include "framework/manifest/option_lookup.h"
#include "framework/manifest/python_file.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

template <class T>
bool contains(const std::vector<T>& list, const T& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

/// A key's value; null where it is not given or given as nothing, which means the default.
const Node* value_of(const Node& composed, const char* key) {
  const Node* value = composed.find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

/// Reads the values at the top of a file: schema, name and seeds.
/// @param name  the experiment's where the composition gives none
/// @returns the seeds; null where they are wrong
Node read_values(const Node& composed, const std::string& name, Experiment& experiment,
                 Problems& problems) {
  Schema keys;
  Node given = Node::map(composed.place());
  for (const OptionSpec& key : experiment_keys()) {
    if (key.holds_options()) continue;
    keys.push_back(key);
    if (const Node* value = composed.find(key.name)) given.set(key.name, *value);
  }
  const Node values = resolve_options(given, keys, "", "an experiment", problems);
  const Node* own = values.find("name");
  experiment.name = own == nullptr ? name : own->text();
  if (const std::string wrong = name_problem(experiment.name); !wrong.empty()) {
    add_problem(problems, own == nullptr ? composed.place() : own->place(), "name: " + wrong);
  }
  experiment.resolved.set("schema", Node::scalar("1", composed.place()));
  experiment.resolved.set("name", Node::scalar(experiment.name, composed.place()));
  const Node* seeds = values.find("seeds");
  if (seeds == nullptr) return {};
  if (seeds->items().empty()) {
    add_problem(problems, seeds->place(), "seeds: expected some integers, as [0, 1, 2]");
  }
  for (const Node& item : seeds->items()) {
    const std::int64_t seed = *item.as_int();
    if (contains(experiment.seeds, seed)) {
      add_problem(problems, item.place(), fmt::format("seeds: {} stands twice", item.text()));
    }
    experiment.seeds.push_back(seed);
  }
  return *seeds;
}

/// As `resolve_part`, once for each section.
/// @param known  null: nothing is known
const Manifest* part_once(const Node& composed, Kind kind, const Catalogue& catalogue, Part& part,
                          Node& resolved, Problems& problems, ResolvedParts* known) {
  const std::string key(name_of(kind));
  const Node* given = known == nullptr ? nullptr : value_of(composed, key.c_str());
  if (given == nullptr) return resolve_part(composed, kind, catalogue, part, resolved, problems);
  if (auto found = known->find(kind, *given)) {
    part = std::move(found->part);
    resolved.set(key, std::move(found->section));
    return found->manifest;
  }
  const std::size_t before = problems.size();
  const Manifest* manifest = resolve_part(composed, kind, catalogue, part, resolved, problems);
  if (problems.size() == before) known->add(*given, {part, resolved.at(key), manifest});
  return manifest;
}

/// Reads the parts, and checks that they fit together.
/// @param unfit  an attention that does not fit: a finding where nothing else is wrong
void read_parts(const Node& composed, const Catalogue& catalogue, Experiment& experiment,
                Problems& problems, Problems& unfit, ResolvedParts* known) {
  const auto part = [&](Kind kind, Part& out) {
    return part_once(composed, kind, catalogue, out, experiment.resolved, problems, known);
  };
  const Manifest* model = part(Kind::model, experiment.model);
  const Manifest* attention = part(Kind::attention, experiment.attention);
  const Manifest* task = part(Kind::task, experiment.task);
  const Manifest* dataset = part(Kind::dataset, experiment.dataset);
  if (model != nullptr && dataset != nullptr) {
    const DeclaredPart of_model{experiment.model, *model}, of_data{experiment.dataset, *dataset};
    check_fields(of_model, {of_data}, catalogue, problems);
    if (task != nullptr) {
      check_fields({experiment.task, *task}, {of_model, of_data}, catalogue, problems);
    }
  }
  if (model == nullptr || attention == nullptr) return;
  check_traits(experiment.model, *model, experiment.attention, *attention, unfit);
  check_positions(experiment.attention, experiment.attention, *attention, unfit);
  for (const Part& other : experiment.attention.others) {
    const Manifest& has = *catalogue.find(Kind::attention, lookup_name(other)).manifest;
    check_traits(experiment.model, *model, other, has, unfit);
    check_positions(experiment.attention, other, has, unfit);
  }
  check_stacks(stacks_of(experiment.model, *model), experiment.attention, catalogue, unfit);
}

/// @param given  a section as it is composed; null: it is not there
/// @returns the section with every option filled in; null where it has problems
template <OptionsStruct Options>
Node read_section(const Node* given, const std::string& key, Options& options, Problems& problems) {
  const std::size_t before = problems.size();
  Node section =
      resolve_options(given == nullptr ? Node() : *given, schema_of<Options>(), key, key, problems);
  if (problems.size() > before) return {};
  options = read_options<Options>(section);
  return section;
}

/// Reads `init`, `train` and `trace`.
void read_training(const Node& composed, Experiment& experiment, Problems& problems) {
  Node& resolved = experiment.resolved;
  if (const Node* init = value_of(composed, "init")) {
    resolved.set("init", read_section(init, "init", experiment.init.emplace(), problems));
  }
  resolved.set("train",
               read_section(value_of(composed, "train"), "train", experiment.train, problems));
  if (const Node* given = value_of(composed, "trace")) {
    Node trace = read_section(given, "trace", experiment.trace, problems);
    // `trace.every: 0` is the same experiment as none.
    if (experiment.trace.every > 0) resolved.set("trace", std::move(trace));
  }
}

/// Unknown keys at the top. What one of them may mean, the parts know too.
void check_top(const Node& composed, const Node& resolved, const Catalogue& catalogue,
               Problems& problems) {
  for (const auto& [key, value] : composed.entries()) {
    const auto named = [&name = key](const OptionSpec& spec) { return spec.name == name; };
    if (std::any_of(experiment_keys().begin(), experiment_keys().end(), named)) continue;
    add_problem(problems, composed.key_place(key),
                fmt::format("unknown key '{}' of an experiment{}", key,
                            suggest_key(key, experiment_keys(resolved, catalogue))));
  }
}

void check_trace(const Experiment& experiment, const Catalogue& catalogue, Problems& problems) {
  const TraceOptions& trace = experiment.trace;
  if (trace.every == 0) return;
  const Place& place = experiment.resolved.at("trace").at("record").place();
  if (trace.record.empty()) {
    add_problem(
        problems, place,
        fmt::format(
            "trace.record: names nothing to record; name some of {}, or set trace.every to 0",
            join(find_option(schema_of<TraceOptions>(), "record")->choices, ", ")));
  }
  // Which kind of token a key is of, only some datasets know.
  const Part& dataset = experiment.dataset;
  const bool known = experiment.resolved.find("dataset") != nullptr;
  if (!known || !contains<std::string>(trace.record, "key_norm_by_kind")) return;
  const std::vector<FieldRule> given =
      rules_under(catalogue.find(Kind::dataset, lookup_name(dataset)).manifest->gives, dataset);
  if (rule_of(given, "kind") != nullptr) return;
  add_problem(
      problems, place,
      fmt::format("trace.record: 'key_norm_by_kind' takes the field 'kind', which dataset '{}' "
                  "does not give (it gives {}); leave it out",
                  dataset.name, text_of(given)));
}

/// What cannot be computed again in the backward pass.
void check_recompute(const Experiment& experiment, const Catalogue& catalogue, Problems& problems) {
  const Node* const key = find_key(experiment.resolved, "train.recompute");
  if (experiment.train.recompute == "none" || key == nullptr) return;
  const auto refuse = [&](const std::string& why) {
    add_problem(problems, key->place(),
                fmt::format("train.recompute: {}; leave it out, or choose another", why));
  };
  const auto known = [&](const Part& part) {
    return experiment.resolved.find(name_of(part.kind)) != nullptr;
  };
  if (known(experiment.model) &&
      !catalogue.find(Kind::model, lookup_name(experiment.model)).manifest->recompute) {
    refuse(
        fmt::format("model '{}' has no layers that can be computed again", experiment.model.name));
  }
  if (!known(experiment.attention)) return;
  for (const Part* part : experiment.parts()) {
    if (part->kind != Kind::attention || !is_python_name(part->path)) continue;
    refuse(fmt::format("attention '{}' is a class in Python, which cannot be computed again",
                       part->name));
  }
}

/// Checks `evaluate`, which changes an experiment that is sound: of one that is not, the keys.
void check_evaluations(Experiment& experiment, const Catalogue& catalogue, Problems& problems,
                       Problems& unfit) {
  const Node* given = experiment.resolved.find("evaluate");
  const Node evaluate = given == nullptr ? Node() : *given;
  if (problems.empty()) {
    const Node entries = resolve_evaluations(evaluate, experiment, catalogue, problems, unfit);
    if (given != nullptr) experiment.resolved.set("evaluate", entries);
  } else if (given != nullptr) {
    check_evaluation_keys(evaluate, experiment, catalogue, problems);
  }
}

/// What composing found wrong, then what else is wrong with the tree: everything at once. Of a
/// place that composing complained about, nothing else is said.
Problems all_problems(const Composition& composition, const Catalogue& catalogue,
                      const std::string& name) {
  Problems all = composition.problems;
  try {
    resolve_experiment(composition.root, catalogue, name);
  } catch (const ConfigError& error) {
    add_elsewhere(all, composition.problems, error.what());
  }
  return all;
}

/// Younger than many runs: where they are the default, hashes are what they were without them.
bool is_young_default(const KeyPath& path, const Node& value) {
  if (path.front() != "train") return false;
  if (path.size() == 2) {
    return (path[1] == "precision" && value.text() == "float32") ||
           (path[1] == "parts" && value.as_int() == 1);
  }
  if (path.size() == 3 && path[1] == "schedule") {
    return path[2] == "warmup_prefix" && value.text() == "true";
  }
  if (path.size() < 3 || path[1] != "optimizer" || path.back() != "decay") return false;
  return path.size() == 3 ? value.text() == "matrices" : path.size() == 5 && value.text().empty();
}

/// An option that a model, dataset or task got when there were many runs of it, with the default
/// that changes nothing, as canonical text.
struct YoungOption {
  std::string_view plugin, option, value;
};
constexpr YoungOption kYoungOptions[] = {
    {"attnlab/timeseries_transformer", "positions", "\"sinusoidal\""},
    {"attnlab/transformer_xl", "positions", "\"relative\""},
    {"attnlab/transformer_xl", "mlp", "\"plain\""},
    {"attnlab/transformer_xl", "norm_kind", "\"layer\""},
    {"attnlab/transformer_xl", "swiglu_multiple", "256"},
    {"attnlab/text_stream", "form", "\"\""},
    {"attnlab/text_stream", "labels", "\"\""},
    {"attnlab/text_stream", "requests", "\"\""},
    {"attnlab/text_stream", "tokenizer", "\"\""},
    {"attnlab/language_modelling", "requests", "false"},
    {"attnlab/transformer_lm", "activation", "\"\""},
    {"attnlab/transformer_lm", "initial_std", "0.02"},
    {"attnlab/transformer_lm", "mlp", "\"plain\""},
    {"attnlab/transformer_lm", "norm", "\"layer\""},
    {"attnlab/transformer_lm", "swiglu_multiple", "256"},
    {"attnlab/vit", "mask_token", "false"},
    {"attnlab/vit", "mlp", "\"gelu\""},
    {"attnlab/vit", "norm", "\"layer\""},
    {"attnlab/vit", "registers", "0"},
    {"attnlab/vit", "swiglu_multiple", "256"},
    {"attnlab/segmenter", "backbone", "\"vit\""},
    {"attnlab/segmenter", "resnet", "50"},
    {"attnlab/segmenter", "stages", "4"},
    {"attnlab/segmenter", "swin", "\"T\""},
    {"attnlab/segmenter", "swin_window", "8"},
    {"attnlab/graph_gps", "attend", "\"all\""},
    {"attnlab/graph_gps", "bias", "[]"},
    {"attnlab/graph_gps", "degrees", "false"},
    {"attnlab/graph_gps", "max_distance", "20"},
    {"attnlab/graph_gps", "mlp_ratio", "1"},
};

/// The same of options of a plugin.
bool is_young_option(const Experiment& experiment, const KeyPath& path, const Node& value) {
  if (path.size() != 2) return false;
  const std::string plugin = path.front() == "model"     ? experiment.model.id
                             : path.front() == "dataset" ? experiment.dataset.id
                             : path.front() == "task"    ? experiment.task.id
                                                         : "";
  const auto is = [&](const YoungOption& one) {
    return one.option == path[1] && one.plugin == plugin && one.value == canonical_text(value);
  };
  if (std::any_of(std::begin(kYoungOptions), std::end(kYoungOptions), is)) return true;
  if (path.front() == "dataset" && path[1] == "few_shot" && value.is_map()) {
    const auto zero = [&](const char* key) {
      const Node* const number = value.find(key);
      return number != nullptr && number->as_double() == 0;
    };
    return zero("per_class") && zero("share");
  }
  if (path.front() == "dataset" && path[1] == "multi_crop" && value.is_map()) {
    const Node* const crops = value.find("global_crops");
    return crops != nullptr && crops->as_double() == 0;
  }
  return plugin == "attnlab/image_folder" && (path[1] == "test" || path[1] == "split_seed") &&
         value.as_double() == 0;
}

/// What training depends on.
std::string trained_text(const Experiment& experiment, bool with_attention) {
  const auto changes_nothing = [&](const KeyPath& path, const Node& value) {
    return role_of(path) < Role::identity || is_young_default(path, value) ||
           is_young_option(experiment, path, value) ||
           (!with_attention && path.size() == 1 && path.front() == "attention");
  };
  std::string text = canonical_text(experiment.resolved, changes_nothing);
  if (const Node* evaluate = experiment.resolved.find("evaluate")) {
    const std::string judge = entry_of_metric(*evaluate, experiment.train.early_stop.metric);
    if (!judge.empty()) {
      text.back() = ',';
      text += "\"judge\":" + canonical_text(evaluate->at(judge)) + "}";
    }
  }
  return text;
}

/// @param known  null: nothing is known
Experiment resolve(const Node& composed, const Catalogue& catalogue, const std::string& name,
                   const std::vector<std::string>& beginning, ResolvedParts* known) {
  Problems problems, unfit;
  Experiment experiment;
  Node& resolved = experiment.resolved;
  resolved = Node::map(composed.place());
  const Node seeds = read_values(composed, name, experiment, problems);
  read_parts(composed, catalogue, experiment, problems, unfit, known);
  check_top(composed, resolved, catalogue, problems);
  read_training(composed, experiment, problems);
  resolved.set("seeds", seeds);
  if (const Node* evaluate = value_of(composed, "evaluate")) resolved.set("evaluate", *evaluate);
  if (const Node* counts = value_of(composed, "published")) {
    resolved.set("published", read_section(counts, "published", experiment.published, problems));
  }
  // Every value is read; the rest is between them.
  const Node& train = resolved.at("train");
  if (!train.is_null()) check_train(experiment.train, train, problems);
  check_recompute(experiment, catalogue, problems);
  check_trace(experiment, catalogue, problems);
  resolve_init(experiment, catalogue, beginning, problems, unfit);
  check_evaluations(experiment, catalogue, problems, unfit);
  if (problems.empty() && !unfit.empty()) throw IncompatibleError(unfit);
  problems.insert(problems.end(), unfit.begin(), unfit.end());
  if (!problems.empty()) throw ConfigError(problems);
  return experiment;
}

}  // namespace

std::vector<const Part*> Experiment::parts() const {
  std::vector<const Part*> all = {&model, &attention};
  for (const Part& other : attention.others) all.push_back(&other);
  all.insert(all.end(), {&task, &dataset});
  return all;
}

std::string Experiment::hash() const { return hex(fingerprint(trained_text(*this, true))); }

std::string Experiment::hash_without_attention() const {
  return hex(fingerprint(trained_text(*this, false)));
}

std::string protocol_note(const Experiment& experiment) {
  const std::string& protocol = experiment.train.protocol;
  const std::string& metric = experiment.train.early_stop.metric;
  const std::string by = metric.empty() ? "the task's metric" : metric;
  if (protocol == "published") {
    return fmt::format(
        "protocol published: the epoch was chosen by {} on the test split itself, as in published "
        "code; the numbers are optimistic",
        by);
  }
  if (protocol == "sound") {
    return fmt::format(
        "protocol sound: the epoch was chosen by {} on held-out training examples; the test split "
        "was read once",
        by);
  }
  return "";
}

Experiment resolve_experiment(const Node& composed, const Catalogue& catalogue,
                              const std::string& name, const std::vector<std::string>& beginning) {
  return resolve(composed, catalogue, name, beginning, nullptr);
}

Experiment resolve_experiment(const Node& composed, const Catalogue& catalogue,
                              const std::string& name, ResolvedParts& known) {
  return resolve(composed, catalogue, name, {}, &known);
}

Experiment load_experiment(const std::string& path, const std::vector<std::string>& overrides,
                           const Catalogue& catalogue) {
  const Composition composition = compose(path, overrides);
  const std::string name = fs::path(path).stem().string();
  if (composition.problems.empty()) return resolve_experiment(composition.root, catalogue, name);
  throw ConfigError(composition.whole ? all_problems(composition, catalogue, name)
                                      : composition.problems);
}

Experiment frozen_experiment(const Node& frozen, const Catalogue& catalogue,
                             const std::string& name) {
  const Node* experiment = find_key(frozen, "init.experiment");
  const Node* configuration = find_key(frozen, "init.configuration");
  const auto is_given = [](const Node* value) {
    return value != nullptr && !value->is_null() && !(value->is_scalar() && value->text().empty());
  };
  if (is_given(experiment) && !is_given(configuration)) {
    throw ConfigError(experiment->place(),
                      "init.experiment: a run's frozen configuration says in init.configuration "
                      "which one it began with, and this one does not; run it again");
  }
  return resolve_experiment(frozen, catalogue, name);
}

}  // namespace attnlab
