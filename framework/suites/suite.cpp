#include "framework/suites/suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "framework/base/text.h"
#include "framework/config/compose.h"
#include "framework/config/problems.h"
#include "framework/experiment/names.h"
#include "framework/suites/dependency_levels.h"
#include "framework/suites/planned_test.h"
#include "framework/suites/suite_cells.h"
#include "framework/suites/suite_grid.h"
#include "framework/suites/suite_keys.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

/// @returns whether all are sound.
bool read_attentions(const Node& keys, std::vector<SuiteAttention>& attentions,
                     Problems& problems) {
  const Node* list = keys.find("attentions");
  if (list == nullptr) return false;
  const std::size_t before = problems.size();
  for (const Node& item : list->items()) {
    try {
      attentions.push_back(attention_of(item));
    } catch (const ConfigError& error) {
      problems.emplace_back(error.what());
    }
  }
  return problems.size() == before;
}

/// The suite's own name, or its file's without the ending; it becomes a folder.
std::string name_of(const SuiteKeys& keys, const Node& root, const std::string& path,
                    Problems& problems) {
  std::string name = keys.name.value_or(fs::path(path).stem().string());
  const std::string wrong = name_problem(name);
  if (!wrong.empty() && keys.name) {
    add_problem(problems, root.at("name").place(), "name: " + wrong);
  } else if (!wrong.empty()) {
    add_problem(
        problems, root.place(),
        fmt::format("the suite would have the name of this file: {}; give it 'name: WORD'", wrong));
  }
  return name;
}

/// @param all  whether these are all of the suite's
void check_attentions(Suite& suite, const Node& root, const std::vector<SuiteAttention>& attentions,
                      bool all, Problems& problems) {
  std::set<std::string> seen(suite.attentions.begin(), suite.attentions.end());
  for (const SuiteAttention& attention : attentions) {
    if (!seen.insert(attention.label).second) {
      problems.push_back(
          fmt::format("{}: the attention '{}' stands twice; tell them apart with `as: LABEL`",
                      attention.place.str(), attention.label));
    }
    suite.attentions.push_back(attention.label);
  }
  if (!all) return;
  const Node* baseline = root.find("baseline");
  suite.baseline = baseline == nullptr ? suite.attentions.front() : baseline->text();
  if (std::count(suite.attentions.begin(), suite.attentions.end(), suite.baseline) == 0) {
    problems.push_back(fmt::format("{}: baseline: '{}' is not one of the suite's attentions{}",
                                   (baseline == nullptr ? root.place() : baseline->place()).str(),
                                   suite.baseline, suggestion(suite.baseline, suite.attentions)));
  }
}

/// Folders stand relative to the suite's file, wherever a link to it lies; an absolute one stays
/// what it is.
std::vector<std::string> beside(const std::string& file, std::vector<std::string> folders) {
  std::error_code error;
  fs::path own = fs::weakly_canonical(file, error).parent_path();
  if (error) own = fs::path(file).parent_path();
  for (std::string& folder : folders) folder = (own / folder).lexically_normal().string();
  return folders;
}

/// Whether the experiments were chosen on the command line or in another file than a section that
/// names some of them: it is then of more than there is.
bool chosen_elsewhere(const Node& root, const Node& section) {
  const Node* experiments = root.find("experiments");
  if (experiments == nullptr) return false;
  const Place place = experiments->place();
  return place.line == 0 || place.file != section.place().file;
}

/// After the cells, whose experiments it names. @param all  whether these are all of the suite's
void check_relative(const Node& keys, Suite& suite, bool all, Problems& problems) {
  if (!suite.relative) return;
  const Node& section = keys.at("relative");
  const std::string& to = suite.relative->to;
  if (std::count(suite.experiments.begin(), suite.experiments.end(), to) > 0) return;
  if (all && !to.empty() && !chosen_elsewhere(keys, section)) {
    add_problem(
        problems, section.at("to").place(),
        "relative.to: expected one of the suite's experiments" + suggestion(to, suite.experiments));
  }
  suite.relative.reset();
}

/// After the cells, whose experiments it shows.
/// @param all    whether these are all of the suite's
/// @param sound  whether nothing is wrong with them
void read_page(const Node& keys, Suite& suite, bool all, bool sound, Problems& problems) {
  const Node* section = keys.find("page");
  if (section == nullptr) return;
  suite.page = page_of(*section, problems);
  fit_page(*suite.page, suite.experiments, section->place(),
           !all || chosen_elsewhere(keys, *section) ? nullptr : &problems);
  if (!sound) return;
  std::map<std::string, std::vector<std::string>> evaluations;
  for (const Cell& cell : suite.cells) {
    const auto [names, is_new] = evaluations.try_emplace(cell.experiment.name);
    const Node* entries = cell.experiment.resolved.find("evaluate");
    if (!is_new || entries == nullptr) continue;
    for (const auto& [name, entry] : entries->entries()) names->second.push_back(name);
  }
  check_metrics(*suite.page, evaluations, section->place(), problems);
  if (suite.page->columns.empty()) suite.page.reset();
}

void read_pool(const Node& keys, Suite& suite, Problems& problems) {
  const Node* section = keys.find("pool");
  if (keys.find("grid") == nullptr && section != nullptr) {
    add_problem(problems, section->place(),
                "pool: there is no 'grid' to pool over; add grid: {KEY: [VALUES]}");
  }
  if (suite.points.empty()) return;  // wrong, or nothing to pool
  std::vector<std::string> words;
  for (const auto& [word, value] : suite.points.front().values) words.push_back(word);
  suite.pool = read_pool(section, words, problems);
}

/// `tune:`, whose values are each attention's own; not with `grid`, where each point is an
/// experiment that has all values.
/// @returns nothing where it is wrong
std::optional<Tuning> tuning_of(const Node& keys, Problems& problems) {
  const Node& section = keys.at("tune");
  const std::size_t before = problems.size();
  if (keys.find("grid") != nullptr) {
    add_problem(
        problems, section.place(),
        "tune: chooses values, and 'grid' shows every one of them; take one of the two out");
  }
  Tuning tuning = read_tune(section, problems);
  return problems.size() == before ? std::optional(std::move(tuning)) : std::nullopt;
}

/// After the cells, which it names. @param sound  whether nothing is wrong with them
void check_skips(const Suite& suite, std::vector<SkipRule> rules, bool sound, Problems& problems) {
  std::set<std::int64_t> seeds;
  for (const Cell& cell : suite.cells) seeds.insert(cell.seed);
  for (const AbsentCell& cell : suite.absent) seeds.insert(cell.seed);
  if (!sound) {
    for (SkipRule& rule : rules) rule.seeds.clear();
  }
  check_skips(rules, suite.experiments, suite.attentions, {seeds.begin(), seeds.end()}, problems);
}

/// Moves what `skip:` names from the cells to the absent ones.
void apply_skips(Suite& suite, const std::vector<SkipRule>& rules, const Place& place,
                 Problems& problems) {
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
  const Composition composition = compose(path, overrides);
  if (!composition.whole) throw ConfigError(composition.problems);
  Problems of_keys, problems;
  const Node root =
      resolve_options(composition.root, schema_of<SuiteKeys>(), "", "a suite", of_keys);
  const auto keys = read_keys<SuiteKeys>(root);
  Suite suite;
  suite.file = path;
  suite.name = name_of(keys, root, path, problems);
  suite.folder = fmt::format("{}/{}", root_folder, suite.name);
  if (keys.fallback) suite.fallback = root.at("fallback");
  suite.compare = keys.compare;
  if (keys.match && !keys.match->by.empty()) {
    suite.match = keys.match;
    suite.match_place = root.at("match").place();
  }
  suite.relative = keys.relative;
  suite.skip_missing_plugins = keys.missing_plugins == "skip";
  suite.skip_missing_data = keys.missing_data == "skip";
  if (suite.skip_missing_data && keys.fallback) {
    add_problem(problems, root.at("missing_data").place(),
                "missing_data: skip leaves experiments out where 'fallback' would run them on "
                "other data; take one of the two out");
  }
  suite.stored = beside(path, keys.stored);
  suite.warning = keys.warning;
  if (!suite.warning.empty()) suite.notes.push_back("WARNING: " + suite.warning);
  suite.references = published_numbers(root.at("reference"), problems);
  std::vector<SuiteAttention> attentions;
  const bool all_attentions = read_attentions(root, attentions, problems);
  check_attentions(suite, root, attentions, all_attentions, problems);
  std::vector<SkipRule> rules = keys.skip;
  for (std::size_t i = 0; i < rules.size(); ++i)
    rules[i].place = root.at("skip").items()[i].place();
  check_skips(rules, problems);
  if (keys.tune) suite.tuning = tuning_of(root, problems);
  CellMaker maker(suite, root, catalogue, use_fallback, matcher, problems);
  const std::size_t before = problems.size();
  const SuiteGrid grid = keys.grid ? read_grid(root.at("grid"), problems) : SuiteGrid{};
  const bool sound_grid = problems.size() == before;
  const Node* experiments = root.find("experiments");
  if (experiments != nullptr) {
    for (const Node& item : experiments->items()) maker.add(item, attentions, grid);
  }
  const bool all = all_attentions && sound_grid && maker.knows_all() && experiments != nullptr;
  const bool sound = all && of_keys.empty() && problems.size() == before;
  if (sound_grid) read_pool(root, suite, problems);
  check_relative(root, suite, all, problems);
  maker.refuse_if_nothing_fits();
  read_page(root, suite, all, sound, problems);
  if (all) check_skips(suite, rules, sound, problems);
  Problems said = composition.problems;
  add_elsewhere(said, composition.problems, join(of_keys, "\n"));
  if (!rules.empty() && said.empty() && problems.empty()) {
    apply_skips(suite, rules, root.at("skip").place(), problems);
  }
  add_elsewhere(said, Problems(said), join(problems, "\n"));
  if (!said.empty()) throw ConfigError(said);
  begin_with_each_other(suite.cells, suite.folder);
  const Node* const compare = composition.root.find("compare");
  plan_test(suite, compare != nullptr && compare->is_map() && compare->find("test") != nullptr);
  return suite;
}

}  // namespace attnlab
