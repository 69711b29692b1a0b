#include "framework/suites/suite_skip.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/base/text.h"

namespace attnlab {
namespace {

using Problems = std::vector<std::string>;

const std::vector<std::string> kSkipKeys = {"experiment", "attention", "seeds", "reason"};

template <class T>
bool contains(const std::vector<T>& list, const T& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

void add(Problems& problems, const Place& place, const std::string& what) {
  problems.push_back(fmt::format("{}: skip: {}", place.str(), what));
}

/// A name or a list of names.
std::vector<std::string> read_names(const Node& entry, const char* key, Problems& problems) {
  const Node* value = entry.find(key);
  std::vector<std::string> names;
  if (value == nullptr || value->is_null()) return names;
  if (value->is_scalar()) return {value->text()};
  for (const Node& item : value->items()) {
    if (item.is_scalar()) names.push_back(item.text());
  }
  if (names.empty() || names.size() != value->items().size()) {
    add(problems, value->place(),
        fmt::format("{}: expected a name or a list of names, found {}", key, to_flow(*value)));
  }
  return names;
}

std::vector<std::int64_t> read_seeds(const Node& entry, Problems& problems) {
  const Node* value = entry.find("seeds");
  std::vector<std::int64_t> seeds;
  if (value == nullptr || value->is_null()) return seeds;
  for (const Node& item : value->items()) {
    if (const auto seed = item.as_int()) seeds.push_back(*seed);
  }
  if (seeds.empty() || seeds.size() != value->items().size()) {
    add(problems, value->place(),
        "seeds: expected a list of integers like [0, 1], found " + to_flow(*value));
  }
  return seeds;
}

SkipRule read_rule(const Node& entry, Problems& problems) {
  SkipRule rule;
  rule.place = entry.place();
  if (!entry.is_map()) {
    add(problems, entry.place(),
        "expected {experiment: NAME, attention: LABEL, seeds: [...], reason: \"...\"}, found " +
            to_flow(entry));
    return rule;
  }
  for (const auto& [key, value] : entry.entries()) {
    if (contains(kSkipKeys, key)) continue;
    add(problems, entry.key_place(key),
        fmt::format("unknown key '{}'{}", key, suggestion(key, kSkipKeys)));
  }
  const std::size_t before = problems.size();
  rule.experiments = read_names(entry, "experiment", problems);
  rule.attentions = read_names(entry, "attention", problems);
  rule.seeds = read_seeds(entry, problems);
  const bool all = rule.experiments.empty() && rule.attentions.empty() && rule.seeds.empty();
  if (all && problems.size() == before) {
    add(problems, entry.place(), "names no cells; give experiment, attention or seeds");
  }
  const Node* reason = entry.find("reason");
  if (reason == nullptr || !reason->is_scalar() || reason->text().empty()) {
    add(problems, entry.place(), "needs reason: \"...\", which tables show in the cell's place");
  } else {
    rule.reason = reason->text();
  }
  return rule;
}

void check_names(const std::vector<std::string>& given, const std::vector<std::string>& known,
                 const std::string& kind, const Place& place, Problems& problems) {
  for (const std::string& name : given) {
    if (contains(known, name)) continue;
    add(problems, place,
        fmt::format("'{}' is none of the suite's {}{}", name, kind, suggestion(name, known)));
  }
}

}  // namespace

bool SkipRule::matches(const std::string& experiment, const std::string& attention,
                       std::int64_t seed) const {
  return (experiments.empty() || contains(experiments, experiment)) &&
         (attentions.empty() || contains(attentions, attention)) &&
         (seeds.empty() || contains(seeds, seed));
}

std::vector<SkipRule> read_skips(const Node& section, Problems& problems) {
  std::vector<SkipRule> rules;
  if (section.is_null()) return rules;
  if (!section.is_list()) {
    add(problems, section.place(),
        "expected a list of {experiment: NAME, reason: \"...\"}, found " + to_flow(section));
    return rules;
  }
  rules.reserve(section.items().size());
  for (const Node& entry : section.items()) rules.push_back(read_rule(entry, problems));
  return rules;
}

void check_skips(const std::vector<SkipRule>& rules, const std::vector<std::string>& experiments,
                 const std::vector<std::string>& attentions, const std::vector<std::int64_t>& seeds,
                 Problems& problems) {
  for (const SkipRule& rule : rules) {
    check_names(rule.experiments, experiments, "experiments", rule.place, problems);
    check_names(rule.attentions, attentions, "attentions", rule.place, problems);
    for (const std::int64_t seed : rule.seeds) {
      if (contains(seeds, seed)) continue;
      std::vector<std::string> names;
      names.reserve(seeds.size());
      for (const std::int64_t known : seeds) names.push_back(std::to_string(known));
      add(problems, rule.place,
          fmt::format("no run has the seed {}; there is {}", seed, join(names, ", ")));
    }
  }
}

}  // namespace attnlab
