#include "framework/runs/run_records.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/config/compose.h"
#include "framework/config/origins.h"
#include "framework/experiment/match.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Facts = std::map<std::string, std::string>;

constexpr const char* kParts[] = {"model", "attention", "task", "dataset"};

/// `1.0e-3` and `0.001` are one value.
std::string value_of(const Node& node) {
  if (node.is_list()) {
    std::vector<std::string> items;
    for (const Node& item : node.items()) items.push_back(value_of(item));
    return "[" + join(items, ", ") + "]";
  }
  const auto number = node.as_double();
  return number ? shortest(*number) : to_flow(node);
}

void flatten(const Node& node, const std::string& path, Facts& out) {
  if (!node.is_map() || node.entries().empty()) {
    out[path] = value_of(node);
    return;
  }
  for (const auto& [key, value] : node.entries()) {
    flatten(value, path.empty() ? key : path + "." + key, out);
  }
}

json read_json(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return nullptr;
  try {
    return json::parse(read_text(path));
  } catch (const json::exception& damage) {
    throw DataError(path + ": damaged: " + damage.what());
  }
}

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// The members of environment.json that say under which conditions a run was made.
void read_environment(const std::string& path, RunRecord& run) {
  const json in = read_json(path);
  if (!in.is_object()) return;
  const auto take = [&](const std::string& key, const char* pointer) {
    const json::json_pointer at(pointer);
    if (in.contains(at)) run.environment[key] = text_of(in.at(at));
  };
  take("data.fingerprint", "/data/fingerprint");
  for (const std::string part : kParts) take(part + ".plugin", ("/" + part + "/hash").c_str());
  take("machine.cpu", "/machine/cpu");
  take("device", "/device");
  take("threads", "/threads");
  take("libtorch", "/libtorch/version");
  take("attnlab", "/attnlab");
  for (const char* cost : {"parameters", "flops"}) {
    if (in.contains(cost) && in.at(cost).is_number()) run.costs[cost] = in.at(cost);
  }
}

std::string relative_run(const fs::path& path) {
  const fs::path attention = path.parent_path(), experiment = attention.parent_path();
  return (experiment.filename() / attention.filename() / path.filename()).string();
}

/// A JSON map of texts and numbers as a configuration's section.
Node node_of(const json& map, const std::string& file) {
  Node node = Node::map(Place{file, 0, 0});
  for (const auto& [key, value] : map.items()) {
    node.set(key, Node::scalar(text_of(value), Place{file, 0, 0}, value.is_string()));
  }
  return node;
}

/// The suite's record in a folder; empty without one.
std::string record_file(const fs::path& folder) {
  std::error_code error;
  for (const char* name : {"suite.json", "table.json"}) {
    if (fs::exists(folder / name, error)) return (folder / name).string();
  }
  return "";
}

AbsentCell read_absent(const json& entry) {
  return {entry.at("experiment"),
          entry.at("attention"),
          entry.at("seed"),
          {parse_absence(entry.at("kind")), entry.at("reason")},
          entry.value("folder", "")};
}

SuitePoint read_point(const json& entry) {
  SuitePoint point{entry.at("experiment"), entry.at("base"), {}};
  for (const json& value : entry.at("values")) {
    point.values.emplace_back(value.at(0).get<std::string>(), value.at(1).get<std::string>());
  }
  return point;
}

/// Empty for the record of an earlier attnlab, which has no values.
std::optional<PublishedNumbers> read_published(const json& entry) {
  if (!entry.contains("values")) return std::nullopt;
  return PublishedNumbers{entry.at("source"), entry.at("metric"), entry.at("values")};
}

/// Folders of runs and of suites in or below `folder`.
void search(const std::string& folder, std::set<std::string>& runs, std::set<std::string>& suites) {
  std::error_code error;
  const fs::path top = fs::canonical(folder, error);
  if (error) throw ConfigError(Place{folder, 0, 0}, "there is no such folder");
  bool any = false;
  const auto look = [&](const fs::path& path) {
    if (!record_file(path).empty()) suites.insert(path.string());
    const bool is_run = fs::exists(path / "config.yaml", error);
    if (is_run) runs.insert(path.string());
    any = any || is_run;
    return is_run;
  };
  if (look(top)) return;
  for (auto entry = fs::recursive_directory_iterator(top); entry != fs::end(entry); ++entry) {
    if (entry->is_directory() && look(entry->path())) entry.disable_recursion_pending();
  }
  if (!any) {
    throw ConfigError(Place{folder, 0, 0},
                      "holds no run's folder (one with a config.yaml); attnlab run and attnlab "
                      "suite make them");
  }
}

bool is_below(const std::string& path, const std::string& folder) {
  return path.rfind(folder + "/", 0) == 0;
}

/// Suites' folders with the runs that each names: a suite may have thousands.
using NamedRuns = std::map<std::string, std::set<std::string>>;

NamedRuns named_runs(const std::vector<SuiteRecord>& suites) {
  NamedRuns named;
  for (const SuiteRecord& suite : suites) {
    named[suite.folder].insert(suite.runs.begin(), suite.runs.end());
  }
  return named;
}

/// Whether a suite that the run lies below does not know it (any more).
bool is_stale(const std::string& run, const NamedRuns& named) {
  return std::any_of(named.begin(), named.end(), [&](const auto& suite) {
    return is_below(run, suite.first) && suite.second.count(relative_run(run)) == 0;
  });
}

/// Runs by value, as "standard (seeds 0, 1), quest (seed 0)".
std::string runs_text(const std::vector<const RunRecord*>& runs) {
  std::vector<std::string> parts, seeds;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    seeds.push_back(std::to_string(runs[i]->seed));
    if (i + 1 < runs.size() && runs[i + 1]->attention == runs[i]->attention) continue;
    parts.push_back(runs[i]->attention + (seeds.size() == 1 ? " (seed " : " (seeds ") +
                    join(seeds, ", ") + ")");
    seeds.clear();
  }
  return join(parts, ", ");
}

/// Appends every key whose value is not the same in all of `runs`.
void compare_facts(const std::vector<const RunRecord*>& runs, const std::vector<Facts>& facts,
                   const std::string& prefix, std::vector<ConfigDifference>& out) {
  std::set<std::string> keys;
  for (const Facts& one : facts) {
    for (const auto& [key, value] : one) keys.insert(key);
  }
  for (const std::string& key : keys) {
    std::map<std::string, std::vector<const RunRecord*>> by_value;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const auto found = facts[i].find(key);
      by_value[found == facts[i].end() ? "absent" : found->second].push_back(runs[i]);
    }
    if (by_value.size() < 2) continue;
    ConfigDifference difference{runs.front()->experiment, prefix + key, {}};
    for (const auto& [value, who] : by_value) {
      difference.values.emplace_back(value, runs_text(who));
    }
    out.push_back(std::move(difference));
  }
}

using Group = std::vector<const RunRecord*>;

/// Runs of one experiment, and of one attention or seed where `part` says so.
enum class Within { experiment, attention, seed };

std::vector<Group> groups_of(const std::vector<RunRecord>& runs, Within part) {
  std::map<std::pair<std::string, std::string>, Group> groups;
  for (const RunRecord& run : runs) {
    const std::string second = part == Within::attention ? run.attention
                               : part == Within::seed    ? std::to_string(run.seed)
                                                         : "";
    groups[{run.experiment, second}].push_back(&run);
  }
  std::vector<Group> out;
  out.reserve(groups.size());
  for (auto& [key, group] : groups) out.push_back(std::move(group));
  return out;
}

/// The configuration's values that must agree: the attention's, or all others.
/// @param matched  further keys that count as the attention's
Facts config_facts(const RunRecord& run, bool attention, const std::set<std::string>& matched) {
  Facts facts;
  for (const auto& [key, value] : run.config.entries()) {
    // A trace records and changes no number of a run.
    if (key != "name" && key != "seeds" && key != "trace" && key != "evaluate") flatten(value, key, facts);
  }
  facts.erase("train.tensorboard");  // nor do event files
  std::erase_if(facts, [&](const auto& fact) {
    const bool of_attention =
        fact.first.rfind("attention", 0) == 0 || matched.count(fact.first) > 0;
    return of_attention != attention;
  });
  return facts;
}

/// The options that `match:` adjusted in one of an experiment's runs.
std::set<std::string> matched_keys(const std::vector<RunRecord>& runs,
                                   const std::string& experiment) {
  std::set<std::string> keys;
  for (const RunRecord& run : runs) {
    if (run.experiment != experiment) continue;
    for (const auto& [key, origin] : run.matched) keys.insert(key);
  }
  return keys;
}

/// What a run's origins.txt says that `match:` or the attention's own `set:` gave.
std::map<std::string, std::string> read_matched(const std::string& path) {
  std::map<std::string, std::string> matched;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!is_match_origin(line) && !is_set_origin(line)) continue;
    const RecordedOrigin origin = read_origins(line).front();
    matched[origin.key] = origin.place;
  }
  return matched;
}

/// The environment's members among `keys`.
Facts environment_facts(const RunRecord& run, const std::vector<std::string>& keys) {
  Facts facts;
  for (const std::string& key : keys) {
    const auto found = run.environment.find(key);
    if (found != run.environment.end()) facts.insert(*found);
  }
  return facts;
}

/// Runs that have begun: only those have an environment.
Group begun(Group runs) {
  std::erase_if(runs, [](const RunRecord* run) { return run->environment.empty(); });
  return runs;
}

void compare_environments(const Group& group, const std::vector<std::string>& keys,
                          std::vector<ConfigDifference>& out) {
  const Group runs = begun(group);
  if (runs.empty()) return;
  std::vector<Facts> facts;
  facts.reserve(runs.size());
  for (const RunRecord* run : runs) facts.push_back(environment_facts(*run, keys));
  compare_facts(runs, facts, "environment: ", out);
}

void refuse_doubles(const std::vector<RunRecord>& runs) {
  for (std::size_t i = 1; i < runs.size(); ++i) {
    const RunRecord &a = runs[i - 1], &b = runs[i];
    if (std::tie(a.experiment, a.attention, a.seed) != std::tie(b.experiment, b.attention, b.seed))
      continue;
    std::vector<ConfigDifference> found = differences_of({a, b});
    std::string keys;
    for (const ConfigDifference& one : found) keys += (keys.empty() ? "" : ", ") + one.key;
    throw ConfigError("two runs of " + a.experiment + "/" + a.attention + " with seed " +
                      std::to_string(a.seed) + ":\n  " + a.folder + "\n  " + b.folder +
                      (keys.empty() ? "" : "\nthey differ in " + keys) +
                      "\nname the folders to compare, without one of them");
  }
}

}  // namespace

RunRecord read_run(const std::string& folder) {
  RunRecord run;
  const RunFolder files(folder);
  run.folder = folder;
  run.config = compose_file(files.file("config.yaml"));
  const Node& attention = run.config.at("attention");
  const Node* label = attention.find("as");
  const std::string use = attention.at("use").text();  // "quest" or "lab/quest"
  run.attention = label != nullptr ? label->text() : use.substr(use.find('/') + 1);
  run.experiment = run.config.at("name").text();
  const Node& seeds = run.config.at("seeds");
  const auto seed = seeds.items().size() == 1 ? seeds.items()[0].as_int() : std::nullopt;
  if (!seed) {
    throw ConfigError(seeds.place(),
                      "seeds: a run's frozen configuration has one seed, found " + to_flow(seeds));
  }
  run.seed = *seed;
  run.status = files.status();
  run.matched = read_matched(files.file("origins.txt"));
  read_environment(files.file("environment.json"), run);
  for (const char* cost : {"examples_per_second", "peak_memory"}) {
    const auto found = run.status.metrics.find(cost);
    if (found != run.status.metrics.end()) run.costs.insert(*found);
  }
  return run;
}

std::optional<SuiteRecord> read_suite(const std::string& folder) {
  const std::string path = record_file(folder);
  if (path.empty()) return std::nullopt;
  try {
    const json in = read_json(path);
    if (!in.is_object() || !in.contains("suite")) return std::nullopt;
    SuiteRecord suite;
    suite.folder = folder;
    suite.baseline = in.at("baseline").get<std::string>();
    for (const json& run : in.at("runs")) {
      suite.runs.push_back(relative_run(run.at("folder").get<std::string>()));
    }
    if (in.contains("notes")) suite.notes = in.at("notes").get<std::vector<std::string>>();
    if (in.contains("compare")) suite.compare = node_of(in.at("compare"), path);
    if (in.contains("absent")) {
      for (const json& entry : in.at("absent")) suite.absent.push_back(read_absent(entry));
    }
    if (in.contains("grid")) {
      for (const json& entry : in.at("grid").at("points"))
        suite.points.push_back(read_point(entry));
      suite.pool = in.at("grid").at("pool").get<std::vector<std::string>>();
    }
    if (in.contains("reference")) suite.published = read_published(in.at("reference"));
    return suite;
  } catch (const json::exception& damage) {
    throw DataError(path + ": damaged: " + damage.what() + "; run the suite again to rewrite it");
  }
}

RunCollection find_runs(const std::vector<std::string>& folders) {
  std::set<std::string> runs, suites;
  for (const std::string& folder : folders) search(folder, runs, suites);
  RunCollection out;
  for (const std::string& folder : suites) {
    auto suite = read_suite(folder);
    if (!suite) continue;
    out.notes.insert(out.notes.end(), suite->notes.begin(), suite->notes.end());
    out.absent.insert(out.absent.end(), suite->absent.begin(), suite->absent.end());
    out.suites.push_back(std::move(*suite));
  }
  const NamedRuns named = named_runs(out.suites);
  for (const std::string& folder : runs) {
    if (is_stale(folder, named)) {
      out.notes.push_back(
          "left out, not of its suite any more (another configuration, plugin or data): " + folder);
    } else {
      out.runs.push_back(read_run(folder));
    }
  }
  std::stable_sort(out.runs.begin(), out.runs.end(), [](const RunRecord& a, const RunRecord& b) {
    return std::tie(a.experiment, a.attention, a.seed) <
           std::tie(b.experiment, b.attention, b.seed);
  });
  refuse_doubles(out.runs);
  return out;
}

std::string ConfigDifference::text() const {
  std::vector<std::string> parts;
  for (const auto& [value, runs] : values) parts.push_back(value + " in " + runs);
  return experiment + ": " + key + " is " + join(parts, "; ");
}

std::vector<ConfigDifference> differences_of(const std::vector<RunRecord>& runs) {
  std::vector<ConfigDifference> out;
  for (const bool attention : {false, true}) {
    for (const Group& group : groups_of(runs, attention ? Within::attention : Within::experiment)) {
      const std::set<std::string> matched = matched_keys(runs, group.front()->experiment);
      std::vector<Facts> facts;
      facts.reserve(group.size());
      for (const RunRecord* run : group) facts.push_back(config_facts(*run, attention, matched));
      compare_facts(group, facts, "", out);
      const std::vector<std::string> plugins =
          attention ? std::vector<std::string>{"attention.plugin"}
                    : std::vector<std::string>{"model.plugin", "task.plugin", "dataset.plugin"};
      compare_environments(group, plugins, out);
    }
  }
  // Made-up data are a function of the seed.
  for (const Group& group : groups_of(runs, Within::seed)) {
    compare_environments(group, {"data.fingerprint"}, out);
  }
  return out;
}

std::vector<ConfigDifference> matched_values(const std::vector<RunRecord>& runs) {
  std::vector<ConfigDifference> out;
  for (const Group& group : groups_of(runs, Within::experiment)) {
    const std::set<std::string> matched = matched_keys(runs, group.front()->experiment);
    std::vector<Facts> facts;
    facts.reserve(group.size());
    for (const RunRecord* run : group) {
      facts.push_back(config_facts(*run, true, matched));
      std::erase_if(facts.back(), [&](const auto& fact) { return matched.count(fact.first) == 0; });
    }
    compare_facts(group, facts, "", out);
  }
  return out;
}

std::vector<ConfigDifference> surroundings_of(const std::vector<RunRecord>& runs) {
  std::vector<ConfigDifference> out;
  for (const Group& group : groups_of(runs, Within::experiment)) {
    compare_environments(group, {"machine.cpu", "device", "threads", "libtorch", "attnlab"}, out);
  }
  return out;
}

std::size_t compared_values(const RunRecord& run) { return config_facts(run, false, {}).size(); }

}  // namespace attnlab
