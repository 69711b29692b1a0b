#include "framework/runs/absence.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "framework/base/error.h"
#include "framework/base/text.h"

namespace attnlab {
namespace {

constexpr std::string_view kAbsences[] = {
    "",       "pending",    "running",     "interrupted",   "failed",    "diverged", "incompatible",
    "no run", "no value",   "no baseline", "too few pairs", "no spread", "skipped",  "no data",
    "stale",  "unreadable", "no plugin",   "not finite"};

/// Attentions of one experiment whose same seeds are absent for the same reason.
struct AbsenceGroup {
  std::string experiment, text;
  std::vector<std::string> attentions, seeds;

  bool holds(const std::string& attention) const {
    return std::find(attentions.begin(), attentions.end(), attention) != attentions.end();
  }
};

/// One group for each experiment, attention and reason.
std::vector<AbsenceGroup> single_groups(const std::vector<AbsentCell>& cells) {
  std::vector<AbsenceGroup> groups;
  for (const AbsentCell& cell : cells) {
    const std::string text = cell.gap.text();
    auto found = std::find_if(groups.begin(), groups.end(), [&](const AbsenceGroup& group) {
      return group.experiment == cell.experiment && group.text == text &&
             group.holds(cell.attention);
    });
    if (found == groups.end()) {
      groups.push_back({cell.experiment, text, {cell.attention}, {}});
      found = std::prev(groups.end());
    }
    found->seeds.push_back(std::to_string(cell.seed));
  }
  return groups;
}

}  // namespace

std::string_view name_of(Absence absence) { return kAbsences[static_cast<std::size_t>(absence)]; }

Absence parse_absence(const std::string& name) {
  for (std::size_t i = 1; i < std::size(kAbsences); ++i) {
    if (name == kAbsences[i]) return static_cast<Absence>(i);
  }
  throw DataError(fmt::format("unknown reason '{}' of a missing value", name));
}

std::string Gap::text() const {
  return std::string(name_of(kind)) + (reason.empty() ? "" : ": " + reason);
}

std::vector<std::string> absence_lines(const std::vector<AbsentCell>& cells) {
  std::vector<AbsenceGroup> groups;
  for (AbsenceGroup& one : single_groups(cells)) {
    const auto alike = std::find_if(groups.begin(), groups.end(), [&](const AbsenceGroup& group) {
      return group.experiment == one.experiment && group.text == one.text &&
             group.seeds == one.seeds;
    });
    if (alike == groups.end()) {
      groups.push_back(std::move(one));
    } else {
      alike->attentions.push_back(one.attentions.front());
    }
  }
  std::vector<std::string> lines;
  lines.reserve(groups.size());
  for (const AbsenceGroup& group : groups) {
    lines.push_back(fmt::format("{}, {}, {} {}: {}", group.experiment, join(group.attentions, ", "),
                                group.seeds.size() == 1 ? "seed" : "seeds", join(group.seeds, ", "),
                                group.text));
  }
  return lines;
}

}  // namespace attnlab
