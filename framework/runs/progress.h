// Progress of runs: live bars on a terminal, plain lines elsewhere, JSON lines for programs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "framework/base/metric.h"

namespace attnlab {

/// One thing that happened to a run.
struct ProgressEvent {
  enum class Kind { start, step, evaluation, note, end };

  Kind kind = Kind::note;
  std::string run;         ///< "vit_fashion_small/quest/0"
  std::int64_t step = 0;   ///< optimiser steps done
  std::int64_t steps = 0;  ///< of how many
  double epoch = 0;        ///< epochs done
  std::map<std::string, double> metrics;
  std::string text;  ///< of a note; the end's state and reason
  /// What the metrics mean. A run says so once, with its first event; sinks remember it.
  std::vector<MetricInfo> infos{};
};

class ProgressSink {
 public:
  virtual ~ProgressSink() = default;
  virtual void report(const ProgressEvent& event) = 0;
  /// Something for people to read, between the bars.
  virtual void say(const std::string& text) = 0;
};

enum class ProgressMode { automatic, bar, plain, json, none };

/// @throws ConfigError for an unknown word.
ProgressMode parse_progress_mode(const std::string& word);

/// A sink that writes to standard output; `automatic` is a bar on a terminal and plain elsewhere.
/// @param total_runs  how many runs will report, for the overall bar of suites; 1 for one run.
std::unique_ptr<ProgressSink> make_progress(ProgressMode mode, std::int64_t total_runs = 1);

/// The event as one JSON line (without the newline), and back. @throws Error for other text.
std::string to_json(const ProgressEvent& event);
ProgressEvent progress_event(const std::string& json);

}  // namespace attnlab
