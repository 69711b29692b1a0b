// Values of metrics as people read them: how many decimals are seen, and in which unit.
#pragma once

#include <cstdint>
#include <string>

#include "framework/base/metric.h"
#include "framework/comparison/statistics.h"
#include "framework/document/document.h"

namespace attnlab {

/// "accuracy (%)": a metric's name with the unit that its quantities are in.
std::string metric_heading(const MetricInfo& metric);
/// " ↑", " ↓": the better side; empty without a direction, which a metric without values has not.
std::string arrow_of(const MetricInfo& metric);
/// "points" where differences are of percentages, else the unit; may be empty.
std::string difference_unit(const MetricInfo& metric);
/// "difference (points)".
std::string difference_heading(const MetricInfo& metric);

/// "85.49", "0.473", "2260": a metric's value in its unit. Percentages have two decimals. Of other
/// numbers from 1e-8 on two digits are seen, and two of what stands beside them: "123.40 ± 0.20".
Quantity quantity_of(const MetricInfo& metric, double value);
/// "85.49 ± 0.20": mean ± sample deviation; the mean alone of one value. Of a share of runs with
/// Wilson's interval of 95 % instead: "25.00 [4.56, 69.94]".
/// @param of  how many values there could be
Quantity quantity_of(const MetricInfo& metric, const Summary& summary, std::int64_t of = 0);
/// "+0.52 [0.21, 0.83]", "-0.013": a difference of two values of a metric.
/// @param like  a value whose size says how many decimals to write
Quantity difference_of(const MetricInfo& metric, double difference, double like,
                       const std::optional<Interval>& interval = {});
/// "[85.21, 85.77]".
std::string interval_text(const MetricInfo& metric, const Interval& interval, double like);
/// Where the mean over all runs lies: Student's interval, or Wilson's for a share of runs.
/// Empty where there is none.
std::optional<Interval> interval_of(const MetricInfo& metric, const Summary& summary,
                                    double confidence = 0.95);

/// "0.0625", "< 0.0001".
std::string p_text(double p_value);
/// The same as a cell, by which a table is sorted.
TableCell p_cell(double p_value);
/// "p = 0.031", "p < 0.0001".
std::string p_phrase(double p_value);

}  // namespace attnlab
