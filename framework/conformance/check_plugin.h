// One check of a plugin of any kind, as `attnlab plugin test` runs it in a process of its own.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "framework/conformance/conformance.h"
#include "framework/host/registry.h"

namespace attnlab::conformance {

/// The check that every kind has: the library can be loaded and the part built.
inline constexpr std::string_view kLoad = "load";

struct PluginCheck {
  bool options_given = false;  ///< the part's options are not all defaults
  /// Told what is tried next, so that a crash can be placed; may be empty.
  std::function<void(const std::string&)> trying{};
  /// Has the other parts that a model or a task is tried with; null: the registry of the part.
  Registry* others = nullptr;
  /// Whose data (and, for a task, whose model) the part is tried with; null: made up.
  const Experiment* experiment = nullptr;
};

/// Builds the part and runs one check of its kind (`checks_of`).
/// @param check  "load": nothing but building it
/// @throws ConfigError when there is no such check; what building throws.
CheckResult check_plugin(Registry& registry, const Part& part, std::string_view check,
                         const PluginCheck& how = {});

}  // namespace attnlab::conformance
