// What runs would cost, foretold from what a process of its own measured of a few steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/experiment/experiment.h"

namespace attnlab {

/// What `attnlab probe` says of an experiment.
struct RunForecast {
  std::string data;  ///< the dataset's fingerprint
  std::int64_t parameters = 0;
  std::int64_t flops = 0;         ///< of the forward pass of one example; 0: not counted
  std::int64_t steps = 0;         ///< optimiser steps of the whole run
  double step_seconds = 0;        ///< of one of them, loading included; 0: not measured
  double evaluation_seconds = 0;  ///< of the run itself, not of `evaluate:`; 0: not measured
  std::int64_t peak_memory = 0;   ///< bytes
  std::string problem{};          ///< why it cannot be run; else empty
  /// With `--also`: what is wrong with the training of each experiment, itself first; else empty.
  std::vector<std::string> problems{};

  double seconds() const { return static_cast<double>(steps) * step_seconds + evaluation_seconds; }
};

/// A line of JSON, without `problem`, and without `problems` where there are none.
std::string probe_line(const RunForecast& run);
/// Reads it. @throws Error where it is something else.
RunForecast parse_probe(const std::string& line);

/// Equal for experiments whose runs cost the same: they differ in their names, in seeds (options
/// called `seed` or `..._seed` too), or in numbers of the optimiser and its schedule alone.
std::string cost_key(const Experiment& experiment);

/// A run that is to be made.
struct RunToDo {
  const RunForecast* forecast;
  double left = 1;  ///< the share of it that is left to do
};

/// Several runs, all together.
struct TotalForecast {
  std::int64_t runs = 0;
  double seconds = 0;  ///< of computing, one run after the other
  double longest = 0;  ///< of one run, in seconds
  double memory = 0;   ///< bytes that the largest runs need at once, as many as run side by side

  /// With `jobs` runs side by side that do not disturb each other: what cannot be undercut.
  double seconds_with(std::int64_t jobs) const;
};

/// @param jobs  runs side by side, at least 1
TotalForecast total_of(const std::vector<RunToDo>& runs, std::int64_t jobs);

}  // namespace attnlab
