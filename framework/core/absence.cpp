#include "framework/core/absence.h"

#include <iterator>

#include "framework/core/error.h"

namespace attnlab {
namespace {

constexpr std::string_view kAbsences[] = {"",         "pending",     "running",       "interrupted",
                                          "failed",   "diverged",    "incompatible",  "no run",
                                          "no value", "no baseline", "too few pairs", "no spread",
                                          "skipped",  "no data",     "stale"};

}  // namespace

std::string_view name_of(Absence absence) { return kAbsences[static_cast<std::size_t>(absence)]; }

Absence parse_absence(const std::string& name) {
  for (std::size_t i = 1; i < std::size(kAbsences); ++i) {
    if (name == kAbsences[i]) return static_cast<Absence>(i);
  }
  throw DataError("unknown reason '" + name + "' of a missing value");
}

std::string Gap::text() const {
  return std::string(name_of(kind)) + (reason.empty() ? "" : ": " + reason);
}

}  // namespace attnlab
