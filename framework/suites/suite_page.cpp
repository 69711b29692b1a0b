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

void check_keys(const Node& map, const std::vector<std::string>& known, const std::string& where,
                Problems& problems) {
  for (const auto& [key, value] : map.entries()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    note(map.key_place(key),
         fmt::format("{}: unknown key '{}'{}", where, key, suggestion(key, known)), problems);
  }
}

/// @param otherwise  what stands for a missing one; null: it must be given
std::string text_of(const Node& map, const std::string& key, const char* otherwise,
                    const std::string& where, Problems& problems) {
  const Node* value = map.find(key);
  if (value != nullptr && value->is_scalar() && !value->text().empty()) return value->text();
  if (value == nullptr && otherwise != nullptr) return otherwise;
  note(value == nullptr ? map.place() : value->place(),
       fmt::format("{}: needs {}: TEXT", where, key), problems);
  return "";
}

/// One of a few words.
std::string word_of(const Node& map, const std::string& key, const char* otherwise,
                    const std::vector<std::string>& words, const std::string& where,
                    Problems& problems) {
  std::string word = text_of(map, key, otherwise, where, problems);
  if (word.empty() || std::find(words.begin(), words.end(), word) != words.end()) return word;
  note(map.at(key).place(),
       fmt::format("{}: {}: expected {}, found '{}'{}", where, key, join(words, ", "), word,
                   suggestion(word, words)),
       problems);
  return "";
}

/// The maps of a list; what is none of them is a problem.
std::vector<const Node*> maps_of(const Node& section, const std::string& key,
                                 const std::string& form, Problems& problems) {
  std::vector<const Node*> maps;
  const Node* list = section.find(key);
  if (list == nullptr || list->is_null()) return maps;
  for (const Node& item : list->items()) {
    if (item.is_map()) maps.push_back(&item);
  }
  if (!list->is_list() || maps.size() != list->items().size()) {
    note(list->place(), fmt::format(".{}: expected a list of {}", key, form), problems);
  }
  return maps;
}

PageColumn column_of(const Node& map, Problems& problems) {
  const std::string where = ".columns";
  check_keys(map, {"domain", "experiment", "metric", "title", "role"}, where, problems);
  PageColumn column;
  column.experiment = text_of(map, "experiment", nullptr, where, problems);
  column.domain = text_of(map, "domain", column.experiment.c_str(), where, problems);
  column.metric = text_of(map, "metric", "headline", where, problems);
  const std::string plain = column.metric == "headline" ? column.domain : column.metric;
  column.title = text_of(map, "title", plain.c_str(), where, problems);
  const std::string role =
      word_of(map, "role", "quality", {"quality", "robustness", "stability"}, where, problems);
  if (!role.empty()) column.role = parse_column_role(role);
  return column;
}

PageClaim claim_of(const Node& map, Problems& problems) {
  const std::string where = ".claims";
  check_keys(map, {"attention", "experiment", "metric", "says", "source", "text"}, where, problems);
  PageClaim claim;
  claim.attention = text_of(map, "attention", nullptr, where, problems);
  claim.experiment = text_of(map, "experiment", nullptr, where, problems);
  claim.metric = text_of(map, "metric", "headline", where, problems);
  claim.better = word_of(map, "says", nullptr, {"better", "worse"}, where, problems) != "worse";
  claim.source = text_of(map, "source", nullptr, where, problems);
  claim.text = text_of(map, "text", nullptr, where, problems);
  return claim;
}

}  // namespace

PageSpec read_page(const Node& section, Problems& problems) {
  PageSpec page;
  if (!section.is_map()) {
    note(section.place(),
         ": expected {title: TEXT, columns: [{domain: NAME, experiment: NAME}]}, found " +
             to_flow(section),
         problems);
    return page;
  }
  check_keys(section, {"title", "columns", "claims"}, "", problems);
  page.title = text_of(section, "title", "One attention, every domain", "", problems);
  std::set<std::string> names;
  for (const Node* map :
       maps_of(section, "columns", "{domain: NAME, experiment: NAME}", problems)) {
    page.columns.push_back(column_of(*map, problems));
    if (!names.insert(page.columns.back().name()).second) {
      note(map->place(),
           fmt::format(".columns: '{}' stands twice; tell them apart with title: TEXT",
                       page.columns.back().name()),
           problems);
    }
  }
  if (page.columns.empty()) {
    note(section.place(), ": needs columns: [{domain: NAME, experiment: NAME}]", problems);
  }
  for (const Node* map :
       maps_of(section, "claims",
               "{attention: NAME, experiment: NAME, says: better, source: TEXT, text: TEXT}",
               problems)) {
    page.claims.push_back(claim_of(*map, problems));
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
         fmt::format(": '{}' is none of the suite's experiments{}", name,
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
