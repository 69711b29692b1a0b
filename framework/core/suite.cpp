#include "framework/core/suite.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "framework/core/compose.h"
#include "framework/core/suite_skip.h"
#include "framework/core/text.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
using Problems = std::vector<std::string>;

const std::vector<std::string> kKeys = {
    "schema",   "name",    "baseline", "attentions", "experiments",  "seeds",    "set",
    "fallback", "compare", "skip",     "match",      "missing_data", "reference"};

const Node& list_of(const Node& root, const char* key) {
  const Node* list = root.find(key);
  if (list == nullptr || !list->is_list() || list->items().empty()) {
    throw ConfigError(list == nullptr ? root.place() : list->place(),
                      std::string("a suite needs '") + key + ": [...]' with at least one item");
  }
  return *list;
}

/// `quest` and `{use: quest, as: quest-eps, eps: 1e-3}` alike, as a map.
Node attention_of(const Node& item) {
  if (item.is_map() && item.find("use") != nullptr) return item;
  if (!item.is_scalar()) {
    throw ConfigError(item.place(),
                      "attentions: expected a name or {use: NAME, as: LABEL, ...}, "
                      "found " +
                          to_flow(item));
  }
  Node map = Node::map(item.place());
  map.set("use", item);
  return map;
}

std::string label_of(const Node& attention) {
  if (const Node* as = attention.find("as")) return as->text();
  const std::string& use = attention.at("use").text();  // "quest" or "lab/quest"
  return use.substr(use.find('/') + 1);
}

std::string experiment_file(const Node& item, const std::string& suite_file) {
  if (!item.is_scalar()) throw ConfigError(item.place(), "experiments: expected a name or a file");
  const fs::path beside = fs::path(suite_file).parent_path() / item.text();
  std::error_code error;
  if (fs::is_regular_file(beside, error)) return beside.lexically_normal().string();
  try {
    return find_composition(item.text(), "experiments");
  } catch (const ConfigError& problem) {
    throw ConfigError(item.place(), std::string("experiments: ") + problem.what());
  }
}

/// One experiment of the suite under one attention, before it is resolved.
/// @param matched  what `match:` lays over it; null: nothing
Node composed_cell(const std::string& file, const Node& suite, const Node& attention,
                   bool use_fallback, const Node& matched) {
  Node composed = load_file(file);
  const auto lay_over = [&](Node over) {
    escape_references(over);  // the suite's own are resolved already
    merge(composed, over);
  };
  if (const Node* set = suite.find("set")) lay_over(*set);
  if (use_fallback) lay_over(suite.at("fallback"));
  Node chosen = Node::map(attention.place());
  chosen.set("attention", attention);
  lay_over(std::move(chosen));
  if (!matched.is_null()) lay_over(matched);
  // The suite names its attentions; a label of the experiment's own would lose the row its runs.
  if (attention.find("as") == nullptr) composed.find("attention")->erase("as");
  if (const Node* seeds = suite.find("seeds")) composed.set("seeds", *seeds);
  interpolate(composed);
  return composed;
}

void check_keys(const Node& root, Problems& problems) {
  for (const auto& [key, value] : root.entries()) {
    if (std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end()) continue;
    problems.push_back(root.key_place(key).str() + ": unknown key '" + key + "' of a suite" +
                       suggestion(key, kKeys));
  }
  const Node* schema = root.find("schema");
  if (schema == nullptr || schema->as_int() != 1) {
    problems.push_back(root.place().str() + ": a suite starts with 'schema: 1'");
  }
  for (const char* key : {"set", "fallback"}) {
    const Node* value = root.find(key);
    if (value == nullptr || value->is_map() || value->is_null()) continue;
    problems.push_back(value->place().str() + ": " + key +
                       ": expected a map of what to change in every experiment, found " +
                       to_flow(*value));
  }
  const Node* name = root.find("name");
  if (name != nullptr && (name->text().empty() || name->text().find('/') != std::string::npos)) {
    problems.push_back(name->place().str() + ": name: expected a word without slashes");
  }
}

void check_attentions(Suite& suite, const Node& root, const std::vector<Node>& attentions,
                      Problems& problems) {
  for (const Node& attention : attentions) {
    const std::string label = label_of(attention);
    if (std::count(suite.attentions.begin(), suite.attentions.end(), label) > 0) {
      problems.push_back(attention.place().str() + ": the attention '" + label +
                         "' stands twice; tell them apart with `as: LABEL`");
    }
    suite.attentions.push_back(label);
  }
  const Node* baseline = root.find("baseline");
  suite.baseline = baseline == nullptr ? suite.attentions.front() : baseline->text();
  if (std::count(suite.attentions.begin(), suite.attentions.end(), suite.baseline) == 0) {
    problems.push_back((baseline == nullptr ? root.place() : baseline->place()).str() +
                       ": baseline: '" + suite.baseline + "' is none of the suite's attentions" +
                       suggestion(suite.baseline, suite.attentions));
  }
}

void read_compare(const Node& root, Suite& suite, Problems& problems) {
  const Node* section = root.find("compare");
  if (section == nullptr || section->is_null()) return;
  try {
    suite.compare = compare_options(*section);
  } catch (const ConfigError& error) {
    problems.emplace_back(error.what());
  }
}

void read_match(const Node& root, Suite& suite, Problems& problems) {
  const Node* section = root.find("match");
  if (section == nullptr || section->is_null()) return;
  suite.match_place = section->place();
  try {
    suite.match = match_options(*section);
  } catch (const ConfigError& error) {
    problems.emplace_back(error.what());
  }
}

void read_missing_data(const Node& root, Suite& suite, Problems& problems) {
  const Node* value = root.find("missing_data");
  if (value == nullptr || value->is_null()) return;
  const std::string text = value->is_scalar() ? value->text() : "";
  suite.skip_missing_data = text == "skip";
  if (text != "skip" && text != "error") {
    problems.push_back(value->place().str() + ": missing_data: expected skip or error, found " +
                       to_flow(*value));
  }
  if (suite.skip_missing_data && !suite.fallback.is_null()) {
    problems.push_back(value->place().str() +
                       ": missing_data: skip leaves experiments out where 'fallback' would run "
                       "them on other data; take one of the two out");
  }
}

void add_experiment(Suite& suite, const std::string& name, const Place& place, Problems& problems) {
  if (std::count(suite.experiments.begin(), suite.experiments.end(), name) > 0) {
    problems.push_back(place.str() + ": the experiment '" + name +
                       "' stands twice; tell different ones apart with `name:` in their files");
  }
  suite.experiments.push_back(name);
}

/// The seeds of a composition that cannot be resolved; sound ones only.
std::vector<std::int64_t> seeds_in(const Node& composed) {
  std::vector<std::int64_t> seeds;
  if (const Node* list = composed.find("seeds")) {
    for (const Node& item : list->items()) {
      if (const auto seed = item.as_int()) seeds.push_back(*seed);
    }
  }
  return seeds.empty() ? std::vector<std::int64_t>{0} : seeds;
}

/// "attention 'quest' does not honour 'causal'...", without the place, which is always the suite's.
std::string reason_of(const IncompatibleError& error) {
  const std::string text = error.what();
  const std::size_t start = text.find("attention '");
  const std::string line = text.substr(start == std::string::npos ? 0 : start);
  return line.substr(0, line.find('\n'));
}

/// Fills a suite with the cells of its experiments.
class CellMaker {
 public:
  CellMaker(Suite& suite, const Node& root, const Catalogue& catalogue, bool use_fallback,
            const Matcher& matcher, Problems& problems)
      : suite_(suite),
        root_(root),
        catalogue_(catalogue),
        use_fallback_(use_fallback),
        matcher_(matcher),
        problems_(problems) {}

  void add(const Node& item, const std::vector<Node>& attentions) {
    const std::string file = experiment_file(item, suite_.file);
    const std::string stem = fs::path(file).stem().string();
    std::string name;
    for (const Node& attention : attentions) {
      try {
        const Node composed = composed_cell(file, root_, attention, use_fallback_, Node());
        const Node* given = composed.find("name");
        if (name.empty()) {
          name = given != nullptr && given->is_scalar() ? given->text() : stem;
          add_experiment(suite_, name, item.place(), problems_);
        }
        const CellWith with = [&, name](const std::string& label, const Node& over) {
          const Node& other = labelled(attentions, label);
          return resolve_experiment(composed_cell(file, root_, other, use_fallback_, over),
                                    catalogue_, name);
        };
        add_cells(composed, name, label_of(attention), with);
      } catch (const ConfigError& error) {
        note(error.what());
      }
    }
  }

  /// Where no attention fits any experiment, that is the suite's problem.
  void refuse_if_nothing_fits() {
    if (!suite_.cells.empty() || !problems_.empty()) return;
    for (const std::string& text : unfit_) note(text);
  }

 private:
  static const Node& labelled(const std::vector<Node>& attentions, const std::string& label) {
    return *std::find_if(attentions.begin(), attentions.end(),
                         [&](const Node& one) { return label_of(one) == label; });
  }

  void add_cells(const Node& composed, const std::string& name, const std::string& label,
                 const CellWith& with) {
    try {
      Experiment experiment = resolve_experiment(composed, catalogue_, name);
      if (suite_.match) check_match(*suite_.match, suite_.match_place, experiment, catalogue_);
      const Node matched = matcher_ ? matcher_(name, label, with) : Node();
      if (!matched.is_null()) experiment = with(label, matched);
      for (const std::int64_t seed : experiment.seeds) {
        suite_.cells.push_back(make_cell(experiment, seed, suite_.folder));
      }
    } catch (const IncompatibleError& error) {
      const Gap gap{Absence::incompatible, reason_of(error)};
      for (const std::int64_t seed : seeds_in(composed)) {
        suite_.absent.push_back({name, label, seed, gap, ""});
      }
      unfit_.emplace_back(error.what());
    }
  }

  void note(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (seen_.insert(line).second) problems_.push_back(line);
    }
  }

  Suite& suite_;
  const Node& root_;
  const Catalogue& catalogue_;
  bool use_fallback_;
  const Matcher& matcher_;
  Problems& problems_;
  std::set<std::string> seen_;  // one mistake in an experiment would else stand there per attention
  std::vector<std::string> unfit_;
};

/// Moves what `skip:` names from the cells to the absent ones.
void apply_skips(Suite& suite, const std::vector<SkipRule>& rules, const Place& place,
                 Problems& problems) {
  std::set<std::int64_t> seeds;
  for (const Cell& cell : suite.cells) seeds.insert(cell.seed);
  for (const AbsentCell& cell : suite.absent) seeds.insert(cell.seed);
  check_skips(rules, suite.experiments, suite.attentions, {seeds.begin(), seeds.end()}, problems);
  const auto rule_for = [&](const std::string& experiment, const std::string& attention,
                            std::int64_t seed) {
    return std::find_if(rules.begin(), rules.end(), [&](const SkipRule& rule) {
      return rule.matches(experiment, attention, seed);
    });
  };
  for (AbsentCell& cell : suite.absent) {
    const auto rule = rule_for(cell.experiment, cell.attention, cell.seed);
    if (rule != rules.end()) cell.gap = {Absence::skipped, rule->reason};
  }
  std::vector<Cell> kept;
  for (Cell& cell : suite.cells) {
    const std::string name = cell.experiment.name, label = cell.experiment.attention.label;
    const auto rule = rule_for(name, label, cell.seed);
    if (rule == rules.end()) {
      kept.push_back(std::move(cell));
    } else {
      const Gap gap{Absence::skipped, rule->reason};
      suite.absent.push_back({name, label, cell.seed, gap, ""});
    }
  }
  if (kept.empty() && !suite.cells.empty()) {
    problems.push_back(place.str() + ": skip: leaves no cell to run; take an entry out");
  }
  suite.cells = std::move(kept);
}

}  // namespace

Suite load_suite(const std::string& path, const std::vector<std::string>& overrides,
                 const Catalogue& catalogue, const std::string& root_folder, bool use_fallback,
                 const Matcher& matcher) {
  const Node root = compose_file(path, overrides);
  Problems problems;
  check_keys(root, problems);
  Suite suite;
  suite.file = path;
  const Node* name = root.find("name");
  suite.name = name != nullptr ? name->text() : fs::path(path).stem().string();
  suite.folder = root_folder + "/" + suite.name;
  if (const Node* fallback = root.find("fallback")) suite.fallback = *fallback;
  read_compare(root, suite, problems);
  read_match(root, suite, problems);
  read_missing_data(root, suite, problems);
  if (const Node* section = root.find("reference"); section != nullptr && !section->is_null()) {
    suite.reference = read_reference(*section, problems);
  }
  std::vector<Node> attentions;
  for (const Node& item : list_of(root, "attentions").items()) {
    attentions.push_back(attention_of(item));
  }
  check_attentions(suite, root, attentions, problems);
  const Node* skip = root.find("skip");
  const std::vector<SkipRule> rules =
      skip == nullptr ? std::vector<SkipRule>{} : read_skips(*skip, problems);
  CellMaker maker(suite, root, catalogue, use_fallback, matcher, problems);
  for (const Node& item : list_of(root, "experiments").items()) maker.add(item, attentions);
  maker.refuse_if_nothing_fits();
  if (skip != nullptr && problems.empty()) apply_skips(suite, rules, skip->place(), problems);
  if (!problems.empty()) throw ConfigError(problems);
  return suite;
}

}  // namespace attnlab
