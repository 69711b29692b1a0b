// Whether runs may be compared: in what they differ beside the attention.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

#include "framework/base/text.h"
#include "framework/config/compose.h"
#include "framework/experiment/keys.h"
#include "framework/runs/run_records.h"

namespace attnlab {
namespace {

using Facts = std::map<std::string, std::string>;

/// `1.0e-3` and `0.001` are one value.
std::string value_of(const Node& node) {
  if (node.is_list()) {
    std::vector<std::string> items;
    for (const Node& item : node.items()) items.push_back(value_of(item));
    return fmt::format("[{}]", join(items, ", "));
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
    flatten(value, path.empty() ? key : fmt::format("{}.{}", path, key), out);
  }
}

/// Runs by value, as "standard (seeds 0, 1), quest (seed 0)".
std::string runs_text(const std::vector<const RunRecord*>& runs) {
  std::vector<std::string> parts, seeds;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    seeds.push_back(std::to_string(runs[i]->seed));
    if (i + 1 < runs.size() && runs[i + 1]->attention == runs[i]->attention) continue;
    parts.push_back(fmt::format("{} ({} {})", runs[i]->attention,
                                seeds.size() == 1 ? "seed" : "seeds", join(seeds, ", ")));
    seeds.clear();
  }
  return join(parts, ", ");
}

/// "absent" where there is none.
const std::string& value_in(const Facts& facts, const std::string& key) {
  static const std::string kAbsent = "absent";
  const auto found = facts.find(key);
  return found == facts.end() ? kAbsent : found->second;
}

/// The keys whose values are not the same in all of `facts`.
std::vector<std::string> differing_keys(const std::vector<const Facts*>& facts) {
  const std::set<const Facts*> each(facts.begin(), facts.end());
  std::set<std::string> keys;
  if (each.size() > 1) {
    for (const Facts* one : each) {
      for (const auto& [key, value] : *one) keys.insert(key);
    }
  }
  std::vector<std::string> out;
  for (const std::string& key : keys) {
    const std::string* first = nullptr;
    const bool differs = std::any_of(each.begin(), each.end(), [&](const Facts* one) {
      const std::string& value = value_in(*one, key);
      if (first == nullptr) first = &value;
      return value != *first;
    });
    if (differs) out.push_back(key);
  }
  return out;
}

/// @param values  of each run
ConfigDifference difference_in(const std::string& key, const std::vector<const RunRecord*>& runs,
                               const std::vector<const std::string*>& values) {
  std::map<std::string, std::vector<const RunRecord*>> by_value;
  for (std::size_t i = 0; i < runs.size(); ++i) by_value[*values[i]].push_back(runs[i]);
  ConfigDifference difference{runs.front()->experiment, key, {}};
  for (const auto& [value, who] : by_value) {
    difference.values.emplace_back(value, runs_text(who));
  }
  return difference;
}

/// Appends every key whose value is not the same in all of `runs`.
/// @param facts  of each run; runs may share them
void compare_facts(const std::vector<const RunRecord*>& runs,
                   const std::vector<const Facts*>& facts, const std::string& prefix,
                   std::vector<ConfigDifference>& out) {
  for (const std::string& key : differing_keys(facts)) {
    std::vector<const std::string*> values;
    values.reserve(runs.size());
    for (const Facts* one : facts) values.push_back(&value_in(*one, key));
    out.push_back(difference_in(prefix + key, runs, values));
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

/// Values of configurations that must agree: the attention's, or all others. They are made once for
/// runs that share the sections of the configuration that they come from.
class ConfigFacts {
 public:
  /// @param matched  further keys that count as the attention's
  ConfigFacts(bool attention, std::set<std::string> matched)
      : attention_(attention), matched_(std::move(matched)) {}

  const Facts& of(const RunRecord& run) {
    sections_.clear();
    for (const auto& section : run.config.sections()) {
      if (concerns(section->key())) sections_.push_back(section.get());
    }
    const auto [found, is_new] = made_.try_emplace(sections_);
    if (is_new) found->second = facts_in(sections_);
    return found->second;
  }
  std::vector<const Facts*> of(const Group& runs) {
    std::vector<const Facts*> out;
    out.reserve(runs.size());
    for (const RunRecord* run : runs) out.push_back(&of(*run));
    return out;
  }

 private:
  using Sections = std::vector<const ConfigSection*>;

  bool is_of_attention(const std::string& key) const {
    return key.rfind("attention", 0) == 0 || matched_.count(key) > 0;
  }

  /// Whether a section may hold such values.
  bool concerns(const std::string& key) const {
    if (role_of({key}) < Role::comparison) return false;
    return !attention_ || !matched_.empty() || is_of_attention(key);
  }

  Facts facts_in(const Sections& sections) const {
    Facts facts;
    for (const ConfigSection* section : sections) {
      Node whole = Node::map();
      whole.set(section->key(), section->value());
      flatten(counted(std::move(whole), Role::comparison), "", facts);
    }
    std::erase_if(facts,
                  [&](const auto& fact) { return is_of_attention(fact.first) != attention_; });
    return facts;
  }

  bool attention_;
  std::set<std::string> matched_;
  Sections sections_;  // of the run that was asked for last
  std::map<Sections, Facts> made_;
};

/// The options that `match:` adjusted in one of an experiment's runs, by experiment.
std::map<std::string, std::set<std::string>> matched_keys(const std::vector<RunRecord>& runs) {
  std::map<std::string, std::set<std::string>> keys;
  for (const RunRecord& run : runs) {
    std::set<std::string>& own = keys[run.experiment];
    for (const auto& [key, origin] : run.matched) own.insert(key);
  }
  return keys;
}

/// Where each run has facts of its own.
std::vector<const Facts*> pointers_to(const std::vector<Facts>& facts) {
  std::vector<const Facts*> out;
  out.reserve(facts.size());
  for (const Facts& one : facts) out.push_back(&one);
  return out;
}

/// Runs that have begun: only those have an environment.
Group begun(Group runs) {
  std::erase_if(runs, [](const RunRecord* run) { return run->environment.empty(); });
  return runs;
}

/// Runs whose plugin files are known: those of stored results were another machine's.
Group made_here(Group runs) {
  std::erase_if(runs, [](const RunRecord* run) { return !run->stored.empty(); });
  return runs;
}

/// @param keys  sorted
void compare_environments(const Group& group, const std::vector<std::string>& keys,
                          std::vector<ConfigDifference>& out) {
  const Group runs = begun(group);
  for (const std::string& key : keys) {
    std::vector<const std::string*> values;
    values.reserve(runs.size());
    for (const RunRecord* run : runs) values.push_back(&value_in(run->environment, key));
    const auto differs = [&](const std::string* value) { return *value != *values.front(); };
    if (std::none_of(values.begin(), values.end(), differs)) continue;
    out.push_back(difference_in("environment: " + key, runs, values));
  }
}

}  // namespace

std::string ConfigDifference::text() const {
  std::vector<std::string> parts;
  for (const auto& [value, runs] : values) parts.push_back(fmt::format("{} in {}", value, runs));
  return fmt::format("{}: {} is {}", experiment, key, join(parts, "; "));
}

std::vector<ConfigDifference> differences_of(const std::vector<RunRecord>& runs) {
  std::vector<ConfigDifference> out;
  const auto matched = matched_keys(runs);
  for (const bool attention : {false, true}) {
    for (const Group& group : groups_of(runs, attention ? Within::attention : Within::experiment)) {
      ConfigFacts facts(attention, matched.at(group.front()->experiment));
      compare_facts(group, facts.of(group), "", out);
      const std::vector<std::string> plugins =
          attention ? std::vector<std::string>{"attention.plugin"}
                    : std::vector<std::string>{"dataset.plugin", "model.plugin", "task.plugin"};
      compare_environments(made_here(group), plugins, out);
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
  const auto all_matched = matched_keys(runs);
  for (const Group& group : groups_of(runs, Within::experiment)) {
    const std::set<std::string>& matched = all_matched.at(group.front()->experiment);
    if (matched.empty()) continue;
    ConfigFacts facts(true, matched);
    const std::size_t before = out.size();
    compare_facts(group, facts.of(group), "", out);
    out.erase(
        std::remove_if(out.begin() + static_cast<std::ptrdiff_t>(before), out.end(),
                       [&](const ConfigDifference& one) { return matched.count(one.key) == 0; }),
        out.end());
  }
  return out;
}

std::vector<ConfigDifference> surroundings_of(const std::vector<RunRecord>& runs) {
  std::vector<ConfigDifference> out;
  for (const Group& group : groups_of(runs, Within::experiment)) {
    compare_environments(group,
                         {"attnlab", "device", "libtorch", "machine.cpu", "processes", "products",
                          "threads", "together"},
                         out);
  }
  // Runs of an earlier attnlab say nothing of kernels.
  for (Group group : groups_of(runs, Within::experiment)) {
    std::erase_if(group,
                  [](const RunRecord* run) { return run->environment.count("kernel") == 0; });
    compare_environments(group, {"instructions", "kernel"}, out);
  }
  return out;
}

namespace {

/// Whether a result is a mean of an earlier attnlab, which does not say of which points it is.
bool is_unknown_mean(const RunRecord& run, const EvaluationRecord& result) {
  return result.set == "{}" && std::any_of(run.evaluations.begin(), run.evaluations.end(),
                                           [&](const EvaluationRecord& other) {
                                             return other.entry.starts_with(result.entry + "/");
                                           });
}

}  // namespace

std::vector<ConfigDifference> evaluation_differences(const std::vector<RunRecord>& runs) {
  std::vector<ConfigDifference> out;
  for (const Group& group : groups_of(runs, Within::experiment)) {
    std::set<std::string> entries;
    for (const RunRecord* run : group) {
      for (const EvaluationRecord& one : run->evaluations) entries.insert(one.entry);
    }
    for (const std::string& entry : entries) {
      Group having;
      std::vector<const EvaluationRecord*> results;
      for (const RunRecord* run : group) {
        for (const EvaluationRecord& one : run->evaluations) {
          if (one.entry != entry || is_unknown_mean(*run, one)) continue;
          having.push_back(run);
          results.push_back(&one);
        }
      }
      // Results of an earlier attnlab do not say of which weights they are.
      const bool said = std::none_of(results.begin(), results.end(),
                                     [](const auto* one) { return one->weights.empty(); });
      std::vector<Facts> facts;
      for (const EvaluationRecord* one : results) {
        const char* by = said && one->weights == "average" ? " by averaged weights" : "";
        facts.push_back({{entry, fmt::format("{} split{} with {}", one->split, by, one->set)}});
      }
      compare_facts(having, pointers_to(facts), "evaluation ", out);
    }
  }
  return out;
}

std::size_t compared_values(const std::vector<RunRecord>& runs) {
  ConfigFacts facts(false, {});
  std::size_t most = 0;
  for (const RunRecord& run : runs) most = std::max(most, facts.of(run).size());
  return most;
}

}  // namespace attnlab
