#include "framework/suites/suite_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "framework/base/text.h"

namespace attnlab {
namespace {

using Problems = std::vector<std::string>;

void note(const Place& place, const std::string& what, Problems& problems) {
  problems.push_back(fmt::format("{}: page{}", place.str(), what));
}

}  // namespace

PageSpec page_of(const Node& section, Problems& problems) {
  const auto keys = read_keys<PageKeys>(section);
  PageSpec page{keys.title, {}, {}};
  std::set<std::string> names;
  for (const ColumnKeys& one : keys.columns) {
    const std::string domain = one.domain.value_or(one.experiment);
    const std::string& plain = one.metric == "headline" ? domain : one.metric;
    page.columns.push_back({domain, one.experiment, one.metric, one.title.value_or(plain),
                            parse_column_role(one.role)});
    const std::string name = page.columns.back().name();
    if (names.insert(name).second) continue;
    note(section.at("columns").items().at(page.columns.size() - 1).place(),
         fmt::format(".columns: '{}' stands twice; tell them apart with title: TEXT", name),
         problems);
  }
  for (const ClaimKeys& one : keys.claims) {
    page.claims.push_back(
        {one.attention, one.experiment, one.metric, one.says != "worse", one.source, one.text});
  }
  return page;
}

void fit_page(PageSpec& page, const std::vector<std::string>& experiments, const Place& place,
              Problems* problems) {
  std::set<std::string> unknown;
  const auto strange = [&](const auto& one) {
    const bool known =
        std::find(experiments.begin(), experiments.end(), one.experiment) != experiments.end();
    if (!known && !one.experiment.empty()) unknown.insert(one.experiment);  // said before
    return !known;
  };
  std::erase_if(page.columns, strange);
  std::erase_if(page.claims, strange);
  if (problems == nullptr) return;
  for (const std::string& name : unknown) {
    note(place,
         fmt::format(": '{}' is not one of the suite's experiments{}", name,
                     suggestion(name, experiments)),
         *problems);
  }
}

void check_metrics(const PageSpec& page,
                   const std::map<std::string, std::vector<std::string>>& evaluations,
                   const Place& place, Problems& problems) {
  const auto check = [&](const char* key, const auto& one) {
    const auto entries = evaluations.find(one.experiment);
    const std::size_t slash = one.metric.find('/');
    if (entries == evaluations.end() || slash == std::string::npos) return;
    const std::string entry = one.metric.substr(0, slash);
    const auto& names = entries->second;
    if (std::find(names.begin(), names.end(), entry) != names.end()) return;
    const std::string near = suggestion(entry, names);
    if (near.find("did you mean") == std::string::npos) return;
    note(place,
         fmt::format(".{}: metric '{}': {} has no evaluation '{}'{}", key, one.metric,
                     one.experiment, entry, near),
         problems);
  };
  for (const PageColumn& column : page.columns) check("columns", column);
  for (const PageClaim& claim : page.claims) check("claims", claim);
}

}  // namespace attnlab
