#include "framework/comparison/ranking.h"

#include <fmt/format.h>

#include <algorithm>

namespace attnlab {
namespace {

using Rows = std::vector<const ComparisonRow*>;

/// One experiment's values for ranking, means over the settings and seeds that all attentions have;
/// empty without any. Smaller is better.
/// @param settings  rows of each, one per attention
std::vector<double> block_of(const std::vector<Rows>& settings) {
  if (settings.empty() || settings.front().empty()) return {};
  const bool higher = settings.front().front()->metric.better == Better::higher;
  std::vector<std::vector<double>> values(settings.front().size());
  for (const Rows& rows : settings) {
    for (std::size_t s = 0; s < rows.front()->seeds.size(); ++s) {
      const auto has = [&](const ComparisonRow* row) { return row->seeds[s].value.has_value(); };
      if (!std::all_of(rows.begin(), rows.end(), has)) continue;
      for (std::size_t j = 0; j < rows.size(); ++j) values[j].push_back(*rows[j]->seeds[s].value);
    }
  }
  if (values.front().empty()) return {};
  std::vector<double> block, scales;
  for (const std::vector<double>& list : values) {
    block.push_back((higher ? -1 : 1) * summary_of(list).mean);
    scales.push_back(largest_size(list));
  }
  return merge_near(block, scales);
}

/// Of points of a sweep.
std::string settings_note(const Comparison& comparison) {
  const bool any = std::any_of(comparison.settings.begin(), comparison.settings.end(),
                               [](const auto& one) { return one.first != one.second; });
  return any ? " (points of a sweep or grid on the same data are settings of one experiment)" : "";
}

/// Attentions that have a value somewhere; the others cannot be ranked.
std::vector<std::string> ranked_attentions(Comparison& comparison) {
  std::vector<std::string> ranked;
  for (const std::string& attention : comparison.attentions) {
    const bool any = std::any_of(comparison.rows.begin(), comparison.rows.end(), [&](auto& row) {
      return row.attention == attention && row.summary.count > 0;
    });
    if (any) {
      ranked.push_back(attention);
    } else {
      comparison.left_out.push_back(attention + ": has no value in any experiment");
    }
  }
  return ranked;
}

/// Rows of the ranked attentions by experiment and setting, in the order of the comparison.
std::vector<std::pair<std::string, std::vector<Rows>>> ranked_rows(
    const Comparison& comparison, const std::vector<std::string>& attentions) {
  std::vector<std::pair<std::string, std::vector<Rows>>> all;
  for (const std::string& experiment : comparison.experiments) {
    const std::string& name = comparison.setting(experiment);
    auto known =
        std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.first == name; });
    if (known == all.end()) known = all.insert(all.end(), {name, {}});
    Rows& rows = known->second.emplace_back();
    for (const std::string& attention : attentions) {
      for (const ComparisonRow& row : comparison.rows) {
        if (row.experiment == experiment && row.attention == attention) rows.push_back(&row);
      }
    }
  }
  return all;
}

}  // namespace

void add_ranking(Comparison& comparison) {
  Ranking ranking;
  ranking.attentions = ranked_attentions(comparison);
  std::vector<std::vector<double>> blocks;
  for (const auto& [experiment, settings] : ranked_rows(comparison, ranking.attentions)) {
    std::vector<double> block = block_of(settings);
    if (block.empty()) {
      comparison.left_out.push_back(experiment + ": no seed has a value of every attention");
      continue;
    }
    ranking.experiments.push_back(experiment);
    blocks.push_back(std::move(block));
  }
  if (ranking.attentions.size() < 2 || blocks.size() < 2) {
    comparison.no_ranking = fmt::format(
        "ranks need two attentions and two experiments with values of all; there are {} and {}{}",
        ranking.attentions.size(), blocks.size(), settings_note(comparison));
    return;
  }
  ranking.test = friedman(blocks);
  ranking.critical_difference =
      nemenyi_difference(static_cast<std::int64_t>(ranking.attentions.size()),
                         static_cast<std::int64_t>(blocks.size()), comparison.options.level);
  comparison.ranking = std::move(ranking);
}

}  // namespace attnlab
