#include "framework/suites/suite_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "framework/base/text.h"
#include "framework/config/compose.h"
#include "framework/config/origins.h"
#include "framework/config/problems.h"
#include "framework/experiment/compositions.h"
#include "framework/manifest/attention_section.h"
#include "framework/suites/missing_plugins.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

std::string experiment_file(const Node& item, const std::string& suite_file) {
  const fs::path beside = fs::path(suite_file).parent_path() / item.text();
  std::error_code error;
  if (fs::is_regular_file(beside, error)) return beside.lexically_normal().string();
  try {
    return find_composition(item.text(), "experiments");
  } catch (const ConfigError& problem) {
    throw ConfigError(item.place(), std::string("experiments: ") + problem.what());
  }
}

/// The experiment's own name; with that of the grid's point after it.
std::string name_in(const Node& composed, const std::string& file, const GridVariant& variant) {
  const Node* given = composed.find("name");
  const bool named = given != nullptr && given->is_scalar();
  return (named ? given->text() : fs::path(file).stem().string()) + variant.suffix;
}

/// "attention 'quest' does not honour 'causal'...", without the place, which is always the suite's.
std::string reason_of(const IncompatibleError& error) {
  const std::string text = error.what();
  const std::size_t start = text.find("attention '");
  const std::string line = text.substr(start == std::string::npos ? 0 : start);
  return line.substr(0, line.find('\n'));
}

/// Marks the values that `set`, or `tune`, gave as the attention's own, for whoever compares the
/// runs. @param origin  set_origin or tune_origin
void mark_as_own(const Node& set, const std::string& label, Node& resolved,
                 std::string (*origin)(const std::string&, const std::string&) = set_origin) {
  for (const auto& [key, value] : set.entries()) {
    Node* found = resolved.find(key.substr(0, key.find_last_not_of("+-") + 1));
    if (found == nullptr) continue;
    if (value.is_map() && found->is_map()) {
      mark_as_own(value, label, *found, origin);
    } else {
      found->set_place({origin(label, value.place().str()), 0, 0});
    }
  }
}

void check_set(const Node& set) {
  if (!set.is_map()) {
    throw ConfigError(set.place(),
                      "attentions: set: expected a map of what an experiment has with "
                      "this attention, found " +
                          to_flow(set));
  }
  for (const char* key : {"schema", "name", "seeds", "attention"}) {
    if (set.find(key) == nullptr) continue;
    throw ConfigError(set.key_place(key),
                      fmt::format("attentions: set: does not change '{}', which all attentions "
                                  "have in common or which stands beside it; take it out",
                                  key));
  }
}

}  // namespace

std::vector<std::int64_t> seeds_in(const Node& composed) {
  std::vector<std::int64_t> seeds;
  if (const Node* list = composed.find("seeds")) {
    for (const Node& item : list->items()) {
      if (const auto seed = item.as_int()) seeds.push_back(*seed);
    }
  }
  return seeds.empty() ? std::vector<std::int64_t>{0} : seeds;
}

SuiteAttention attention_of(const Node& item) {
  SuiteAttention attention{"", item, Node(), item.place()};
  if (item.is_scalar()) {
    attention.part = Node::map(item.place());
    attention.part.set("use", item);
  } else if (!item.is_map() || item.find("use") == nullptr) {
    throw ConfigError(
        item.place(),
        "attentions: expected a name or {use: NAME, as: LABEL, ...}, found " + to_flow(item));
  } else if (const Node* set = item.find("set"); set != nullptr && !set->is_null()) {
    check_set(*set);
    attention.set = *set;
  }
  attention.part.erase("set");
  attention.label = attention_label(attention.part);
  return attention;
}

CellMaker::CellMaker(Suite& suite, const Node& root, const Catalogue& catalogue, bool use_fallback,
                     const Matcher& matcher, std::vector<std::string>& problems)
    : suite_(suite),
      root_(root),
      catalogue_(catalogue),
      use_fallback_(use_fallback),
      matcher_(matcher),
      problems_(problems) {}

void CellMaker::add(const Node& item, const std::vector<SuiteAttention>& attentions,
                    const SuiteGrid& grid) {
  const std::size_t before = suite_.experiments.size();
  try {
    add_experiment(item, attentions, grid);
  } catch (const ConfigError& error) {
    note(error.what());
  }
  knows_all_ = knows_all_ && suite_.experiments.size() > before;
}

void CellMaker::add_experiment(const Node& item, const std::vector<SuiteAttention>& attentions,
                               const SuiteGrid& grid) {
  Source source{item, experiment_file(item, suite_.file), Node(), attentions, {}};
  Composition file = load_composition(source.file);
  note_composing(join(file.problems, "\n"));
  if (!file.whole) return;
  source.changed = std::move(file.root);
  // The suite's attentions are whole: what the experiment's own has in some layers is none of them.
  if (Node* own = source.changed.find("attention")) own->erase("layers");
  if (const Node* set = root_.find("set")) lay_over(source.changed, *set);
  if (use_fallback_) lay_over(source.changed, root_.at("fallback"));
  if (const Node* layers = find_key(source.changed, "attention.layers")) {
    throw ConfigError(layers->place(),
                      "attention.layers: the suite's 'attentions' say which layers have what; "
                      "write it there");
  }
  const auto with = [&](const std::vector<std::string>& words) {
    Node composed = source.changed;
    for (const std::string& word : words) merge(composed, parse_override(word));
    return composed;
  };
  if (suite_.tuning) {
    source.tries = tune_points(*suite_.tuning, variants_of(suite_.tuning->lists, with, catalogue_));
  }
  for (const GridVariant& variant : variants_of(grid, with, catalogue_)) {
    add_variant(source, variant);
  }
}

/// @param over  of the suite, whose own references are resolved already
void CellMaker::lay_over(Node& composed, Node over) {
  escape_references(over);
  try {
    merge(composed, over);
  } catch (const ConfigError& error) {
    note_composing(error.what());
  }
}

void CellMaker::refuse_if_nothing_fits() {
  if (!suite_.cells.empty() || !problems_.empty()) return;
  for (const std::string& text : unfit_) note(text);
}

/// One experiment of the suite under one attention, before it is resolved.
/// @param matched  what `match:` lays over it; null: nothing
Node CellMaker::composed_cell(const Source& source, const GridVariant& variant,
                              const SuiteAttention& attention, const Node& matched) {
  Node composed = source.changed;
  for (const Node& change : variant.changes) lay_over(composed, change);
  Node chosen = Node::map(attention.place);
  chosen.set("attention", attention.part);
  lay_over(composed, std::move(chosen));
  if (!attention.set.is_null()) lay_over(composed, attention.set);
  if (!matched.is_null()) lay_over(composed, matched);
  // The suite names its attentions; a label of the experiment's own would lose the row its runs.
  if (attention.part.find("as") == nullptr) composed.find("attention")->erase("as");
  if (const Node* seeds = root_.find("seeds")) composed.set("seeds", *seeds);
  if (!variant.suffix.empty()) {
    const std::string name = name_in(composed, source.file, variant);
    composed.set("name", Node::scalar(name, source.item.place(), true));
  }
  std::vector<std::string> unresolved;
  interpolate(composed, unresolved);
  note_composing(join(unresolved, "\n"));
  return composed;
}

void CellMaker::add_variant(const Source& source, const GridVariant& variant) {
  std::string name;
  for (const SuiteAttention& attention : source.attentions) {
    try {
      const Node composed = composed_cell(source, variant, attention, Node());
      if (name.empty()) {
        name = name_in(composed, source.file, {});
        begin_experiment(source, variant, name);
        if (leave_out_uninstalled(source, composed, name)) return;
      }
      const CellWith with = [&, name](const std::string& label, const Node& over) {
        const auto other =
            std::find_if(source.attentions.begin(), source.attentions.end(),
                         [&](const SuiteAttention& one) { return one.label == label; });
        return resolve_experiment(composed_cell(source, variant, *other, over), catalogue_, name);
      };
      add_cells(composed, name, attention, with, source.tries);
    } catch (const ConfigError& error) {
      note(error.what());
    }
  }
}

bool CellMaker::leave_out_uninstalled(const Source& source, const Node& composed,
                                      const std::string& name) {
  if (!suite_.skip_missing_plugins) return false;
  const std::string missing = missing_plugin(composed, catalogue_);
  if (missing.empty()) return false;
  for (const SuiteAttention& attention : source.attentions) {
    for (const std::int64_t seed : seeds_in(composed)) {
      suite_.absent.push_back({name, attention.label, seed, {Absence::no_plugin, missing}, ""});
    }
  }
  unfit_.push_back(fmt::format("{}: {}", name, missing));
  return true;
}

void CellMaker::begin_experiment(const Source& source, const GridVariant& variant,
                                 const std::string& name) {
  if (!begun_.insert(name).second) {
    problems_.push_back(
        fmt::format("{}: the experiment '{}' stands twice; tell different ones apart with `name:` "
                    "in their files",
                    source.item.place().str(), name));
  }
  suite_.experiments.push_back(name);
  if (variant.suffix.empty()) return;
  const std::string base = name.substr(0, name.size() - variant.suffix.size());
  suite_.points.push_back({name, base, variant.words});
}

/// Takes up what an attention is tried with. @returns the first, which stands for the one that will
/// be chosen.
/// @param matched  what `match:` lays over it; null: nothing
Experiment CellMaker::add_tuned(const std::string& name, const SuiteAttention& attention,
                                const CellWith& with, const Node& matched,
                                const std::vector<TunePoint>& tries) {
  TunedCell tuned{name, attention.label, tries, {}};
  for (const TunePoint& point : tries) {
    Node over = matched.is_null() ? Node::map() : matched;
    merge(over, point.changes);
    Experiment candidate = with(attention.label, over);
    check_tuned(*suite_.tuning, candidate);
    mark_as_own(attention.set, attention.label, candidate.resolved);
    mark_as_own(point.changes, attention.label, candidate.resolved, tune_origin);
    tuned.candidates.push_back(std::move(candidate));
  }
  suite_.tuning->cells.push_back(std::move(tuned));
  return suite_.tuning->cells.back().candidates.front();
}

void CellMaker::add_cells(const Node& composed, const std::string& name,
                          const SuiteAttention& attention, const CellWith& with,
                          const std::vector<TunePoint>& tries) {
  try {
    Experiment experiment = resolve_experiment(composed, catalogue_, name);
    if (suite_.match) check_match(*suite_.match, suite_.match_place, experiment, catalogue_);
    const Node matched = matcher_ ? matcher_(name, attention.label, with) : Node();
    if (!matched.is_null()) experiment = with(attention.label, matched);
    mark_as_own(attention.set, attention.label, experiment.resolved);
    if (!tries.empty()) experiment = add_tuned(name, attention, with, matched, tries);
    for (const std::int64_t seed : experiment.seeds) {
      suite_.cells.push_back(make_cell(experiment, seed, suite_.folder));
    }
  } catch (const IncompatibleError& error) {
    const Gap gap{Absence::incompatible, reason_of(error)};
    for (const std::int64_t seed : seeds_in(composed)) {
      suite_.absent.push_back({name, attention.label, seed, gap, ""});
    }
    unfit_.emplace_back(error.what());
  }
}

/// What else is wrong at these places follows from that.
void CellMaker::note_composing(const std::string& text) {
  note(text);
  add_elsewhere(composing_, {}, text);
}

void CellMaker::note(const std::string& text) {
  Problems lines;
  add_elsewhere(lines, composing_, text);
  for (const std::string& line : lines) {
    if (seen_.insert(line).second) problems_.push_back(line);
  }
}

}  // namespace attnlab
