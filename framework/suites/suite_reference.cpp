#include "framework/suites/suite_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/base/text.h"

namespace attnlab {
namespace {

const std::vector<std::string> kReferenceKeys = {"source", "metric", "values"};

void note(const Node& node, const std::string& what, std::vector<std::string>& problems) {
  problems.push_back(fmt::format("{}: reference{}", node.place().str(), what));
}

std::string text_of(const Node& section, const std::string& key, const std::string& otherwise,
                    std::vector<std::string>& problems) {
  const Node* value = section.find(key);
  if (value == nullptr || value->is_null()) return otherwise;
  if (value->is_scalar() && !value->text().empty()) return value->text();
  note(*value, fmt::format(".{}: expected a text, found {}", key, to_flow(*value)), problems);
  return otherwise;
}

void read_row(const std::string& experiment, const Node& row, PublishedNumbers& reference,
              std::vector<std::string>& problems) {
  if (!row.is_map()) {
    note(row,
         fmt::format(".values.{}: expected {{ATTENTION: NUMBER, ...}}, found {}", experiment,
                     to_flow(row)),
         problems);
    return;
  }
  for (const auto& [attention, value] : row.entries()) {
    const auto number = value.as_double();
    if (number && std::isfinite(*number)) {
      reference.values[experiment][attention] = value.text();
    } else {
      note(
          value,
          fmt::format(
              ".values.{}.{}: expected a number as the table writes it (98.4 for 98.4 %), found {}",
              experiment, attention, to_flow(value)),
          problems);
    }
  }
}

PublishedNumbers read_reference(const Node& section, std::vector<std::string>& problems) {
  PublishedNumbers reference;
  if (!section.is_map()) {
    note(section,
         ": expected {source: TEXT, values: {EXPERIMENT: {ATTENTION: NUMBER}}}, found " +
             to_flow(section),
         problems);
    return reference;
  }
  for (const auto& [key, value] : section.entries()) {
    const auto& known = kReferenceKeys;
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    problems.push_back(fmt::format("{}: unknown key '{}' of reference{}",
                                   section.key_place(key).str(), key, suggestion(key, known)));
  }
  reference.source = text_of(section, "source", "", problems);
  reference.metric = text_of(section, "metric", reference.metric, problems);
  if (reference.source.empty()) {
    note(section, ": 'source' is missing: say where the numbers stand", problems);
  }
  const Node* values = section.find("values");
  if (values == nullptr || !values->is_map() || values->entries().empty()) {
    note(values == nullptr ? section : *values,
         ".values: expected {EXPERIMENT: {ATTENTION: NUMBER}}", problems);
    return reference;
  }
  for (const auto& [experiment, row] : values->entries()) {
    read_row(experiment, row, reference, problems);
  }
  return reference;
}

}  // namespace

std::vector<PublishedNumbers> read_references(const Node& section,
                                              std::vector<std::string>& problems) {
  if (!section.is_list()) return {read_reference(section, problems)};
  std::vector<PublishedNumbers> all;
  for (const Node& one : section.items()) all.push_back(read_reference(one, problems));
  return all;
}

}  // namespace attnlab
