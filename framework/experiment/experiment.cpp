#include "framework/experiment/experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

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
#include "framework/manifest/option_lookup.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

bool contains(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

/// A key's value; null where it is not given or given as nothing, which means the default.
const Node* value_of(const Node& composed, const char* key) {
  const Node* value = composed.find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

void check_top(const Node& composed, const Catalogue& catalogue, Problems& problems) {
  for (const auto& [key, value] : composed.entries()) {
    const auto named = [&name = key](const OptionSpec& spec) { return spec.name == name; };
    if (std::any_of(experiment_keys().begin(), experiment_keys().end(), named)) continue;
    add_problem(problems, composed.key_place(key),
                fmt::format("unknown key '{}' of an experiment{}", key,
                            suggest_key(key, experiment_keys(composed, catalogue))));
  }
  const Node* schema = composed.find("schema");
  if (schema == nullptr) {
    add_problem(problems, composed.place(),
                "'schema: 1' is missing (the version of the file's format)");
  } else if (schema->as_int() != 1) {
    add_problem(problems, schema->place(),
                "schema: this attnlab reads schema 1, found " + to_flow(*schema));
  }
}

/// @returns the resolved options, or null where nothing is to be recorded: without `trace`, and
/// with `trace.every: 0`, which is the same experiment.
Node resolve_trace(const Node& composed, TraceOptions& options, Problems& problems) {
  const Node* given = value_of(composed, "trace");
  if (given == nullptr) return {};
  const std::size_t before = problems.size();
  Node resolved = resolve_options(*given, schema_of<TraceOptions>(), "trace", "trace", problems);
  if (problems.size() > before) return {};
  options = read_options<TraceOptions>(resolved);
  if (options.every == 0) return {};
  if (options.record.empty()) {
    add_problem(
        problems, resolved.at("record").place(),
        fmt::format(
            "trace.record: names nothing to record; name some of {}, or set trace.every to 0",
            join(find_option(schema_of<TraceOptions>(), "record")->choices, ", ")));
  }
  return resolved;
}

/// What kind of token a key is of, only some datasets know.
void check_trace(const TraceOptions& trace, const Node& resolved, const Part& dataset,
                 const Manifest& manifest, Problems& problems) {
  if (!contains(trace.record, "key_norm_by_kind")) return;
  const std::vector<FieldRule> given = rules_under(manifest.gives, dataset);
  if (rule_of(given, "kind") != nullptr) return;
  add_problem(
      problems, resolved.at("record").place(),
      fmt::format("trace.record: 'key_norm_by_kind' takes the field 'kind', which dataset '{}' "
                  "does not give (it gives {}); leave it out",
                  dataset.name, text_of(given)));
}

void resolve_seeds(const Node& composed, Experiment& experiment, Problems& problems) {
  const Node* seeds = value_of(composed, "seeds");
  if (seeds == nullptr) {
    experiment.seeds = {0};
    return;
  }
  if (!seeds->is_list() || seeds->items().empty()) {
    const bool number = seeds->as_int().value_or(-1) >= 0;  // a seed, or how many?
    add_problem(problems, seeds->place(),
                fmt::format("seeds: expected a list of integers like [0, 1, 2]{1}, found {0}",
                            to_flow(*seeds),
                            number ? fmt::format(" ([{}] is one seed)", seeds->text()) : ""));
    return;
  }
  std::set<std::int64_t> seen;
  for (const Node& item : seeds->items()) {
    const auto seed = item.as_int();
    if (!seed || *seed < 0) {
      add_problem(problems, item.place(),
                  "seeds: expected an integer >= 0, found " + to_flow(item));
    } else if (!seen.insert(*seed).second) {
      add_problem(problems, item.place(), fmt::format("seeds: {} stands twice", item.text()));
    } else {
      experiment.seeds.push_back(*seed);
    }
  }
}

Node seed_list(const std::vector<std::int64_t>& seeds) {
  Node list = Node::list();
  for (const std::int64_t seed : seeds) list.items().push_back(Node::scalar(std::to_string(seed)));
  return list;
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
  if (path.size() == 2) return path[1] == "precision" && value.text() == "float32";
  return path.size() == 3 && path[1] == "schedule" && path[2] == "warmup_prefix" &&
         value.text() == "true";
}

/// The same of options of a plugin.
bool is_young_option(const Experiment& experiment, const KeyPath& path, const Node& value) {
  if (path.size() != 2 || path.front() != "dataset") return false;
  if (experiment.dataset.id != "attnlab/image_folder") return false;
  return (path[1] == "test" || path[1] == "split_seed") && value.as_double() == 0;
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

/// Keys and arguments may have line ends, and the file is read line by line.
std::string on_one_line(std::string text) {
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) {
    text.replace(at, 1, "\\n");
  }
  return text;
}

void write_origins(const Node& node, const std::string& path, std::string& out) {
  if (node.is_map() && !node.entries().empty()) {
    for (const auto& [key, value] : node.entries()) {
      write_origins(value, path.empty() ? key : fmt::format("{}.{}", path, key), out);
    }
    return;
  }
  const std::string where = on_one_line(node.place().str());
  out += fmt::format("{}: {} = {}\n", where.empty() ? "(built in)" : where, on_one_line(path),
                     to_flow(node));
  for (auto step = node.history().rbegin(); step != node.history().rend(); ++step) {
    out += fmt::format("    before, {}: {}\n", on_one_line(step->place.str()),
                       on_one_line(step->value));
  }
}

}  // namespace

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
  Problems problems;
  Experiment experiment;
  check_top(composed, catalogue, problems);
  experiment.resolved = Node::map(composed.place());
  Node& resolved = experiment.resolved;
  resolved.set("schema", Node::scalar("1", composed.place()));
  const Node* given_name = value_of(composed, "name");
  experiment.name = given_name != nullptr ? given_name->text() : name;
  const bool asked = given_name != nullptr && must_be_given(*given_name);
  const std::string wrong_name =
      asked ? "a value must be given here" : name_problem(experiment.name);
  if (!wrong_name.empty()) {
    add_problem(problems, given_name == nullptr ? composed.place() : given_name->place(),
                "name: " + wrong_name);
  }
  resolved.set("name", Node::scalar(experiment.name, composed.place()));

  const auto part = [&](Kind kind, Part& out) {
    return resolve_part(composed, kind, catalogue, out, resolved, problems);
  };
  const Manifest* model = part(Kind::model, experiment.model);
  const Manifest* attention = part(Kind::attention, experiment.attention);
  const Manifest* task = part(Kind::task, experiment.task);
  const Manifest* dataset = part(Kind::dataset, experiment.dataset);
  if (model != nullptr && dataset != nullptr) {
    const DeclaredPart of_model{experiment.model, *model}, of_data{experiment.dataset, *dataset};
    check_fields(of_model, {of_data}, problems);
    if (task != nullptr) check_fields({experiment.task, *task}, {of_model, of_data}, problems);
  }
  // Kept apart: an attention that does not fit is a finding where nothing else is wrong.
  Problems unfit;
  if (model != nullptr && attention != nullptr) {
    check_traits(experiment.model, *model, experiment.attention, *attention, unfit);
  }

  const Node* train = composed.find("train");
  const std::size_t before_train = problems.size();
  const Node train_resolved = resolve_options(
      train == nullptr ? Node() : *train, schema_of<TrainOptions>(), "train", "train", problems);
  if (problems.size() == before_train) {
    experiment.train = read_options<TrainOptions>(train_resolved);
    check_train(experiment.train, train_resolved, problems);
  }
  const Node init = resolve_init(value_of(composed, "init"), resolved.find("attention"), catalogue,
                                 beginning, experiment.init, problems, unfit);
  const Node trace = resolve_trace(composed, experiment.trace, problems);
  if (!trace.is_null() && dataset != nullptr) {
    check_trace(experiment.trace, trace, experiment.dataset, *dataset, problems);
  }
  resolve_seeds(composed, experiment, problems);
  const Node* counts = value_of(composed, "published");
  const Node published =
      resolve_options(counts == nullptr ? Node() : *counts, schema_of<PublishedCounts>(),
                      "published", "published", problems);
  const Node* evaluate = value_of(composed, "evaluate");
  if (problems.empty()) {
    experiment.published = read_options<PublishedCounts>(published);
    if (!init.is_null()) resolved.set("init", init);
    resolved.set("train", train_resolved);
    if (!trace.is_null()) resolved.set("trace", trace);
    const Node* seeds = value_of(composed, "seeds");
    resolved.set("seeds", seeds != nullptr ? *seeds : seed_list(experiment.seeds));
    const Node entries = resolve_evaluations(evaluate == nullptr ? Node() : *evaluate, experiment,
                                             catalogue, problems, unfit);
    if (!entries.is_null()) resolved.set("evaluate", entries);
    if (counts != nullptr) resolved.set("published", published);
  } else if (evaluate != nullptr) {
    check_evaluation_keys(*evaluate, experiment, catalogue, problems);
  }
  if (problems.empty() && !unfit.empty()) throw IncompatibleError(unfit);
  problems.insert(problems.end(), unfit.begin(), unfit.end());
  if (!problems.empty()) throw ConfigError(problems);
  return experiment;
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

std::string origins_text(const Node& node) {
  std::string out;
  write_origins(node, "", out);
  return out;
}

}  // namespace attnlab
