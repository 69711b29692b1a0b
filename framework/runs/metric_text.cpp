#include "framework/runs/metric_text.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "framework/base/foreign_text.h"
#include "framework/runs/metric_infos.h"

namespace attnlab {
namespace {

constexpr std::string_view kShareOfRuns = "share of runs";

/// How people read a unit.
struct Shown {
  double scale;
  std::string_view unit;
};

Shown shown(const MetricInfo& metric) {
  if (is_share(metric)) return {100.0, "%"};
  if (metric.unit == "bytes") return {1e-6, "MB"};
  if (metric.unit == "flop") return {1e-6, "M"};
  if (metric.unit == "percent") return {1.0, "%"};
  return {1.0, metric.unit};
}

std::string number_text(double value) {
  char text[48];
  const bool whole = std::abs(value) >= 100 && std::abs(value) < 1e15;
  std::snprintf(text, sizeof text, whole ? "%.0f" : "%.4g", value);
  return text;
}

}  // namespace

bool is_share_of_runs(const MetricInfo& metric) { return metric.unit == kShareOfRuns; }
bool is_share(const MetricInfo& metric) {
  return metric.unit == "share" || is_share_of_runs(metric);
}
double metric_scale(const MetricInfo& metric) { return shown(metric).scale; }
std::string_view metric_unit(const MetricInfo& metric) { return shown(metric).unit; }

std::string_view direction_text(const MetricInfo& metric) {
  return metric.better == Better::higher  ? "higher is better"
         : metric.better == Better::lower ? "lower is better"
                                          : "no direction";
}

std::string memory_text(double bytes) {
  return bytes >= 1e9 ? fmt::format("{:.2f} GB", bytes / 1e9)
                      : fmt::format("{:.0f} MB", bytes / 1e6);
}

std::string metric_text(const MetricInfo& metric, double value) {
  if (!std::isfinite(value)) return "not finite";
  if (metric.unit == "bytes") return memory_text(value);
  const Shown how = shown(metric);
  std::string text = number_text(how.scale * value);
  if (how.unit == "%") {
    char percent[48];
    std::snprintf(percent, sizeof percent, "%.2f", how.scale * value);
    text = percent;
  }
  return how.unit.empty() ? text : fmt::format("{} {}", text, one_line(how.unit));
}

std::string metrics_text(const std::map<std::string, double>& metrics,
                         const std::vector<MetricInfo>& infos) {
  MetricBook book;
  book.add("", infos);
  std::set<std::string> names;
  for (const auto& [name, value] : metrics) names.insert(name);
  std::string text;
  for (const std::string& name : book.in_order(names)) {
    text += fmt::format("{}{} {}", text.empty() ? "" : "  ", one_line(name),
                        metric_text(metric_or_plain(infos, name), metrics.at(name)));
  }
  return text;
}

}  // namespace attnlab
