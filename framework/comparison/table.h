// Tables and numbers as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/base/metric.h"
#include "framework/comparison/statistics.h"

namespace attnlab {

enum class TableStyle { text, markdown };

/// Columns that line up in a terminal, whichever the style.
/// @param rows  the heading first; all of one length. Empty without rows.
std::string table_text(const std::vector<std::vector<std::string>>& rows,
                       TableStyle style = TableStyle::markdown);

/// Foreign text on a line, in a list or in a cell of Markdown: no bar ends the cell, "<b" begins no
/// tag, "](" no link.
std::string markdown_line(const std::string& text);

/// Foreign text as a block of code of Markdown, whose fence is longer than any in it.
std::string fenced(const std::string& text);

/// "accuracy (%)": a metric's name with the unit that `value_text` writes it in.
std::string metric_heading(const MetricInfo& metric);
/// "points" where differences are of percentages, else the unit; may be empty.
std::string difference_unit(const MetricInfo& metric);
/// "difference (points)".
std::string difference_heading(const MetricInfo& metric);

/// "85.49", "0.473", "2260": a metric's value in its unit. Percentages have two decimals. Of other
/// numbers from 1e-8 on two digits are seen, and two of what stands beside them: "123.40 ± 0.20".
std::string value_text(const MetricInfo& metric, double value);
/// Where the mean over all runs lies: Student's interval, or Wilson's for a share of runs.
/// Empty where there is none.
std::optional<Interval> interval_of(const MetricInfo& metric, const Summary& summary,
                                    double confidence = 0.95);
/// "85.49 ± 0.20": mean ± sample deviation; the mean alone of one value, "-" of none. Of a share
/// of runs with Wilson's interval of 95 % instead: "25.00 [4.56, 69.94]".
std::string summary_text(const MetricInfo& metric, const Summary& summary);
/// " (2 of 3)" behind a value that fewer runs have than could; else empty.
/// @param told  how many the row says by itself
std::string fewer_text(std::int64_t count, std::int64_t all, std::int64_t told = -1);
/// "[85.21, 85.77]". @param like  a value whose size says how many decimals to write.
std::string interval_text(const MetricInfo& metric, const Interval& interval, double like);
/// "+0.52", "-0.013": a difference of two values of a metric; the sign is always written.
/// @param interval  that is written beside it, with as many decimals
std::string difference_text(const MetricInfo& metric, double difference, double like,
                            const std::optional<Interval>& interval = {});
/// "0.0625", "< 0.0001".
std::string p_text(double p_value);

}  // namespace attnlab
