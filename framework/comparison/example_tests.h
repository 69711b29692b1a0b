// Tests paired by example, beside those over seeds: what two trained models answer to the same
// examples, by the predictions that evaluations kept (framework/runs/predictions.h).
//
// Of outcomes that are 1 or 0, of one seed, McNemar's exact test; else the paired bootstrap over
// examples. Of several seeds each example counts with its mean over them: examples are drawn, seeds
// are not. Such a test says whether these trained models differ on other examples of the same kind.
// It says nothing of another training.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/metric.h"
#include "framework/comparison/example_statistics.h"
#include "framework/document/document.h"

namespace attnlab {

struct Comparison;
struct ComparisonRow;
struct RunCollection;

/// Of two models with outcomes of 1 or 0, the examples that one alone has right.
struct AloneRight {
  std::int64_t attention = 0, baseline = 0;
};

/// An attention against the baseline on the same examples of an experiment.
struct ExampleTest {
  std::string experiment, attention;
  MetricInfo metric;
  std::vector<std::int64_t> seeds;  ///< that both have
  std::int64_t examples = 0;
  double baseline = 0, value = 0;     ///< means over examples and seeds
  BootstrapResult difference;         ///< attention minus baseline
  std::optional<AloneRight> mcnemar;  ///< where that was the test
  double p_value = 1, adjusted_p = 1;
  bool significant = false;
};

/// Tests each attention that has a finished run of a seed that the baseline has, too.
/// @param comparison  its metrics, rows and options are settled
/// @throws ConfigError where a run's evaluation kept no predictions of the metric; where those of
///         two runs are of other examples, data, order or weights; where a score is not finite; and
///         where the metric is not the mean over examples. FileError, DataError of a file.
std::vector<ExampleTest> example_tests(const Comparison& comparison,
                                       const RunCollection& collection);

/// "better", "worse" or "not shown".
std::string verdict_text(const ExampleTest& test);

/// The table, and what such tests say and do not say; nothing without a test.
/// @param table  its caption and ID
/// @param shows  by an experiment's name: whether its tests are written
void write_example_tests(const Comparison& comparison,
                         const std::function<bool(const std::string&)>& shows, Table table,
                         Document& out);

}  // namespace attnlab
