#include "framework/comparison/ranking.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace attnlab {
namespace {

/// One experiment's values for ranking, means over the seeds that all the rows have; empty without
/// such a seed. Smaller is better.
std::vector<double> block_of(const std::vector<const ComparisonRow*>& rows) {
  const bool higher = rows.front()->metric.better == Better::higher;
  std::vector<std::vector<double>> values(rows.size());
  for (std::size_t s = 0; s < rows.front()->seeds.size(); ++s) {
    const auto has = [&](const ComparisonRow* row) { return row->seeds[s].value.has_value(); };
    if (!std::all_of(rows.begin(), rows.end(), has)) continue;
    for (std::size_t j = 0; j < rows.size(); ++j) values[j].push_back(*rows[j]->seeds[s].value);
  }
  if (values.front().empty()) return {};
  std::vector<double> block, scales;
  for (const std::vector<double>& list : values) {
    block.push_back((higher ? -1 : 1) * summary_of(list).mean);
    scales.push_back(largest_size(list));
  }
  return merge_near(block, scales);
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

}  // namespace

void add_ranking(Comparison& comparison) {
  Ranking ranking;
  ranking.attentions = ranked_attentions(comparison);
  std::vector<std::vector<double>> blocks;
  for (const std::string& experiment : comparison.experiments) {
    std::vector<const ComparisonRow*> rows;
    for (const std::string& attention : ranking.attentions) {
      for (const ComparisonRow& row : comparison.rows) {
        if (row.experiment == experiment && row.attention == attention) rows.push_back(&row);
      }
    }
    std::vector<double> block;
    if (!rows.empty()) block = block_of(rows);
    if (block.empty()) {
      comparison.left_out.push_back(experiment + ": no seed has a value of every attention");
      continue;
    }
    ranking.experiments.push_back(experiment);
    blocks.push_back(std::move(block));
  }
  if (ranking.attentions.size() < 2 || blocks.size() < 2) {
    comparison.no_ranking = fmt::format(
        "ranks need two attentions and two experiments with values of all; there are {} and {}",
        ranking.attentions.size(), blocks.size());
    return;
  }
  ranking.test = friedman(blocks);
  ranking.critical_difference =
      nemenyi_difference(static_cast<std::int64_t>(ranking.attentions.size()),
                         static_cast<std::int64_t>(blocks.size()), comparison.options.level);
  comparison.ranking = std::move(ranking);
}

}  // namespace attnlab
