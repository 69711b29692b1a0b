// The main finding in plain words.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "framework/base/text.h"
#include "framework/comparison/quantities.h"
#include "framework/document/markup.h"
#include "framework/report/pool_tables.h"
#include "framework/report/report.h"
#include "framework/runs/metric_text.h"

namespace attnlab {
namespace {

std::string counted(std::size_t count, const std::string& one, const std::string& many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

/// What one attention shows against the baseline, experiment by experiment.
struct Tally {
  std::string attention;
  std::vector<const ComparisonRow*> better, worse, open;  ///< open: tested, not significant
};

std::vector<Tally> tallies_of(const Comparison& comparison) {
  std::map<std::string, Tally> tallies;
  for (const ComparisonRow& row : comparison.rows) {
    if (!row.contrast || row.contrast->difference.count == 0) continue;
    Tally& tally = tallies[row.attention];
    tally.attention = row.attention;
    (!row.contrast->significant ? tally.open
     : row.improves()           ? tally.better
                                : tally.worse)
        .push_back(&row);
  }
  std::vector<Tally> out;
  for (const std::string& attention : comparison.attentions) {
    if (tallies.count(attention) > 0) out.push_back(tallies.at(attention));
  }
  return out;
}

/// "0.86 points", "0.013 nats".
std::string with_unit(const MetricInfo& metric, const std::string& difference) {
  const std::string unit = difference_unit(metric);
  return unit.empty() ? difference : fmt::format("{} {}", difference, unit);
}

/// What is compared, in a sentence.
std::string metric_name(const Comparison& comparison) {
  const auto common = common_metric(comparison);
  return common ? common->name : "the metric that it is judged by";
}

/// "on vit, by 0.86 points of accuracy (p = 0.031)", or on how many experiments.
std::string shown_where(const std::vector<const ComparisonRow*>& rows) {
  if (rows.size() > 1) return fmt::format("on {} experiments", rows.size());
  const ComparisonRow& row = *rows.front();
  const double difference = std::abs(row.contrast->difference.mean);
  return fmt::format(
      "on {}, by {} of {} ({})", row.experiment,
      with_unit(row.metric,
                plain(difference_of(row.metric, difference, row.summary.mean)).substr(1)),
      row.metric.name, p_phrase(row.contrast->adjusted_p));
}

std::vector<std::string> significant_sentences(const Comparison& comparison,
                                               const std::vector<Tally>& tallies) {
  std::vector<std::string> out;
  for (const Tally& tally : tallies) {
    if (tally.better.empty() && tally.worse.empty()) continue;
    std::string text = tally.attention + " is significantly ";
    const std::string than = fmt::format(" than {} ", comparison.baseline);
    if (!tally.better.empty()) text += fmt::format("better{}{}", than, shown_where(tally.better));
    if (!tally.better.empty() && !tally.worse.empty()) text += ", and ";
    if (!tally.worse.empty()) text += fmt::format("worse{}{}", than, shown_where(tally.worse));
    if (!tally.open.empty()) {
      text += fmt::format("; on {} no difference is shown",
                          counted(tally.open.size(), "other experiment", "other experiments"));
    }
    out.push_back(text + ".");
  }
  return out;
}

/// The largest difference that is not significant, where nothing is; begins with "No attention".
std::string open_sentence(const Comparison& comparison, const std::vector<Tally>& tallies) {
  const ComparisonRow* largest = nullptr;
  for (const Tally& tally : tallies) {
    for (const ComparisonRow* row : tally.open) {
      const auto size = [](const ComparisonRow& one) {
        return std::abs(one.contrast->difference.mean);
      };
      // Sizes of different metrics do not compare: then the first experiment's counts.
      if (largest == nullptr || (row->metric == largest->metric && size(*row) > size(*largest))) {
        largest = row;
      }
    }
  }
  std::int64_t pairs = 0;
  for (const ComparisonRow& row : comparison.rows) {
    if (row.contrast) pairs = std::max(pairs, row.contrast->difference.count);
  }
  const bool reachable = reach_note(comparison.options, pairs, comparison.tests).empty();
  std::string text = fmt::format("No attention is shown to differ from {} in {}{}",
                                 comparison.baseline, metric_name(comparison),
                                 reachable ? ". " : ", and with so few seeds none could be. ");
  const Contrast& contrast = *largest->contrast;
  text += fmt::format(
      "The largest mean difference{} is that of {} on {}: {} over {}",
      common_metric(comparison) ? "" : " in " + largest->metric.name, largest->attention,
      largest->experiment,
      with_unit(largest->metric, plain(difference_of(largest->metric, contrast.difference.mean,
                                                     largest->summary.mean))),
      counted(static_cast<std::size_t>(contrast.difference.count), "seed", "seeds"));
  if (contrast.test) text += fmt::format(" ({})", p_phrase(contrast.adjusted_p));
  return text + ".";
}

std::string alone_sentence(const Comparison& comparison) {
  constexpr std::size_t kMost = 3;
  std::vector<std::string> parts;
  for (const ComparisonRow& row : comparison.rows) {
    if (row.gap || row.attention != comparison.baseline || parts.size() == kMost) continue;
    const std::string unit(metric_unit(row.metric));
    parts.push_back(fmt::format("{}{} on {}", plain(quantity_of(row.metric, row.summary)),
                                unit.empty() ? "" : " " + unit, row.experiment));
  }
  if (parts.empty()) {
    return fmt::format("No run of {} is done with a value of {}, so that nothing can be compared.",
                       comparison.baseline, metric_name(comparison));
  }
  const auto common = common_metric(comparison);
  return fmt::format("The {} of {} is {}; no other attention has values to compare with it.",
                     common ? common->name : "result", comparison.baseline, join(parts, ", "));
}

std::string ranking_sentence(const Comparison& comparison) {
  const Ranking& ranking = *comparison.ranking;
  const auto best =
      std::min_element(ranking.test.mean_ranks.begin(), ranking.test.mean_ranks.end()) -
      ranking.test.mean_ranks.begin();
  const double p = ranking.test.p_value();
  const std::string across = fmt::format("Across {} experiments ", ranking.experiments.size());
  if (p > comparison.options.level) {
    return fmt::format("{}the ranks show no difference among the attentions (Friedman, {}).",
                       across, p_phrase(p));
  }
  return fmt::format("{}the attentions differ in rank (Friedman, {}); {} ranks best.", across,
                     p_phrase(p), ranking.attentions[static_cast<std::size_t>(best)]);
}

std::string unfinished_sentence(const Report& report) {
  std::map<std::string, std::size_t> states;
  for (const UnfinishedRun& one : report.unfinished) {
    ++states[std::string(name_of(report.run(one).status.state))];
  }
  std::vector<std::string> parts;
  parts.reserve(states.size());
  for (const auto& [state, count] : states) parts.push_back(fmt::format("{} {}", count, state));
  return fmt::format("{} of {} gave no value: {}.", report.unfinished.size(),
                     counted(report.collection.runs.size(), "run", "runs"), join(parts, ", "));
}

/// "Over the 150 points of quest_toy, outcome/correct is 58.13 [54.57, 61.62] % of the runs of
/// quest,
/// ...", the best first.
std::string grid_sentence(const Report& report, const Grid& grid) {
  const PoolTable table = pool_tables(report, grid).front();
  const PoolColumn& column = table.columns.front();
  std::vector<std::pair<double, std::string>> parts;
  for (const std::string& attention : report.comparison.attentions) {
    std::optional<Quantity> value = pool_quantity(report, column, attention);
    if (!value) continue;
    const std::string unit(metric_unit(column.metric));
    const std::string fewer = fewer_text(value->count, std::exchange(value->of, 0));
    parts.emplace_back(value->value, fmt::format("{}{} for {}{}", plain(*value),
                                                 unit.empty() ? "" : " " + unit, attention, fewer));
  }
  if (parts.empty()) return "";
  const bool lower = column.metric.better == Better::lower;
  std::stable_sort(parts.begin(), parts.end(), [&](const auto& a, const auto& b) {
    return lower ? a.first < b.first : a.first > b.first;
  });
  std::vector<std::string> texts;
  texts.reserve(parts.size());
  for (const auto& [mean, text] : parts) texts.push_back(text);
  return fmt::format("Over the {} points of {}, {} is {}.", grid.points, grid.base,
                     column.metric.name, join(texts, ", "));
}

}  // namespace

std::vector<std::string> finding_of(const Report& report) {
  const Comparison& comparison = report.comparison;
  std::vector<std::string> out;
  if (!comparison.differences.empty()) {
    out.emplace_back(kNotFair);
  }
  for (const Grid& grid : report.slices.grids) {
    const std::string sentence = grid_sentence(report, grid);
    if (!sentence.empty()) out.push_back(sentence);
  }
  const std::vector<Tally> tallies = tallies_of(comparison);
  std::vector<std::string> shown = significant_sentences(comparison, tallies);
  const bool any_open = std::any_of(tallies.begin(), tallies.end(),
                                    [](const Tally& tally) { return !tally.open.empty(); });
  if (!shown.empty()) {
    out.insert(out.end(), shown.begin(), shown.end());
  } else if (any_open) {
    const std::string text = open_sentence(comparison, tallies);
    const bool points = report.slices.only_points();
    out.push_back(points ? "Point by point, n" + text.substr(1) : text);
  } else {
    out.push_back(alone_sentence(comparison));
  }
  // Points of a grid are not independent experiments.
  if (comparison.ranking && !report.slices.only_points())
    out.push_back(ranking_sentence(comparison));
  if (!report.unfinished.empty()) out.push_back(unfinished_sentence(report));
  return out;
}

std::vector<std::string> citation_lines(const Report& report) {
  std::vector<std::string> out;
  for (const Citation& one : report.citations) {
    out.push_back(fmt::format("{} ({})", one.text, join(one.plugins, ", ")));
  }
  return out;
}

}  // namespace attnlab
