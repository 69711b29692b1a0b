// What kind of solution a finished run found, told by its training and test accuracy.
//
//   correct     both above `correct_above`
//   biased      training within `biased_training`, test within `biased_test`: it found a cue that
//               holds for part of the training data and not for the test data
//   degenerate  both within `chance_margin` of 1 / classes
//   other       none of these
//
// The first that holds counts. Source: QUEST, ICLR 2026, section 2.2, whose bounds are the
// defaults; its chance level has no width.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "framework/config/options.h"
#include "framework/contracts/task.h"

namespace attnlab {

struct OutcomeOptions {
  bool record = false;
  double correct_above = 0.9;
  std::vector<double> biased_training = {0.5, 0.8}, biased_test = {0.2, 0.4};
  double chance_margin = 0.05;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("record", record, "also evaluate the training split at the end, and report the outcome");
    v("correct_above", correct_above, range(0, 1), "accuracy above which a run is correct");
    v("biased_training", biased_training, range(0, 1),
      "lowest and highest training accuracy of a biased run");
    v("biased_test", biased_test, range(0, 1), "lowest and highest test accuracy of a biased run");
    v("chance_margin", chance_margin, range(0, 1),
      "how far from 1 / classes the accuracies of a degenerate run may be");
  }
};

enum class RunOutcome { correct, biased, degenerate, other };

/// "correct", "biased", "degenerate", "other".
std::string_view name_of(RunOutcome outcome);

/// @throws OptionError (with `prefix` before the option's name) for bounds that are not a pair of a
///         lower and an upper one.
void check_outcomes(const OutcomeOptions& options, const std::string& prefix);

/// @param training, test  accuracies in [0, 1]
RunOutcome outcome_of(double training, double test, std::int64_t classes,
                      const OutcomeOptions& options);

/// "outcome/correct" and so on: 1 for the run's outcome, 0 for the others, so that the mean over
/// runs is the share of each; and "training/" with each of the training split's metrics.
/// @throws Error where a split has no "accuracy".
Metrics outcome_metrics(const Metrics& training, const Metrics& test, std::int64_t classes,
                        const OutcomeOptions& options);

/// What `outcome_metrics` adds of the run's kind, as metrics state themselves.
std::vector<MetricInfo> outcome_infos();

}  // namespace attnlab
