// Live bars on a terminal: a line for each run that is under way and, where there are several runs,
// one for all of them; and what bars share with plain lines.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "framework/runs/progress.h"

namespace attnlab {

/// Remembers what each run said about its metrics, and writes their values accordingly.
class RunMetrics {
 public:
  void learn(const ProgressEvent& event);
  void forget(const std::string& run) { infos_.erase(run); }
  /// "accuracy 87.34 %  loss 1.25".
  std::string text(const ProgressEvent& event) const { return text(event.run, event.metrics); }
  std::string text(const std::string& run, const std::map<std::string, double>& metrics) const;

 private:
  std::map<std::string, std::vector<MetricInfo>> infos_;
};

/// Time left of a run, from its own speed since it started (or resumed).
class Estimate {
 public:
  void start(std::int64_t step);
  /// "3 min 05 s"; empty before the first step.
  std::string left(std::int64_t step, std::int64_t steps) const;

 private:
  std::int64_t first_ = 0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Counts runs in the order in which they are first heard of, several of which may be under way.
class RunNumbers {
 public:
  explicit RunNumbers(std::int64_t total) : total_(total) {}

  /// "[2/4] "; empty where there is one run in all.
  std::string head(const std::string& run);
  /// The run has ended; when it is heard of again it is another one.
  void end(const std::string& run) { numbers_.erase(run); }

 private:
  std::int64_t total_;
  std::int64_t last_ = 0;
  std::map<std::string, std::int64_t> numbers_;
};

/// Size of a terminal in characters.
struct ScreenSize {
  int columns = 80, rows = 24;
};
/// Of the one that standard output is; the default where it is none.
ScreenSize screen_size();

/// A sink that draws on standard output. @param total_runs  as of `make_progress`
std::unique_ptr<ProgressSink> make_bar_progress(std::int64_t total_runs,
                                                ScreenSize (*size)() = screen_size);

}  // namespace attnlab
