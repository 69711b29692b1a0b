// Progress of runs: live bars on a terminal, plain lines elsewhere, JSON lines for programs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

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

/// "87.34 %" for accuracies, "412 MB" or "1.53 GB" for memory, "1.234" for others: how people read
/// a metric.
std::string metric_text(const std::string& name, double value);
/// Whether a metric is 1 or 0 of each run ("outcome/correct"), so that its mean over runs is a
/// share.
bool is_share(const std::string& name);
/// 100 for a metric that people read in percent, 1e-6 for one that they read in millions (memory,
/// FLOPs), else 1.
double metric_scale(const std::string& name);
/// "%", "MB", "M" or "": of the scaled metric.
std::string_view metric_unit(const std::string& name);

}  // namespace attnlab
