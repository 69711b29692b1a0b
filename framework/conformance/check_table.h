// Runs one check out of a table of them, whatever kind of plugin it is for.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "framework/conformance/conformance.h"

namespace attnlab::conformance {

/// A check's name and its function, which throws Failure, NotApplicable or Skipped, and returns a
/// remark, mostly an empty one.
template <class Fixture>
struct CheckEntry {
  std::string_view name;
  std::string (*run)(const Fixture&);
};

/// Whether functions and the names of check_list.h are the same, in the same order.
template <class Fixture, std::size_t n>
constexpr bool lists_agree(const CheckEntry<Fixture> (&entries)[n],
                           std::span<const CheckInfo> infos) {
  if (infos.size() != n) return false;
  for (std::size_t i = 0; i < n; ++i) {
    if (entries[i].name != infos[i].name) return false;
  }
  return true;
}

/// @throws ConfigError that suggests another name.
[[noreturn]] void refuse_check(std::string_view check, std::span<const CheckInfo> infos);

template <class Fixture, std::size_t n>
const CheckEntry<Fixture>& find_check(const CheckEntry<Fixture> (&entries)[n],
                                      std::string_view check, std::span<const CheckInfo> infos) {
  for (const CheckEntry<Fixture>& entry : entries) {
    if (entry.name == check) return entry;
  }
  refuse_check(check, infos);
}

/// The check that also fails where the process is another behind it, whatever it looked at.
inline constexpr std::string_view kProcessState = "process_state";

/// Runs a check, turns what it throws into a result, and puts the state of the process back.
/// @param may_refuse  a TraitError means "not applicable", not "failed" (`Subject::may_refuse`)
CheckResult judged(std::string_view name, const std::function<std::string()>& check,
                   bool may_refuse = false);

}  // namespace attnlab::conformance
