#include "framework/suites/suite_reference.h"

#include <fmt/format.h>

#include <cmath>

#include "framework/base/text.h"

namespace attnlab {
namespace {

void note(const Node& node, const std::string& what, std::vector<std::string>& problems) {
  problems.push_back(fmt::format("{}: reference{}", node.place().str(), what));
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

}  // namespace

std::vector<PublishedNumbers> published_numbers(const Node& sections,
                                                std::vector<std::string>& problems) {
  std::vector<PublishedNumbers> all;
  for (const Node& section : sections.items()) {
    const auto keys = read_keys<ReferenceKeys>(section);
    all.push_back({keys.source, keys.metric, {}});
    const Node* values = section.find("values");
    if (values == nullptr) continue;  // they must be given
    for (const auto& [experiment, row] : values->entries()) {
      read_row(experiment, row, all.back(), problems);
    }
  }
  return all;
}

}  // namespace attnlab
