// Comparisons of made-up runs of two attentions.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "framework/comparison/comparison.h"
#include "tests/support/run_folders.h"

namespace attnlab::testing {

class ComparisonTest : public WithRunFolders {
 protected:
  static RunStatus done(double accuracy) {
    RunStatus status;
    status.state = RunState::done;
    status.metrics = {{"accuracy", accuracy}, {"examples_per_second", 1000 + accuracy}};
    return status;
  }
  /// Standard and quest with one value a seed.
  void write_pair(const std::string& experiment, const std::vector<double>& standard,
                  const std::vector<double>& quest) const {
    for (std::size_t i = 0; i < standard.size(); ++i) {
      write_run(experiment, "standard", static_cast<std::int64_t>(i), done(standard[i]));
    }
    for (std::size_t i = 0; i < quest.size(); ++i) {
      write_run(experiment, "quest", static_cast<std::int64_t>(i), done(quest[i]));
    }
  }

  Comparison compare(const CompareOptions& options = {}, const std::string& baseline = "") const {
    return compare_runs(find_runs({root()}), options, baseline, &parts().catalogue());
  }
  Comparison compare_by(const std::string& test) const {
    CompareOptions options;
    options.test = test;
    return compare(options);
  }
  /// Standard and quest on data with a fingerprint.
  void write_on_data(const std::string& experiment, std::int64_t seed,
                     const std::string& data) const {
    for (const char* attention : {"standard", "quest"}) {
      write_environment(write_run(experiment, attention, seed, done(0.5)),
                        {{"data", {{"fingerprint", data}}}});
    }
  }
  static const ComparisonRow& row(const Comparison& comparison, std::string_view experiment,
                                  std::string_view attention) {
    for (const ComparisonRow& row : comparison.rows) {
      if (row.experiment == experiment && row.attention == attention) return row;
    }
    throw std::runtime_error("no row " + std::string(experiment) + "/" + std::string(attention));
  }
};

}  // namespace attnlab::testing
