#include "framework/experiment/evaluations.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <sstream>

#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/config/compose.h"
#include "framework/config/problems.h"
#include "framework/experiment/identity.h"
#include "framework/experiment/keys.h"
#include "framework/experiment/names.h"
#include "framework/manifest/python_file.h"

namespace attnlab {
namespace {

constexpr std::array<const char*, 4> kParts = {"model", "attention", "task", "dataset"};

bool is_part(const std::string& key) {
  return std::find(kParts.begin(), kParts.end(), key) != kParts.end();
}

std::vector<std::string> keys_of(const Node& map) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : map.entries()) keys.push_back(key);
  return keys;
}

/// One point of `over`: "0.01" or "fog/1", and what it changes.
struct Point {
  std::string name;
  Node change;
};

Node tree_of(const std::string& key, const Node& value) {
  Node tree = Node::map(value.place());
  const std::size_t dot = key.find('.');
  tree.set(key.substr(0, dot),
           dot == std::string::npos ? value : tree_of(key.substr(dot + 1), value));
  return tree;
}

void keep_name(Node& named, const Node& file) {
  PythonName python = parse_python_name(named.text());
  python.file = file.text();
  named.set_text(python.text());
}

/// Names Python files as the run's configuration does: what it keeps them under.
/// @param section   of one part, in `set`
/// @param resolved  the same of the entry's experiment
void keep_name_of(Node& section, const Node& resolved) {
  const Node* const file =
      resolved.is_map() && is_python(resolved) ? resolved.find("file") : nullptr;
  if (file != nullptr && section.is_scalar()) {
    if (is_python_name(section.text())) keep_name(section, *file);
    return;
  }
  if (!section.is_map()) return;
  if (Node* use = section.find("use"); file != nullptr && use != nullptr) {
    if (is_python_name(use->text())) keep_name(*use, *file);
  }
  if (Node* own = section.find("file"); file != nullptr && own != nullptr) {
    own->set_text(file->text());
  }
  const Node* const there = resolved.is_map() ? resolved.find("layers") : nullptr;
  Node* const layers = section.find("layers");
  if (there == nullptr || layers == nullptr || !layers->is_map()) return;
  for (auto& [name, layer] : layers->entries()) {
    if (const Node* one = there->find(name)) keep_name_of(layer, *one);
  }
}

void keep_names(Node& set, const Node& resolved) {
  for (const char* part : kParts) {
    Node* const section = set.is_map() ? set.find(part) : nullptr;
    if (section != nullptr) keep_name_of(*section, resolved.at(part));
  }
}

/// Reads one section `evaluate:`.
class EntryReader {
 public:
  /// @param resolves  false where the experiment is not sound: the entries' own keys alone are read
  EntryReader(const Experiment& base, const Catalogue& catalogue, Problems& problems,
              Problems& unfit, bool resolves = true)
      : base_(base),
        catalogue_(catalogue),
        problems_(problems),
        unfit_(unfit),
        resolves_(resolves) {}

  /// @returns the section with its defaults filled in.
  Node read(const Node& section) {
    if (!section.is_map()) {
      add_problem(
          problems_, section.place(),
          "evaluate: expected a map like {fog: {set: {dataset: {corruption: fog}}}}, found " +
              to_flow(section));
      return {};
    }
    Node resolved = Node::map(section.place());
    for (const auto& [name, entry] : section.entries()) {
      resolved.set(name, read_entry(name, entry, section.key_place(name)));
    }
    return resolved;
  }

  std::vector<EvaluationEntry> take() { return std::move(entries_); }

 private:
  Node read_entry(const std::string& name, const Node& entry, const Place& place) {
    const std::size_t before = problems_.size();
    const std::string key = "evaluate." + name;
    const std::string wrong = name_problem(name);
    if (!wrong.empty() || name.front() == '.') {
      add_problem(problems_, place,
                  fmt::format("evaluate: '{}': {}", name,
                              wrong.empty() ? "expected a word without a dot before it" : wrong));
    }
    if (!entry.is_map() && !entry.is_null()) {
      add_problem(
          problems_, entry.place(),
          fmt::format("{}: expected a map like {{set: {{dataset: {{corruption: fog}}}}}}, found {}",
                      key, to_flow(entry)));
    }
    if (problems_.size() > before) return {};
    if (name == kClean) return read_clean(entry, key);
    Node given = entry.is_null() ? Node::map(place) : entry;
    Node set = take_out(given, "set");
    const Node over = take_out(given, "over");
    check_keys(given, key);
    const Node options =
        resolve_options(given, schema_of<EvaluationOptions>(), key, "an evaluation", problems_);
    check_set(set, key);
    const std::vector<Point> points = points_of(over, key);
    if (problems_.size() > before) return {};
    if (set.is_null() && over.is_null() && options.at("weights").text() == "last" &&
        options.at("split").text() == "test" &&
        !options.at("predictions").as_bool().value_or(false)) {
      add_problem(problems_, place,
                  key +
                      ": changes nothing; add set: {...} or over: {...} (the run "
                      "itself is called clean)");
    }
    if (!resolves_) return {};
    if (options.at("weights").text() == "average" && base_.train.average.decay == 0) {
      add_problem(problems_, options.at("weights").place(),
                  key + ".weights: no mean of the weights is kept; set train.average.decay");
    }
    const std::size_t count = entries_.size();
    add_entries(name, place, set, points, read_options<EvaluationOptions>(options));
    if (entries_.size() > count) keep_names(set, entries_.back().experiment.resolved);
    Node resolved = options;
    // (An entry that chooses the epoch is part of what was trained before there was the option.)
    if (!options.at("predictions").as_bool().value_or(false)) resolved.erase("predictions");
    if (!set.is_null()) resolved.set("set", set);
    if (!over.is_null()) resolved.set("over", over);
    return resolved;
  }

  Node read_clean(const Node& entry, const std::string& key) {
    if (entry.is_map() && !entry.entries().empty()) {
      add_problem(
          problems_, entry.place(),
          key + ": is the run itself and changes nothing; write clean: {}, or choose another name");
    }
    return Node::map(entry.place());
  }

  static Node take_out(Node& map, const char* key) {
    const Node* found = map.find(key);
    Node value = found == nullptr ? Node() : *found;
    map.erase(key);
    return value;
  }

  void check_keys(Node& given, const std::string& key) {
    const std::vector<std::string> known = {"set",     "over",  "when",
                                            "weights", "split", "predictions"};
    for (const std::string& name : keys_of(given)) {
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      const std::string hint = is_part(name) ? fmt::format("; write set: {{{}: {{...}}}}", name)
                                             : suggestion(name, known);
      add_problem(problems_, given.key_place(name),
                  fmt::format("{}: unknown key '{}' of an evaluation{}", key, name, hint));
      given.erase(name);
    }
  }

  void check_part(const std::string& part, const Place& place, const std::string& key) {
    if (is_part(part)) return;
    add_problem(
        problems_, place,
        fmt::format("{}: '{}' cannot be changed; an evaluation changes {} and trains nothing", key,
                    part, join({kParts.begin(), kParts.end()}, ", ")));
  }

  void check_set(const Node& set, const std::string& key) {
    if (set.is_null()) return;
    if (!set.is_map()) {
      return add_problem(
          problems_, set.place(),
          fmt::format("{}.set: expected a map of what is changed, found {}", key, to_flow(set)));
    }
    for (const std::string& name : keys_of(set)) {
      const std::string part = name.substr(0, name.find_last_not_of("+-") + 1);
      check_part(part, set.key_place(name), key + ".set");
    }
  }

  /// The points of the cross product, the last key's values next to each other.
  std::vector<Point> points_of(const Node& over, const std::string& key) {
    std::vector<Point> points = {{"", Node()}};
    if (over.is_null()) return points;
    if (!over.is_map() || over.entries().empty()) {
      add_problem(
          problems_, over.place(),
          fmt::format("{}.over: expected a map like {{dataset.severity: [1, 2, 3]}}, found {}", key,
                      to_flow(over)));
      return points;
    }
    for (const auto& [option, values] : over.entries()) {
      check_part(option.substr(0, option.find('.')), over.key_place(option), key + ".over");
      if (!sound_values(values, fmt::format("{}.over.{}", key, option))) return points;
      std::vector<Point> longer;
      for (const Point& point : points) {
        for (const Node& value : values.items()) {
          Point next{fmt::format("{}/{}", point.name, value.text()), point.change};
          if (next.change.is_null()) next.change = Node::map(over.place());
          merge(next.change, tree_of(option, value));
          longer.push_back(std::move(next));
        }
      }
      points = std::move(longer);
    }
    return points;
  }

  bool sound_values(const Node& values, const std::string& key) {
    const std::size_t before = problems_.size();
    if (!values.is_list() || values.items().empty()) {
      add_problem(problems_, values.place(),
                  fmt::format("{}: expected a list of values like [1, 2, 3], found {}", key,
                              to_flow(values)));
    }
    std::set<std::string> seen;
    for (const Node& value : values.items()) {
      const std::string wrong = value.is_scalar() ? name_problem(value.text()) : "expected a word";
      if (!wrong.empty()) {
        add_problem(problems_, value.place(),
                    fmt::format("{}: {}: a value is part of the result's name: {}", key,
                                to_flow(value), wrong));
      } else if (!seen.insert(value.text()).second) {
        add_problem(problems_, value.place(),
                    fmt::format("{}: {} stands twice", key, value.text()));
      } else if (is_python_name(value.text())) {
        add_problem(problems_, value.place(),
                    fmt::format("{0}: {1}: a Python file gets an entry of its own, with set: "
                                "{{attention: {1}}}",
                                key, value.text()));
      }
    }
    return problems_.size() == before;
  }

  /// A group and its values stand together in a file's name.
  static std::string name_problem_of(std::string name) {
    std::replace(name.begin(), name.end(), '/', '~');
    return name_problem(name);
  }

  /// Of many points that are wrong in the same way, the first says so.
  void add_entries(const std::string& name, const Place& place, const Node& set,
                   const std::vector<Point>& points, const EvaluationOptions& options) {
    for (const Point& point : points) {
      EvaluationEntry entry;
      entry.name = name + point.name;
      entry.group = point.name.empty() ? "" : name;
      entry.options = options;
      entry.set = set.is_null() ? Node::map() : set;
      if (const std::string wrong = name_problem_of(entry.name); !wrong.empty()) {
        return add_problem(problems_, place, fmt::format("evaluate.{}: {}", entry.name, wrong));
      }
      if (!resolve(entry, point.change)) return;
      entries_.push_back(std::move(entry));
    }
  }

  bool resolve(EvaluationEntry& entry, const Node& change) {
    const std::string note = fmt::format(" (evaluate.{})", entry.name);
    try {
      Node composed = counted(base_.resolved, Role::comparison);
      composed.erase("init");  // the weights are the run's
      // It names an entry, perhaps; what is not trained stops no epoch.
      composed.find("train")->find("early_stop")->set("metric", Node::scalar("", {}, true));
      merge(composed, entry.set);
      if (!change.is_null()) {
        merge(composed, change);
        merge(entry.set, change);
      }
      entry.experiment = resolve_experiment(composed, catalogue_, base_.name);
      keep_names(entry.set, entry.experiment.resolved);
      return true;
    } catch (const IncompatibleError& error) {
      note_lines(error.what(), note, unfit_);
    } catch (const ConfigError& error) {
      note_lines(error.what(), note, problems_);
    }
    return false;
  }

  static void note_lines(const std::string& text, const std::string& note, Problems& out) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) out.push_back(line + note);
  }

  const Experiment& base_;
  const Catalogue& catalogue_;
  Problems& problems_;
  Problems& unfit_;
  const bool resolves_;
  std::vector<EvaluationEntry> entries_;
};

/// A metric that chooses epochs must be there when they are evaluated, and of the split that the
/// protocol allows.
void check_judge(const EvaluationEntry& entry, const TrainOptions& train, const Place& place,
                 Problems& problems) {
  const std::string key = "train.early_stop.metric: evaluate." + entry.name;
  if (!entry.each()) {
    add_problem(problems, place, key + " is evaluated at the end only; give it when: each");
  }
  const std::string split = train.protocol == "published" ? "test" : "validation";
  if (entry.options.split != split) {
    add_problem(
        problems, place,
        fmt::format("{} is of the {} split, and train.protocol: {} judges by {}; give it split: {}",
                    key, entry.options.split, train.protocol, split, split));
  }
}

/// Labels of an attention and of those of its `layers` change nothing.
void erase_labels(Node& part) {
  part.erase("as");
  Node* layers = part.find("layers");
  if (layers == nullptr) return;
  for (auto& [key, section] : layers->entries()) section.erase("as");
}

/// The entries whose results the metric is made of become part of the training.
void find_judges(const std::vector<EvaluationEntry>& entries, const Node& evaluate,
                 const Node& metric, Experiment& experiment, Problems& problems) {
  const std::string& name = metric.text();
  if (name.find('/') == std::string::npos) return;
  const std::string key = entry_of_metric(evaluate, name);
  if (key.empty()) {
    const std::string wanted = name.substr(0, name.find('/'));
    return add_problem(problems, metric.place(),
                       fmt::format("train.early_stop.metric: there is no evaluation '{}'{}", wanted,
                                   suggestion(wanted, keys_of(evaluate))));
  }
  for (const EvaluationEntry& entry : entries) {
    if (entry.name != key && entry.group != key) continue;
    check_judge(entry, experiment.train, metric.place(), problems);
    const std::vector<const Part*> own = experiment.parts();
    for (const Part* part : entry.experiment.parts()) {
      const auto is_it = [&](const Part* one) { return one->path == part->path; };
      if (std::none_of(own.begin(), own.end(), is_it)) experiment.judges.push_back(*part);
    }
  }
}

}  // namespace

std::string entry_of_metric(const Node& evaluate, const std::string& metric) {
  const std::string name = metric.substr(0, metric.find('/'));
  return name != metric && name != kClean && evaluate.find(name) != nullptr ? name : "";
}

std::vector<EvaluationEntry> evaluations_of(const Experiment& experiment,
                                            const Catalogue& catalogue) {
  const Node* section = experiment.resolved.find("evaluate");
  if (section == nullptr) return {};
  Problems problems, unfit;
  EntryReader reader(experiment, catalogue, problems, unfit);
  reader.read(*section);
  if (problems.empty() && !unfit.empty()) throw IncompatibleError(unfit);
  problems.insert(problems.end(), unfit.begin(), unfit.end());
  if (!problems.empty()) throw ConfigError(problems);
  return reader.take();
}

Node resolve_evaluations(const Node& section, Experiment& experiment, const Catalogue& catalogue,
                         Problems& problems, Problems& unfit) {
  const Node metric = experiment.resolved.at("train").at("early_stop").at("metric");
  Node resolved = section.is_null() ? Node::map() : section;
  EntryReader reader(experiment, catalogue, problems, unfit);
  if (!section.is_null()) resolved = reader.read(section);
  if (!problems.empty() || !unfit.empty()) return {};
  find_judges(reader.take(), resolved, metric, experiment, problems);
  return section.is_null() ? Node() : resolved;
}

void check_evaluation_keys(const Node& section, const Experiment& experiment,
                           const Catalogue& catalogue, Problems& problems) {
  Problems unfit;
  EntryReader(experiment, catalogue, problems, unfit, /*resolves=*/false).read(section);
}

Experiment with_evaluations(const Experiment& experiment, const std::string& path,
                            const Catalogue& catalogue) {
  const Node root = compose_file(path);
  Problems problems, unfit;
  for (const std::string& key : keys_of(root)) {
    if (key == "schema" || key == "evaluate") continue;
    add_problem(problems, root.key_place(key),
                fmt::format("'{}' does not belong here: the file adds evaluations to a run, as "
                            "evaluate: {{NAME: {{set: {{...}}}}}}",
                            key));
  }
  const Node* section = root.find("evaluate");
  if (section == nullptr || section->is_null()) {
    add_problem(problems, root.place(), "there is no 'evaluate:' in it");
  }
  Experiment changed = experiment;
  if (problems.empty()) {
    EntryReader reader(experiment, catalogue, problems, unfit);
    changed.resolved.set("evaluate", reader.read(*section));
  }
  problems.insert(problems.end(), unfit.begin(), unfit.end());
  if (!problems.empty()) throw ConfigError(problems);
  return changed;
}

std::string evaluation_hash(const EvaluationEntry& entry, const std::string& weights) {
  const Experiment& experiment = entry.experiment;
  std::string all =
      fmt::format("weights={};{};{}", weights, entry.options.weights, entry.options.split);
  if (entry.options.predictions) all += ";predictions";
  for (const char* key : kParts) {
    Node part = experiment.resolved.at(key);
    erase_labels(part);
    all += ";" + canonical_text(part);
  }
  for (const Part* part : experiment.parts()) all += ";" + file_hash(part->path);
  return hex(fingerprint(all)).substr(0, 8);
}

std::string evaluation_hash(const EvaluationEntry& entry, const std::string& weights,
                            const std::string& data) {
  return evaluation_hash(entry, weights) + hex(fingerprint(data)).substr(0, 8);
}

}  // namespace attnlab
