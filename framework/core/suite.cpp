#include "framework/core/suite.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "framework/core/compose.h"
#include "framework/core/table.h"
#include "framework/core/text.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Problems = std::vector<std::string>;

const std::vector<std::string> kKeys = {"schema", "name", "baseline", "attentions", "experiments",
                                        "seeds",  "set",  "fallback", "compare"};
/// Columns come in this order; others follow by name.
const std::vector<std::string> kColumns = {"accuracy", "top5", "nll", "train_loss",
                                           "examples_per_second"};

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
Node composed_cell(const std::string& file, const Node& suite, const Node& attention,
                   bool use_fallback) {
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

void add_experiment(Suite& suite, const std::string& name, const Place& place, Problems& problems) {
  if (std::count(suite.experiments.begin(), suite.experiments.end(), name) > 0) {
    problems.push_back(place.str() + ": the experiment '" + name +
                       "' stands twice; tell different ones apart with `name:` in their files");
  }
  suite.experiments.push_back(name);
}

std::vector<std::string> columns_of(const std::vector<SuiteRow>& rows) {
  std::set<std::string> names;
  for (const SuiteRow& row : rows) {
    for (const auto& [name, summary] : row.metrics) names.insert(name);
  }
  std::vector<std::string> columns;
  for (const std::string& name : kColumns) {
    if (names.erase(name) > 0) columns.push_back(name);
  }
  columns.insert(columns.end(), names.begin(), names.end());
  return columns;
}

std::string states_text(const SuiteRow& row) {
  std::string text;
  for (const auto& [state, count] : row.states) {
    if (!text.empty()) text += ", ";
    text += std::to_string(count) + " " + std::string(name_of(state));
  }
  return text;
}

}  // namespace

Suite load_suite(const std::string& path, const std::vector<std::string>& overrides,
                 const Catalogue& catalogue, const std::string& root_folder, bool use_fallback) {
  const Node root = compose_file(path, overrides);
  Problems problems;
  check_keys(root, problems);
  Suite suite;
  suite.file = path;
  const Node* name = root.find("name");
  suite.name = name != nullptr ? name->text() : fs::path(path).stem().string();
  if (const Node* fallback = root.find("fallback")) suite.fallback = *fallback;
  read_compare(root, suite, problems);
  std::vector<Node> attentions;
  for (const Node& item : list_of(root, "attentions").items()) {
    attentions.push_back(attention_of(item));
  }
  check_attentions(suite, root, attentions, problems);
  std::set<std::string> seen;  // one mistake in an experiment would else stand there per attention
  for (const Node& item : list_of(root, "experiments").items()) {
    const std::string file = experiment_file(item, path);
    std::string this_name;
    for (const Node& attention : attentions) {
      try {
        const Experiment experiment =
            resolve_experiment(composed_cell(file, root, attention, use_fallback), catalogue,
                               fs::path(file).stem().string());
        if (this_name.empty()) {
          this_name = experiment.name;
          add_experiment(suite, this_name, item.place(), problems);
        }
        for (const std::int64_t seed : experiment.seeds) {
          suite.cells.push_back(
              {experiment, seed, RunFolder::of(root_folder + "/" + suite.name, experiment, seed)});
        }
      } catch (const ConfigError& error) {
        std::istringstream lines(error.what());
        for (std::string line; std::getline(lines, line);) {
          if (seen.insert(line).second) problems.push_back(line);
        }
      }
    }
  }
  if (!problems.empty()) throw ConfigError(problems);
  return suite;
}

std::vector<SuiteRow> summarise(const Suite& suite) {
  std::vector<SuiteRow> rows;
  for (const std::string& experiment : suite.experiments) {
    for (const std::string& attention : suite.attentions) {
      SuiteRow row{experiment, attention, {}, {}};
      std::map<std::string, std::vector<double>> values;
      for (const Cell& cell : suite.cells) {
        if (cell.experiment.name != experiment || cell.experiment.attention.label != attention) {
          continue;
        }
        const RunStatus status = cell.folder.status();
        ++row.states[status.state];
        if (status.state != RunState::done) continue;
        for (const auto& [name, value] : status.metrics) values[name].push_back(value);
      }
      for (const auto& [name, list] : values) row.metrics[name] = summary_of(list);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::string suite_markdown(const Suite& suite, const std::vector<SuiteRow>& rows,
                           const std::string& command) {
  const std::vector<std::string> columns = columns_of(rows);
  std::vector<std::vector<std::string>> table(1);
  table[0] = {"experiment", "attention"};
  for (const std::string& column : columns) table[0].push_back(metric_heading(column));
  table[0].push_back("runs");
  for (const SuiteRow& row : rows) {
    std::vector<std::string> line = {row.experiment, row.attention};
    if (row.attention == suite.baseline) line[1] += " (baseline)";
    for (const std::string& column : columns) {
      const auto metric = row.metrics.find(column);
      line.push_back(metric == row.metrics.end() ? "-" : summary_text(column, metric->second));
    }
    line.push_back(states_text(row));
    table.push_back(std::move(line));
  }
  std::string out = "# Suite " + suite.name + "\n\n" + table_text(table) +
                    "\nmean ± sample standard deviation over the seeds that are done\n";
  for (const std::string& note : suite.notes) out += "\n**" + note + "**\n";
  return out + "\nRepeat it with\n\n    " + command + "\n";
}

std::string suite_json(const Suite& suite, const std::vector<SuiteRow>& rows,
                       const std::string& command) {
  json out = {{"suite", suite.name},   {"file", suite.file},   {"baseline", suite.baseline},
              {"command", command},    {"notes", suite.notes}, {"complete", complete(suite)},
              {"rows", json::array()}, {"runs", json::array()}};
  if (suite.compare) {
    const CompareOptions& compare = *suite.compare;
    out["compare"] = {{"test", compare.test},       {"pair", compare.pair},
                      {"correct", compare.correct}, {"level", compare.level},
                      {"metric", compare.metric},   {"better", compare.better}};
  }
  for (const SuiteRow& row : rows) {
    json entry = {{"experiment", row.experiment}, {"attention", row.attention}};
    for (const auto& [name, summary] : row.metrics) {
      entry["metrics"][name] = {
          {"mean", summary.mean}, {"sd", summary.deviation}, {"n", summary.count}};
    }
    for (const auto& [state, count] : row.states)
      entry["states"][std::string(name_of(state))] = count;
    out["rows"].push_back(std::move(entry));
  }
  for (const Cell& cell : suite.cells) {
    const RunStatus status = cell.folder.status();
    json entry = {{"experiment", cell.experiment.name},
                  {"attention", cell.experiment.attention.label},
                  {"seed", cell.seed},
                  {"folder", cell.folder.path()},
                  {"state", name_of(status.state)},
                  {"seconds", status.seconds}};
    for (const auto& [name, value] : status.metrics) {
      entry["metrics"][name] = std::isfinite(value) ? json(value) : json(nullptr);
    }
    if (!status.reason.empty()) entry["reason"] = status.reason;
    out["runs"].push_back(std::move(entry));
  }
  return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

bool complete(const Suite& suite) {
  return std::all_of(suite.cells.begin(), suite.cells.end(),
                     [](const Cell& cell) { return cell.folder.status().finished(); });
}

}  // namespace attnlab
