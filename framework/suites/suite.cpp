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
#include "framework/suites/suite_cells.h"
#include "framework/suites/suite_grid.h"
#include "framework/suites/suite_page.h"
#include "framework/suites/suite_skip.h"
#include "framework/suites/waves.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
const std::vector<std::string> kKeys = {
    "schema",   "name",    "baseline", "attentions", "experiments",  "seeds",          "set",
    "fallback", "compare", "skip",     "match",      "missing_data", "reference",      "relative",
    "grid",     "pool",    "page",     "stored",     "warning",      "missing_plugins"};

/// The items; none where that is a problem.
std::vector<Node> list_of(const Node& root, const char* key, Problems& problems) {
  const Node* list = root.find(key);
  if (list != nullptr && list->is_list() && !list->items().empty()) return list->items();
  add_problem(problems, list == nullptr ? root.place() : list->place(),
              fmt::format("a suite needs '{}: [...]' with at least one item", key));
  return {};
}

/// @returns whether all are sound.
bool read_attentions(const Node& root, std::vector<SuiteAttention>& attentions,
                     Problems& problems) {
  const std::size_t before = problems.size();
  for (const Node& item : list_of(root, "attentions", problems)) {
    try {
      attentions.push_back(attention_of(item));
    } catch (const ConfigError& error) {
      problems.emplace_back(error.what());
    }
  }
  return problems.size() == before;
}

void check_keys(const Node& root, Problems& problems) {
  for (const auto& [key, value] : root.entries()) {
    if (std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end()) continue;
    problems.push_back(fmt::format("{}: unknown key '{}' of a suite{}", root.key_place(key).str(),
                                   key, suggestion(key, kKeys)));
  }
  const Node* schema = root.find("schema");
  if (schema == nullptr || schema->as_int() != 1) {
    problems.push_back(root.place().str() + ": a suite starts with 'schema: 1'");
  }
  for (const char* key : {"set", "fallback"}) {
    const Node* value = root.find(key);
    if (value == nullptr || value->is_map() || value->is_null()) continue;
    problems.push_back(
        fmt::format("{}: {}: expected a map of what to change in every experiment, found {}",
                    value->place().str(), key, to_flow(*value)));
  }
}

/// The suite's own name, or its file's without the ending; it becomes a folder.
std::string read_name(const Node& root, const std::string& path, Problems& problems) {
  const Node* given = root.find("name");
  std::string name = given != nullptr ? given->text() : fs::path(path).stem().string();
  const std::string wrong = name_problem(name);
  if (!wrong.empty() && given != nullptr) {
    problems.push_back(fmt::format("{}: name: {}", given->place().str(), wrong));
  } else if (!wrong.empty()) {
    problems.push_back(
        fmt::format("{}: the suite would have the name of this file: {}; give it 'name: WORD'",
                    root.place().str(), wrong));
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
    problems.push_back(fmt::format("{}: baseline: '{}' is none of the suite's attentions{}",
                                   (baseline == nullptr ? root.place() : baseline->place()).str(),
                                   suite.baseline, suggestion(suite.baseline, suite.attentions)));
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
    problems.push_back(fmt::format("{}: missing_data: expected skip or error, found {}",
                                   value->place().str(), to_flow(*value)));
  }
  if (suite.skip_missing_data && !suite.fallback.is_null()) {
    problems.push_back(value->place().str() +
                       ": missing_data: skip leaves experiments out where 'fallback' would run "
                       "them on other data; take one of the two out");
  }
}

void read_missing_plugins(const Node& root, Suite& suite, Problems& problems) {
  const Node* value = root.find("missing_plugins");
  if (value == nullptr || value->is_null()) return;
  const std::string text = value->is_scalar() ? value->text() : "";
  suite.skip_missing_plugins = text == "skip";
  if (text == "skip" || text == "error") return;
  problems.push_back(fmt::format("{}: missing_plugins: expected skip or error, found {}",
                                 value->place().str(), to_flow(*value)));
}

/// Folders stand relative to the suite's file, wherever a link to it lies.
void read_stored(const Node& root, Suite& suite, Problems& problems) {
  const Node* list = root.find("stored");
  if (list == nullptr || list->is_null()) return;
  std::error_code error;
  fs::path beside = fs::weakly_canonical(suite.file, error).parent_path();
  if (error) beside = fs::path(suite.file).parent_path();
  for (const Node& item : list->items()) {  // an absolute one stays what it is
    if (item.is_scalar())
      suite.stored.push_back((beside / item.text()).lexically_normal().string());
  }
  if (list->is_list() && suite.stored.size() == list->items().size()) return;
  problems.push_back(fmt::format("{}: stored: expected a list of folders, found {}",
                                 list->place().str(), to_flow(*list)));
}

void read_warning(const Node& root, Suite& suite, Problems& problems) {
  const Node* text = root.find("warning");
  if (text == nullptr || text->is_null()) return;
  if (!text->is_scalar()) {
    problems.push_back(
        fmt::format("{}: warning: expected a text, found {}", text->place().str(), to_flow(*text)));
    return;
  }
  suite.warning = text->text();
  suite.notes.push_back("WARNING: " + suite.warning);
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
void read_relative(const Node& root, Suite& suite, bool all, Problems& problems) {
  const Node* section = root.find("relative");
  if (section == nullptr || section->is_null()) return;
  Problems own;
  const RelativeTo relative = read_relative(*section, own);
  const bool known =
      std::count(suite.experiments.begin(), suite.experiments.end(), relative.to) > 0;
  if (all && !known && !relative.to.empty() && !chosen_elsewhere(root, *section)) {
    own.push_back(fmt::format("{}: relative.to: expected one of the suite's experiments{}",
                              section->at("to").place().str(),
                              suggestion(relative.to, suite.experiments)));
  }
  if (own.empty() && known) suite.relative = relative;
  problems.insert(problems.end(), own.begin(), own.end());
}

/// After the cells, whose experiments it shows.
/// @param all    whether these are all of the suite's
/// @param sound  whether nothing is wrong with them
void read_page(const Node& root, Suite& suite, bool all, bool sound, Problems& problems) {
  const Node* section = root.find("page");
  if (section == nullptr || section->is_null()) return;
  suite.page = read_page(*section, problems);
  fit_page(*suite.page, suite.experiments, section->place(),
           !all || chosen_elsewhere(root, *section) ? nullptr : &problems);
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

SuiteGrid given_grid(const Node& root, Problems& problems) {
  const Node* section = root.find("grid");
  return section == nullptr || section->is_null() ? SuiteGrid{} : read_grid(*section, problems);
}

void read_pool(const Node& root, Suite& suite, Problems& problems) {
  const Node* section = root.find("pool");
  if (root.find("grid") == nullptr && section != nullptr) {
    problems.push_back(root.key_place("pool").str() +
                       ": pool: there is no 'grid' to pool over; add grid: {KEY: [VALUES]}");
  }
  if (suite.points.empty()) return;  // wrong, or nothing to pool
  std::vector<std::string> words;
  for (const auto& [word, value] : suite.points.front().values) words.push_back(word);
  suite.pool = read_pool(section, words, problems);
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
  const Node& root = composition.root;
  Problems problems;
  check_keys(root, problems);
  Suite suite;
  suite.file = path;
  suite.name = read_name(root, path, problems);
  suite.folder = fmt::format("{}/{}", root_folder, suite.name);
  if (const Node* fallback = root.find("fallback")) suite.fallback = *fallback;
  read_compare(root, suite, problems);
  read_match(root, suite, problems);
  read_missing_data(root, suite, problems);
  read_missing_plugins(root, suite, problems);
  read_stored(root, suite, problems);
  read_warning(root, suite, problems);
  if (const Node* section = root.find("reference"); section != nullptr && !section->is_null()) {
    suite.references = read_references(*section, problems);
  }
  std::vector<SuiteAttention> attentions;
  const bool all_attentions = read_attentions(root, attentions, problems);
  check_attentions(suite, root, attentions, all_attentions, problems);
  const Node* skip = root.find("skip");
  const std::vector<SkipRule> rules =
      skip == nullptr ? std::vector<SkipRule>{} : read_skips(*skip, problems);
  CellMaker maker(suite, root, catalogue, use_fallback, matcher, problems);
  const std::size_t before = problems.size();
  const SuiteGrid grid = given_grid(root, problems);
  const bool sound_grid = problems.size() == before;
  const std::vector<Node> experiments = list_of(root, "experiments", problems);
  for (const Node& item : experiments) maker.add(item, attentions, grid);
  const bool all = all_attentions && sound_grid && maker.knows_all() && !experiments.empty();
  const bool sound = all && problems.size() == before;
  if (sound_grid) read_pool(root, suite, problems);
  read_relative(root, suite, all, problems);
  maker.refuse_if_nothing_fits();
  read_page(root, suite, all, sound, problems);
  if (all) check_skips(suite, rules, sound, problems);
  if (skip != nullptr && problems.empty()) apply_skips(suite, rules, skip->place(), problems);
  if (!composition.problems.empty()) {
    Problems more = composition.problems;
    add_elsewhere(more, composition.problems, join(problems, "\n"));
    problems = std::move(more);
  }
  if (!problems.empty()) throw ConfigError(problems);
  begin_with_each_other(suite.cells, suite.folder);
  return suite;
}

}  // namespace attnlab
