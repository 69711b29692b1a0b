#include "framework/report/diagrams.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "framework/base/text.h"
#include "framework/base/unicode.h"
#include "framework/comparison/quantities.h"
#include "framework/document/markup.h"
#include "framework/runs/metric_text.h"

namespace attnlab {
namespace {

constexpr double kWidth = 720;
constexpr std::size_t kLongestLabel = 30;

std::string px(double value) { return decimal(value, 1); }

std::string line(double x1, double y1, double x2, double y2, const std::string& style) {
  return fmt::format("<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n", style,
                     px(x1), px(y1), px(x2), px(y2));
}

/// @param anchor  "start", "middle" or "end"
std::string label(double x, double y, const std::string& anchor, const std::string& text,
                  const std::string& style = "") {
  return fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\" class=\"{}\">{}</text>\n", px(x),
                     px(y), anchor, style, html_text(text));
}

/// A long name without its middle: points of a grid begin alike.
std::string shortened(const std::string& name) {
  std::string text = valid_utf8(name);
  const std::size_t width = display_width(text), half = kLongestLabel / 2;
  if (width <= kLongestLabel) return text;
  return fmt::format("{}…{}", display_prefix(text, half),
                     text.substr(display_prefix(text, width - half).size()));
}

std::string svg(double height, const std::string& title, const std::string& body) {
  return fmt::format(
      "<svg class=\"diagram\" role=\"img\" viewBox=\"0 0 {} {}\" aria-label=\"{}\">\n{}</svg>\n",
      px(kWidth), px(height), html_text(title), body);
}

/// A round step that divides `range` into four to ten.
double tick_step(double range) {
  const double power = std::pow(10, std::floor(std::log10(range / 4)));
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    if (range / (factor * power) <= 10) return factor * power;
  }
  return 10 * power;
}

// ---- ranks

constexpr double kRankMargin = 220, kRowHeight = 24, kAxisTop = 58;

/// Where the ranks stand on the drawing.
struct RankScale {
  double first, last;
  double x(double rank) const {
    return kRankMargin + (rank - first) / (last - first) * (kWidth - 2 * kRankMargin);
  }
};

std::string rank_axis(const RankScale& scale, double critical_difference) {
  std::string out = line(scale.x(scale.first), kAxisTop, scale.x(scale.last), kAxisTop, "axis");
  for (double rank = scale.first; rank <= scale.last; ++rank) {
    out += line(scale.x(rank), kAxisTop - 6, scale.x(rank), kAxisTop, "axis") +
           label(scale.x(rank), kAxisTop - 10, "middle", decimal(rank, 0), "tick");
  }
  // To scale; where it is longer than the axis its length says that nothing is told apart.
  const double begin = scale.x(scale.first);
  const double end = std::min(kWidth - 10, scale.x(scale.first + critical_difference));
  out += line(begin, 16, end, 16, "bar") + line(begin, 12, begin, 20, "axis") +
         line(end, 12, end, 20, "axis");
  return out + label(begin - 8, 20, "end", "CD = " + decimal(critical_difference, 2), "tick");
}

}  // namespace

std::string rank_svg(const Ranking& ranking) {
  const std::vector<double>& ranks = ranking.test.mean_ranks;
  const RankGroups groups = rank_groups(ranks, ranking.critical_difference);
  const RankScale scale{1, static_cast<double>(ranks.size())};
  std::string out = rank_axis(scale, ranking.critical_difference);
  const std::size_t count = ranks.size(), left = (count + 1) / 2;
  const double bars = kAxisTop + 12;
  const double first_row = bars + 10 * static_cast<double>(groups.groups.size()) + 18;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t j = groups.order[i];
    const bool on_left = i < left;
    const std::size_t row = on_left ? i : count - 1 - i;
    const double x = scale.x(ranks[j]), y = first_row + kRowHeight * static_cast<double>(row);
    const double side = on_left ? kRankMargin - 12 : kWidth - kRankMargin + 12;
    const std::string text =
        on_left ? fmt::format("{}  {}", shortened(ranking.attentions[j]), decimal(ranks[j], 2))
                : fmt::format("{}  {}", decimal(ranks[j], 2), shortened(ranking.attentions[j]));
    out += line(x, kAxisTop, x, y, "thin") + line(x, y, side, y, "thin") +
           label(on_left ? side - 5 : side + 5, y + 4, on_left ? "end" : "start", text);
  }
  double y = bars;
  for (const auto& [first, last] : groups.groups) {
    out += line(scale.x(ranks[groups.order[first]]) - 4, y, scale.x(ranks[groups.order[last]]) + 4,
                y, "bar");
    y += 10;
  }
  const double height = first_row + kRowHeight * static_cast<double>(left);
  return svg(height, "Critical-difference diagram of mean ranks; the best is on the left", out);
}

namespace {

// ---- differences

constexpr double kLabelWidth = 240, kPlotEnd = 700;

/// Where differences stand on the drawing; the zero is always on it.
struct DifferenceScale {
  double low = 0, high = 0;
  double x(double value) const {
    return kLabelWidth + (value - low) / (high - low) * (kPlotEnd - kLabelWidth);
  }
  void include(double value) {
    if (std::isnan(value)) value = std::numeric_limits<double>::infinity();
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

std::vector<const ComparisonRow*> contrasts_of(const Comparison& comparison,
                                               const MetricInfo& metric) {
  std::vector<const ComparisonRow*> rows;
  for (const ComparisonRow& row : comparison.rows) {
    const bool any = row.contrast && row.contrast->difference.count > 0;
    if (any && row.metric == metric) rows.push_back(&row);
  }
  return rows;
}

/// The differences that publications give for a row, in the units of their tables.
std::vector<double> published_differences(const Comparison& comparison, const ComparisonRow& row) {
  std::vector<double> out;
  for (const PublishedNumbers& published : comparison.published) {
    const std::string text =
        published.difference(row.experiment, row.attention, comparison.baseline);
    if (!text.empty()) out.push_back(std::strtod(text.c_str(), nullptr));
  }
  return out;
}

DifferenceScale scale_of(const Comparison& comparison,
                         const std::vector<const ComparisonRow*>& rows, double unit) {
  DifferenceScale scale;
  for (const ComparisonRow* row : rows) {
    scale.include(unit * row->contrast->difference.mean);
    for (const double value : published_differences(comparison, *row)) scale.include(value);
    if (!row->contrast->interval) continue;
    scale.include(unit * row->contrast->interval->low);
    scale.include(unit * row->contrast->interval->high);
  }
  const double margin = scale.high > scale.low ? 0.05 * (scale.high - scale.low) : 1;
  scale.low -= margin;
  scale.high += margin;
  return scale;
}

std::string difference_axis(const DifferenceScale& scale, double bottom) {
  std::string out;
  const double step = tick_step(scale.high - scale.low);
  if (step == 0) return out;  // of the least numbers that there are
  const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step))));
  for (double at = std::ceil(scale.low / step); at * step <= scale.high; ++at) {
    const double x = scale.x(at * step);
    out += line(x, 26, x, bottom, at == 0 ? "axis" : "grid") +
           label(x, 18, "middle", decimal(at * step + 0.0, decimals), "tick");
  }
  return out;
}

std::string difference_mark(const ComparisonRow& row, const DifferenceScale& scale, double unit,
                            double y) {
  const Contrast& contrast = *row.contrast;
  std::string out;
  const std::string side = contrast.significant ? row.improves() ? "good" : "bad" : "open";
  if (contrast.interval) {
    const double low = scale.x(unit * contrast.interval->low);
    const double high = scale.x(unit * contrast.interval->high);
    out += line(low, y, high, y, "whisker " + side) +
           line(low, y - 4, low, y + 4, "whisker " + side) +
           line(high, y - 4, high, y + 4, "whisker " + side);
  }
  return fmt::format("{}<circle class=\"mark {}\" cx=\"{}\" cy=\"{}\" r=\"5\"/>\n", out, side,
                     px(scale.x(unit * contrast.difference.mean)), px(y));
}

std::string cross(double x, double y) {
  return line(x - 4, y - 4, x + 4, y + 4, "published") +
         line(x - 4, y + 4, x + 4, y - 4, "published");
}

}  // namespace

std::size_t differences_in(const Comparison& comparison, const MetricInfo& metric) {
  return contrasts_of(comparison, metric).size();
}

std::string difference_svg(const Comparison& comparison, const MetricInfo& metric) {
  const std::vector<const ComparisonRow*> rows = contrasts_of(comparison, metric);
  if (rows.empty() || rows.size() > kMostDifferences) return "";
  const double unit = metric_scale(metric);
  const DifferenceScale scale = scale_of(comparison, rows, unit);
  if (!std::isfinite(scale.high - scale.low)) return "";  // exploded losses have no scale
  std::string marks, experiment;
  double y = 24;
  for (const ComparisonRow* row : rows) {
    if (row->experiment != experiment) {
      experiment = row->experiment;
      y += 24;
      marks += label(4, y, "start", shortened(experiment), "group");
    }
    y += 24;
    marks += label(kLabelWidth - 14, y + 4, "end", shortened(row->attention)) +
             difference_mark(*row, scale, unit, y);
    for (const double value : published_differences(comparison, *row)) {
      marks += cross(scale.x(value), y);
    }
  }
  const std::string measured = difference_unit(metric);
  const std::string heading =
      fmt::format("difference in {}{} to {}", metric.name,
                  measured.empty() ? "" : fmt::format(" ({})", measured), comparison.baseline);
  const std::string better = metric.better == Better::higher ? "right is better" : "left is better";
  marks += label((kLabelWidth + kPlotEnd) / 2, y + 40, "middle",
                 fmt::format("{}; {}", heading, better), "tick");
  return svg(y + 52, heading + ", with intervals; the table below has the numbers",
             difference_axis(scale, y + 18) + marks);
}

}  // namespace attnlab
