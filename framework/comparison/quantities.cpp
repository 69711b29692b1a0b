#include "framework/comparison/quantities.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "framework/runs/metric_text.h"

namespace attnlab {
namespace {

/// How many decimals show two digits of a number.
int decimals_of_two_digits(double size) {
  constexpr double kMost = 8, kLeast = 1e-8;  // rounding about zero needs no zeros
  if (!(size >= kLeast) || !std::isfinite(size)) return 0;
  return static_cast<int>(std::clamp(1 - std::floor(std::log10(size)), 0.0, kMost));
}

/// @param like  a value whose size says how many decimals to write
/// @param fine  what must be seen beside it, a spread or a difference; rounding does not count
int decimals_for(const MetricInfo& metric, double like, double fine) {
  if (metric_unit(metric) == "%") return 2;
  const double scale = metric_scale(metric), size = std::abs(scale * like);
  const double least = std::abs(scale * fine) > 1e-7 * size ? std::abs(scale * fine) : size;
  const int usual = size >= 100 ? 0 : size >= 10 ? 2 : 3;
  return std::max({usual, decimals_of_two_digits(size), decimals_of_two_digits(least)});
}

/// A plugin's numbers may not be shares, whatever it calls them.
bool summarises_shares(const MetricInfo& metric, const Summary& summary) {
  return is_share_of_runs(metric) && summary.mean >= 0 && summary.mean <= 1 + 1e-9;
}

Interval scaled(const MetricInfo& metric, const Interval& interval) {
  return {metric_scale(metric) * interval.low, metric_scale(metric) * interval.high};
}

}  // namespace

std::string metric_heading(const MetricInfo& metric) {
  const std::string_view unit = metric_unit(metric);
  return unit.empty() ? metric.name : fmt::format("{} ({})", metric.name, unit);
}

std::string arrow_of(const MetricInfo& metric) {
  return metric.better == Better::lower ? " ↓" : metric.better == Better::higher ? " ↑" : "";
}

std::string difference_unit(const MetricInfo& metric) {
  const std::string_view unit = metric_unit(metric);
  return unit == "%" ? "points" : std::string(unit);
}

std::string difference_heading(const MetricInfo& metric) {
  const std::string unit = difference_unit(metric);
  return unit.empty() ? "difference" : fmt::format("difference ({})", unit);
}

Quantity quantity_of(const MetricInfo& metric, double value) {
  return {.value = metric_scale(metric) * value, .decimals = decimals_for(metric, value, 0)};
}

std::optional<Interval> interval_of(const MetricInfo& metric, const Summary& summary,
                                    double confidence) {
  if (!summarises_shares(metric, summary)) return confidence_interval(summary, confidence);
  const double runs = static_cast<double>(summary.count);
  return wilson_interval(std::min(runs, std::round(summary.mean * runs)), summary.count,
                         confidence);
}

Quantity quantity_of(const MetricInfo& metric, const Summary& summary, std::int64_t of) {
  Quantity out = quantity_of(metric, summary.mean);
  out.count = summary.count;
  out.of = of;
  if (summarises_shares(metric, summary)) {
    out.interval = scaled(metric, *interval_of(metric, summary));
  } else if (summary.count > 1) {
    out.decimals = decimals_for(metric, summary.mean, summary.deviation);
    out.spread = metric_scale(metric) * summary.deviation;
  }
  return out;
}

Quantity difference_of(const MetricInfo& metric, double difference, double like,
                       const std::optional<Interval>& interval) {
  const double fine = interval ? interval->high - interval->low : difference;
  Quantity out{.value = metric_scale(metric) * difference,
               .decimals = decimals_for(metric, like, fine),
               .sign = true};
  if (interval) out.interval = scaled(metric, *interval);
  return out;
}

std::string interval_text(const MetricInfo& metric, const Interval& interval, double like) {
  return interval_text(scaled(metric, interval),
                       decimals_for(metric, like, interval.high - interval.low));
}

std::string p_text(double p_value) {
  if (p_value < 0.0001) return "< 0.0001";
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", p_value);
  return text;
}

TableCell p_cell(double p_value) {
  TableCell cell(p_text(p_value));
  cell.order = p_value;
  return cell;
}

std::string p_phrase(double p_value) {
  const std::string text = p_text(p_value);
  return text[0] == '<' ? "p " + text : "p = " + text;
}

}  // namespace attnlab
