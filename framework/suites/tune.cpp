#include "framework/suites/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "framework/base/add_once.h"
#include "framework/base/files.h"
#include "framework/base/parsed_json.h"
#include "framework/base/text.h"
#include "framework/config/compose.h"
#include "framework/config/problems.h"
#include "framework/experiment/evaluations.h"
#include "framework/runs/metric_infos.h"
#include "framework/runs/run_records.h"
#include "framework/suites/suite.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

// ---- the section

/// Takes a whole number out of the section; what is left are lists.
void take(Node& section, const char* key, std::int64_t least, std::int64_t& out,
          Problems& problems) {
  const Node* given = section.find(key);
  if (given == nullptr) return;
  const auto number = given->as_int();
  if (number && *number >= least) {
    out = *number;
  } else {
    add_problem(problems, given->place(),
                fmt::format("tune.{}: expected a whole number from {} on, found {}", key, least,
                            to_flow(*given)));
  }
  section.erase(key);
}

/// All values of a tree of maps, by their keys in full.
void flatten_values(const Node& node, const std::string& path,
                    std::vector<std::pair<std::string, std::string>>& out) {
  if (!node.is_map()) {
    out.emplace_back(path, to_flow(node));
    return;
  }
  for (const auto& [key, value] : node.entries()) {
    flatten_values(value, path.empty() ? key : fmt::format("{}.{}", path, key), out);
  }
}

TunePoint point_of(const GridVariant& variant) {
  TunePoint point{variant.suffix, "", {}, Node::map()};
  std::vector<std::string> words;
  for (const auto& [word, value] : variant.words)
    words.push_back(fmt::format("{}={}", word, value));
  point.text = join(words, ", ");
  for (const Node& change : variant.changes) {
    flatten_values(change, "", point.values);
    merge(point.changes, change);
  }
  return point;
}

/// Which of `all` are tried.
std::vector<bool> spread(const std::vector<GridVariant>& all, std::size_t budget) {
  if (budget == all.size()) return std::vector<bool>(budget, true);
  std::map<std::pair<std::string, std::string>, std::size_t> numbers;  // of values
  std::vector<std::vector<std::size_t>> values;                        // of each combination
  for (const GridVariant& variant : all) {
    values.emplace_back();
    for (const auto& word : variant.words) {
      values.back().push_back(numbers.emplace(word, numbers.size()).first->second);
    }
  }
  std::vector<std::size_t> taken(numbers.size());
  std::vector<bool> chosen(all.size());
  for (std::size_t n = 0; n < budget; ++n) {
    std::optional<std::size_t> next;
    std::size_t fewest = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (chosen[i]) continue;
      std::size_t times = 0;
      for (const std::size_t value : values[i]) times += taken[value];
      if (next && times >= fewest) continue;
      next = i;
      fewest = times;
    }
    if (!next) break;
    chosen[*next] = true;
    for (const std::size_t value : values[*next]) ++taken[value];
  }
  return chosen;
}

// ---- tries

using CellKey = std::pair<std::string, std::string>;  // experiment and attention

CellKey key_of(const Cell& cell) { return {cell.experiment.name, cell.experiment.attention.label}; }

std::string tries_folder(const Suite& suite) { return suite.folder + "/tries"; }

/// The run of one try: with the seed of the tries, and asked nothing but what chooses its epoch.
Experiment as_try(Experiment experiment, const TunePoint& point, std::int64_t seed) {
  experiment.name += point.suffix;
  experiment.seeds = {seed};
  Node& resolved = experiment.resolved;
  resolved.set("name", Node::scalar(experiment.name, {"tune", 0, 0}, true));
  Node seeds = Node::list({"tune", 0, 0});
  seeds.items().push_back(Node::scalar(std::to_string(seed), {"tune", 0, 0}));
  resolved.set("seeds", std::move(seeds));
  Node* const entries = resolved.find("evaluate");
  if (entries == nullptr || !entries->is_map()) return experiment;
  const std::string judge = entry_of_metric(*entries, experiment.train.early_stop.metric);
  if (judge.empty()) {
    resolved.erase("evaluate");
    return experiment;
  }
  Node kept = Node::map(entries->place());
  kept.set(judge, entries->at(judge));
  *entries = std::move(kept);
  return experiment;
}

bool has_begun(const RunFolder& folder) {
  try {
    return folder.exists() && folder.status().state != RunState::pending;
  } catch (const Error&) {  // damaged by now
    return true;
  }
}

// ---- scores

/// By what the epochs of a run are chosen, with its direction; no name: the run records none.
MetricInfo judging_metric(const EarlyStopOptions& options, const std::vector<MetricInfo>& infos) {
  MetricInfo metric;
  if (infos.empty()) return metric;
  metric = options.metric.empty() ? infos.front() : metric_or_plain(infos, options.metric);
  if (options.mode != "auto")
    metric.better = options.mode == "max" ? Better::higher : Better::lower;
  return metric;
}

bool is_better(double value, double than, const MetricInfo& metric) {
  return metric.better == Better::lower ? value < than : value > than;
}

/// The best value that a run had on the validation split; empty where none is finite.
std::optional<double> validation_score(const std::string& folder, const MetricInfo& metric) {
  std::istringstream lines(read_text(folder + "/metrics.jsonl", kLargestLog));
  std::optional<double> best;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("\"validation\"") == std::string::npos) continue;
    try {
      const nlohmann::json read = parsed_json(line);
      if (read.value("split", "") != "validation" || !read.contains(metric.name)) continue;
      const nlohmann::json& value = read.at(metric.name);
      if (!value.is_number()) continue;  // null: not finite
      const double number = value.get<double>();
      if (!best || is_better(number, *best, metric)) best = number;
    } catch (const nlohmann::json::exception& damage) {
      throw DataError(fmt::format("{}/metrics.jsonl: damaged: {}", folder, damage.what()));
    }
  }
  return best;
}

/// What keeps a try's outcome from being known; empty where it is known.
std::string obstacle_of(const Cell& cell, RunState state) {
  switch (cell.action) {
    case CellAction::finished:
      return "";
    case CellAction::failed:
      return fmt::format("failed: {}; --rerun failed runs it again", cell.reason);
    case CellAction::stale:
      return fmt::format("is stale: {}; --rerun stale runs it again", cell.reason);
    case CellAction::busy:
      return cell.reason;
    case CellAction::run:
      break;
  }
  return fmt::format("is {}", name_of(state));
}

/// @param obstacle  gets what keeps it from being known
TuningTry outcome_of(const Cell& cell, const TunePoint& point, MetricInfo& metric,
                     std::string& obstacle) {
  TuningTry out{point.text, point.values, RunState::pending, std::nullopt, 0, cell.folder.path()};
  if (cell.action != CellAction::stale) {  // else the folder is of another run
    const RunStatus status = cell.folder.status();
    out.state = status.state;
    out.seconds = status.seconds;
  }
  obstacle = obstacle_of(cell, out.state);
  if (!obstacle.empty()) return out;
  try {
    const RunResult run = read_result(cell.folder.path());
    if (metric.name.empty()) {
      metric = judging_metric(cell.experiment.train.early_stop, run.infos);
    }
    if (out.state == RunState::done && !metric.name.empty()) {
      out.score = validation_score(cell.folder.path(), metric);
    }
  } catch (const Error& damage) {
    obstacle = std::string("cannot be read: ") + damage.what();
  }
  return out;
}

/// "train.optimizer.lr = 0.001, is the largest value tried", of each key whose chosen value is at
/// an end of its numbers. 0 as the smallest is none: there is nothing beyond it.
std::vector<std::string> edges_of(const std::vector<TuningTry>& tries, const TuningTry& chosen) {
  std::vector<std::string> out;
  for (std::size_t k = 0; k < chosen.values.size(); ++k) {
    std::vector<double> numbers;
    for (const TuningTry& one : tries) {
      if (const auto number = Node::scalar(one.values.at(k).second).as_double()) {
        numbers.push_back(*number);
      }
    }
    if (numbers.size() < tries.size()) continue;  // words have no order
    const auto [least, most] = std::minmax_element(numbers.begin(), numbers.end());
    const auto& [key, text] = chosen.values[k];
    const double own = *Node::scalar(text).as_double();
    if (*least == *most) continue;
    const char* edge = own == *most ? "largest" : own == *least && own != 0 ? "smallest" : "";
    if (*edge == '\0') continue;
    out.push_back(fmt::format("{} = {:g}, is the {} value tried", key, own, edge));
  }
  return out;
}

/// Sets `chosen` and `edges`, or says what its seeds wait for.
void judge(const std::vector<std::string>& obstacles, TunedAttention& tuned) {
  std::vector<std::string> open;
  for (std::size_t i = 0; i < obstacles.size(); ++i) {
    if (obstacles[i].empty()) continue;
    open.push_back(fmt::format("{} {}", tuned.tries[i].point, obstacles[i]));
  }
  if (!open.empty()) {
    tuned.waits = fmt::format("waits for {} of {} tries: {}", open.size(), tuned.tries.size(),
                              first_of(open));
    return;
  }
  for (std::size_t i = 0; i < tuned.tries.size(); ++i) {
    const std::optional<double>& score = tuned.tries[i].score;
    if (!score) continue;
    if (!tuned.chosen || is_better(*score, *tuned.tries[*tuned.chosen].score, tuned.metric)) {
      tuned.chosen = i;
    }
  }
  if (tuned.chosen) tuned.edges = edges_of(tuned.tries, tuned.tries[*tuned.chosen]);
}

/// Why an attention has no cells.
Gap gap_of(const TunedAttention& tuned) {
  if (tuned.waits.empty()) {
    return {Absence::diverged,
            fmt::format("none of its {} tries has a value on the validation split (tune)",
                        tuned.tries.size())};
  }
  const bool failed = std::any_of(tuned.tries.begin(), tuned.tries.end(),
                                  [](const auto& one) { return one.state == RunState::failed; });
  return {failed ? Absence::failed : Absence::pending, "its value " + tuned.waits};
}

std::map<CellKey, const TunedCell*> cells_by_key(const Tuning& tuning) {
  std::map<CellKey, const TunedCell*> out;
  for (const TunedCell& one : tuning.cells) out[{one.experiment, one.attention}] = &one;
  return out;
}

/// The outcome of each attention's tries.
TuningRecord record_of_tries(const Suite& suite, const std::vector<Cell>& tries) {
  TuningRecord record;
  record.seed = suite.tuning->seed;
  std::set<CellKey> present;
  for (const Cell& cell : suite.cells) present.insert(key_of(cell));
  std::size_t at = 0;  // `tries` has those of the present ones in this order
  for (const TunedCell& one : suite.tuning->cells) {
    if (present.count({one.experiment, one.attention}) == 0) continue;
    TunedAttention tuned{one.experiment, one.attention, {}, {}, std::nullopt, {}, ""};
    std::vector<std::string> obstacles(one.points.size());
    for (std::size_t i = 0; i < one.points.size(); ++i) {
      tuned.tries.push_back(outcome_of(tries.at(at++), one.points[i], tuned.metric, obstacles[i]));
      for (const auto& [key, value] : one.points[i].values) add_once(record.keys, key);
    }
    judge(obstacles, tuned);
    record.budget = static_cast<std::int64_t>(one.points.size());
    record.attentions.push_back(std::move(tuned));
  }
  return record;
}

}  // namespace

Tuning read_tune(const Node& section, Problems& problems) {
  Tuning tuning;
  tuning.place = section.place();
  Node lists = section;
  take(lists, "budget", 2, tuning.budget, problems);
  take(lists, "seed", 0, tuning.seed, problems);
  tuning.lists = read_grid(lists, problems, "tune");
  return tuning;
}

std::vector<TunePoint> tune_points(const Tuning& tuning, std::vector<GridVariant> all) {
  if (all.size() < 2) {
    throw ConfigError(tuning.place,
                      "tune: one combination of values is not a choice; give a list two values or "
                      "more, or write the one value in `set`");
  }
  const auto budget = tuning.budget == 0 ? all.size() : static_cast<std::size_t>(tuning.budget);
  if (budget > all.size()) {
    throw ConfigError(tuning.place,
                      fmt::format("tune: the lists have {} combinations, fewer than the budget of "
                                  "{} tries; give more values, or set budget: {}",
                                  all.size(), budget, all.size()));
  }
  const std::vector<bool> chosen = spread(all, budget);
  std::vector<TunePoint> points;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (chosen[i]) points.push_back(point_of(all[i]));
  }
  return points;
}

void check_tuned(const Tuning& tuning, const Experiment& experiment) {
  Problems problems;
  if (experiment.train.protocol != "sound") {
    add_problem(problems, tuning.place,
                fmt::format("tune: tries are judged on the validation split, and train.protocol of "
                            "'{}' is {}; set: {{train: {{protocol: sound}}}}, with a dataset that "
                            "has that split",
                            experiment.name, experiment.train.protocol));
  }
  if (std::count(experiment.seeds.begin(), experiment.seeds.end(), tuning.seed) > 0) {
    add_problem(problems, tuning.place,
                fmt::format("tune.seed: {} is one of the seeds of '{}' whose results count; tries "
                            "need another: seed: N",
                            tuning.seed, experiment.name));
  }
  if (experiment.init && !experiment.init->experiment.empty()) {
    add_problem(problems, tuning.place,
                fmt::format("tune: '{}' begins with a run of '{}' of the same seed "
                            "(init.experiment), and no result has the tries' seed; tune it in a "
                            "suite without that, and write the value in `set`",
                            experiment.name, experiment.init->experiment));
  }
  if (!problems.empty()) throw ConfigError(problems);
}

std::vector<Cell> try_cells(const Suite& suite) {
  std::map<CellKey, const Cell*> own;
  for (const Cell& cell : suite.cells) own.emplace(key_of(cell), &cell);
  std::vector<Cell> tries;
  for (const TunedCell& one : suite.tuning->cells) {
    const auto cell = own.find({one.experiment, one.attention});
    if (cell == own.end()) continue;
    for (std::size_t i = 0; i < one.points.size(); ++i) {
      const std::int64_t seed = suite.tuning->seed;
      tries.push_back(make_cell(as_try(one.candidates[i], one.points[i], seed), seed,
                                tries_folder(suite), cell->second->identity.data));
    }
  }
  return tries;
}

void choose_values(Suite& suite, const std::vector<Cell>& tries, std::vector<Cell>* waiting) {
  suite.tuned = record_of_tries(suite, tries);
  suite.tries_left = false;
  const std::map<CellKey, const TunedCell*> by_key = cells_by_key(*suite.tuning);
  std::map<CellKey, const TunedAttention*> outcomes;
  for (const TunedAttention& one : suite.tuned->attentions) {
    outcomes[{one.experiment, one.attention}] = &one;
    suite.tries_left = suite.tries_left || !one.waits.empty();
  }
  std::vector<Cell> kept;
  for (Cell& cell : suite.cells) {
    const TunedAttention& tuned = *outcomes.at(key_of(cell));
    if (tuned.chosen) {
      kept.push_back(make_cell(by_key.at(key_of(cell))->candidates[*tuned.chosen], cell.seed,
                               suite.folder, cell.identity.data));
    } else if (waiting != nullptr && !tuned.waits.empty()) {
      waiting->push_back(std::move(cell));
    } else {
      suite.absent.push_back({tuned.experiment, tuned.attention, cell.seed, gap_of(tuned), ""});
    }
  }
  suite.cells = std::move(kept);
}

std::string earlier_tries_note(const Suite& suite, const std::vector<Cell>& tries) {
  std::set<std::string> present;
  for (const Cell& cell : tries) present.insert(cell.folder.place());
  std::vector<std::string> labels;
  std::size_t count = 0;
  std::error_code error;
  for (const TunedCell& one : suite.tuning->cells) {
    for (const auto& experiment : fs::directory_iterator(tries_folder(suite), error)) {
      if (!experiment.path().filename().string().starts_with(one.experiment + ",")) continue;
      std::error_code none;
      for (const auto& run : fs::directory_iterator(experiment.path() / one.attention, none)) {
        const RunFolder folder(run.path().string());
        if (present.count(folder.place()) > 0 || !has_begun(folder)) continue;
        ++count;
        add_once(labels, fmt::format("{}/{}", one.experiment, one.attention));
      }
    }
  }
  if (count == 0) return "";
  return fmt::format(
      "tune: {}: {} earlier {} of other values, seeds, configurations, plugin files or data {} in "
      "{} and {} not counted: the tries were changed since",
      first_of(labels), count, count == 1 ? "try" : "tries", count == 1 ? "lies" : "lie",
      tries_folder(suite), count == 1 ? "is" : "are");
}

std::string tuning_plan(const Suite& suite) {
  const TuningRecord& record = *suite.tuned;
  std::vector<std::string> points;
  for (const TunedAttention& one : record.attentions) {
    for (const TuningTry& item : one.tries) add_once(points, item.point);
  }
  std::string text = fmt::format(
      "tune: {} chosen by {} tries of each attention on each experiment ({}), with seed {}, on the "
      "validation split\n",
      join(record.keys, ", ") + (record.keys.size() == 1 ? " is" : " are"), record.budget,
      join(points, "; "), record.seed);
  for (const TunedAttention& one : record.attentions) {
    text += fmt::format("  {}  {}\n", one.label(),
                        one.chosen          ? one.tries[*one.chosen].point
                        : one.waits.empty() ? "none: no try has a value"
                                            : fmt::format("chosen by {} tries", one.tries.size()));
  }
  return text;
}

}  // namespace attnlab
