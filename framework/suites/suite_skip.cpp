#include "framework/suites/suite_skip.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/base/text.h"

namespace attnlab {
namespace {

using Problems = std::vector<std::string>;

template <class T>
bool contains(const std::vector<T>& list, const T& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

void add(Problems& problems, const Place& place, const std::string& what) {
  problems.push_back(fmt::format("{}: skip: {}", place.str(), what));
}

void check_names(const std::vector<std::string>& given, const std::vector<std::string>& known,
                 const std::string& kind, const Place& place, Problems& problems) {
  for (const std::string& name : given) {
    if (contains(known, name)) continue;
    add(problems, place,
        fmt::format("'{}' is not one of the suite's {}{}", name, kind, suggestion(name, known)));
  }
}

}  // namespace

bool SkipRule::matches(const std::string& experiment, const std::string& attention,
                       std::int64_t seed) const {
  return (experiments.empty() || contains(experiments, experiment)) &&
         (attentions.empty() || contains(attentions, attention)) &&
         (seeds.empty() || contains(seeds, seed));
}

void check_skips(const std::vector<SkipRule>& rules, Problems& problems) {
  for (const SkipRule& rule : rules) {
    if (!rule.experiments.empty() || !rule.attentions.empty() || !rule.seeds.empty()) continue;
    add(problems, rule.place, "names no cells; give experiment, attention or seeds");
  }
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
