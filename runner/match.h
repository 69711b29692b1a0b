// Asks the engine, in a process of its own, for the values that a suite's `match:` wants.
#pragma once

#include <functional>

#include "framework/suites/suite.h"
#include "runner/arguments.h"

namespace attnlab {

/// Loads a suite with what a matcher (empty: none) lays over its cells.
using LoadMatched = std::function<Suite(const Matcher& matcher)>;

/// The suite with every value that its `match:` asks for; as it is where it has none.
/// @param request  words that name the same suite for `attnlab match`: file, key=value, --fallback
/// @throws ConfigError in the engine's words: no value is near enough, a model cannot be built.
Suite matched_suite(const LoadMatched& load, const Words& request);

}  // namespace attnlab
