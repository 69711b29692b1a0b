#include "framework/comparison/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>

#include "framework/base/foreign_text.h"
#include "framework/base/unicode.h"
#include "framework/runs/metric_text.h"

namespace attnlab {
namespace {

std::vector<std::vector<std::string>> markdown_cells(std::vector<std::vector<std::string>> rows) {
  for (auto& row : rows) {
    for (std::string& cell : row) cell = markdown_line(cell);
  }
  return rows;
}

/// Names of plugins, metrics and groups may hold anything.
std::vector<std::vector<std::string>> on_one_line(std::vector<std::vector<std::string>> rows) {
  for (auto& row : rows) {
    for (std::string& cell : row) {
      const bool fits = printable(cell) == cell && cell.find('\n') == std::string::npos;
      if (!fits || cell.size() > kLongestLine) cell = one_line(cell);  // an indent may stay
    }
  }
  return rows;
}

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

std::string decimal(const MetricInfo& metric, double value, int decimals,
                    const char* format = "%.*f") {
  char text[400];  // 1e308 has 309 digits
  std::snprintf(text, sizeof text, format, decimals, metric_scale(metric) * value);
  return text;
}

}  // namespace

std::string fenced(const std::string& text) {
  std::string fence = "```";
  while (text.find(fence) != std::string::npos) fence += "`";
  return fmt::format("{}\n{}{}{}\n", fence, text, text.empty() || text.back() != '\n' ? "\n" : "",
                     fence);
}

std::string markdown_line(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char next = i + 1 < text.size() ? text[i + 1] : ' ';
    const bool tag = text[i] == '<' && (std::isalpha(static_cast<unsigned char>(next)) != 0 ||
                                        next == '/' || next == '!' || next == '?');
    const bool link = text[i] == ']' && (next == '(' || next == '[' || next == ':');
    // Before other characters it stands for itself: "\x1b".
    const bool escape = text[i] == '\\' && std::ispunct(static_cast<unsigned char>(next)) != 0;
    if (tag || link || escape || text[i] == '|') out += '\\';
    out += text[i];
  }
  return out;
}

std::string table_text(const std::vector<std::vector<std::string>>& given, TableStyle style) {
  if (given.empty()) return "";
  const bool markdown = style == TableStyle::markdown;
  const auto clean = on_one_line(given);
  const auto rows = markdown ? markdown_cells(clean) : clean;
  std::vector<std::size_t> widths(rows.front().size(), 3);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i]));
    }
  }
  std::string out;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      line += (markdown ? "| " : "") + rows[r][i] +
              std::string(widths[i] - display_width(rows[r][i]) + (markdown ? 1 : 2), ' ');
    }
    if (!markdown) line.erase(line.find_last_not_of(' ') + 1);
    out += line + (markdown ? "|\n" : "\n");
    if (r > 0) continue;
    for (const std::size_t width : widths) {
      out += markdown ? "|" + std::string(width + 2, '-') : std::string(width, '-') + "  ";
    }
    if (!markdown) out.erase(out.size() - 2);
    out += markdown ? "|\n" : "\n";
  }
  return out;
}

std::string metric_heading(const MetricInfo& metric) {
  const std::string_view unit = metric_unit(metric);
  return unit.empty() ? metric.name : fmt::format("{} ({})", metric.name, unit);
}

std::string difference_unit(const MetricInfo& metric) {
  const std::string_view unit = metric_unit(metric);
  return unit == "%" ? "points" : std::string(unit);
}

std::string difference_heading(const MetricInfo& metric) {
  const std::string unit = difference_unit(metric);
  return unit.empty() ? "difference" : fmt::format("difference ({})", unit);
}

std::string value_text(const MetricInfo& metric, double value) {
  return decimal(metric, value, decimals_for(metric, value, 0));
}

std::optional<Interval> interval_of(const MetricInfo& metric, const Summary& summary,
                                    double confidence) {
  if (!summarises_shares(metric, summary)) return confidence_interval(summary, confidence);
  const double runs = static_cast<double>(summary.count);
  return wilson_interval(std::min(runs, std::round(summary.mean * runs)), summary.count,
                         confidence);
}

std::string summary_text(const MetricInfo& metric, const Summary& summary) {
  if (summary.count == 0) return "-";
  if (summarises_shares(metric, summary)) {
    return fmt::format("{} {}", value_text(metric, summary.mean),
                       interval_text(metric, *interval_of(metric, summary), summary.mean));
  }
  if (summary.count == 1) return value_text(metric, summary.mean);
  const int decimals = decimals_for(metric, summary.mean, summary.deviation);
  return fmt::format("{} ± {}", decimal(metric, summary.mean, decimals),
                     decimal(metric, summary.deviation, decimals));
}

std::string fewer_text(std::int64_t count, std::int64_t all, std::int64_t told) {
  return count >= all || count == told ? "" : fmt::format(" ({} of {})", count, all);
}

std::string interval_text(const MetricInfo& metric, const Interval& interval, double like) {
  const int decimals = decimals_for(metric, like, interval.high - interval.low);
  return fmt::format("[{}, {}]", decimal(metric, interval.low, decimals),
                     decimal(metric, interval.high, decimals));
}

std::string difference_text(const MetricInfo& metric, double difference, double like,
                            const std::optional<Interval>& interval) {
  const double fine = interval ? interval->high - interval->low : difference;
  return decimal(metric, difference, decimals_for(metric, like, fine), "%+.*f");
}

std::string p_text(double p_value) {
  if (p_value < 0.0001) return "< 0.0001";
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", p_value);
  return text;
}

}  // namespace attnlab
