#include "framework/comparison/domain_ranking.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/base/text.h"

namespace attnlab {
namespace {

/// A quality column that the baseline has a value in.
struct Ranked {
  std::size_t column;
  std::string domain;
};

bool ranks(const DomainCell& cell) { return cell.row.summary.count > 0 || cell.diverged > 0; }

std::vector<Ranked> ranked_columns(DomainPage& page) {
  std::vector<Ranked> out;
  for (std::size_t i = 0; i < page.columns.size(); ++i) {
    if (page.columns[i].role != ColumnRole::quality) continue;
    if (ranks(page.rows.front().cells[i])) {
      out.push_back({i, page.columns[i].domain});
    } else {
      page.left_out.push_back(fmt::format("{}: {} has no value there ({})", page.columns[i].name(),
                                          page.baseline,
                                          page.rows.front().cells[i].row.gap.text()));
    }
  }
  return out;
}

std::vector<const DomainRow*> ranked_rows(DomainPage& page, const std::vector<Ranked>& columns) {
  std::vector<const DomainRow*> out;
  for (const DomainRow& row : page.rows) {
    std::vector<std::string> missing;
    for (const Ranked& one : columns) {
      if (!ranks(row.cells[one.column])) missing.push_back(page.columns[one.column].name());
    }
    if (missing.empty()) {
      out.push_back(&row);
    } else {
      page.left_out.push_back(
          fmt::format("{}: no value in {}", row.attention, join(missing, ", ")));
    }
  }
  return out;
}

double diverged_share(const DomainCell& cell) {
  const auto seeds = std::max<std::int64_t>(1, cell.own_seeds());
  return static_cast<double>(cell.diverged) / static_cast<double>(seeds);
}

/// Over the seeds that all cells without a divergence have; smaller is better. Empty without one.
std::vector<double> means_of(const std::vector<const DomainCell*>& cells) {
  std::vector<std::vector<double>> values(cells.size());
  const bool higher = cells.front()->row.metric.better == Better::higher;
  bool any = false;
  for (std::size_t seed = 0; seed < cells.front()->row.seeds.size(); ++seed) {
    const bool all = std::all_of(cells.begin(), cells.end(), [&](const DomainCell* cell) {
      if (cell->diverged > 0) return true;
      return seed < cell->row.seeds.size() && cell->row.seeds[seed].value.has_value();
    });
    if (!all) continue;
    for (std::size_t j = 0; j < cells.size(); ++j) {
      if (cells[j]->diverged == 0) values[j].push_back(*cells[j]->row.seeds[seed].value);
    }
    any = true;
  }
  if (!any) return {};
  std::vector<double> means(cells.size(), 0);
  std::vector<double> scales(cells.size(), 0);
  double largest = 0;
  for (std::size_t j = 0; j < cells.size(); ++j) {
    if (cells[j]->diverged > 0) continue;
    means[j] = (higher ? -1 : 1) * summary_of(values[j]).mean;
    scales[j] = largest_size(values[j]);
    largest = std::max(largest, std::abs(means[j]));
  }
  means = merge_near(means, scales);
  for (std::size_t j = 0; j < cells.size(); ++j) {  // behind every value, by share
    if (cells[j]->diverged > 0) means[j] = 2 * largest + 1 + diverged_share(*cells[j]);
  }
  return means;
}

/// Seeds that a column is not ranked by, because some attention has no value there: named, since
/// all attentions are then ranked by fewer.
void name_lost_seeds(const std::string& column, const std::vector<const DomainRow*>& rows,
                     const std::vector<const DomainCell*>& cells, DomainPage& page) {
  for (std::size_t seed = 0; seed < cells.front()->row.seeds.size(); ++seed) {
    std::vector<std::string> without;
    for (std::size_t j = 0; j < cells.size(); ++j) {
      const std::vector<SeedValue>& seeds = cells[j]->row.seeds;
      const bool there = seed < seeds.size() && seeds[seed].value;
      if (cells[j]->diverged == 0 && !there) without.push_back(rows[j]->attention);
    }
    if (without.empty()) continue;
    page.left_out.push_back(fmt::format("{}, seed {}: no value of {}", column,
                                        cells.front()->row.seeds[seed].seed, join(without, ", ")));
  }
}

}  // namespace

void add_domain_ranking(DomainPage& page) {
  const std::vector<Ranked> columns = ranked_columns(page);
  const std::vector<const DomainRow*> rows = ranked_rows(page, columns);
  Ranking ranking;
  for (const DomainRow* row : rows) ranking.attentions.push_back(row->attention);
  std::vector<std::vector<double>> blocks;
  for (const Ranked& one : columns) {
    if (rows.empty()) break;
    std::vector<const DomainCell*> cells;
    cells.reserve(rows.size());
    for (const DomainRow* row : rows) cells.push_back(&row->cells[one.column]);
    const std::vector<double> means = means_of(cells);
    if (means.empty()) {
      page.left_out.push_back(page.columns[one.column].name() +
                              ": no seed has a value of every attention");
      continue;
    }
    name_lost_seeds(page.columns[one.column].name(), rows, cells, page);
    const std::vector<double> column_ranks = average_ranks(means);
    std::vector<std::string>& domains = ranking.experiments;
    const auto known = std::find(domains.begin(), domains.end(), one.domain);
    const auto block = static_cast<std::size_t>(known - domains.begin());
    if (known == domains.end()) {
      domains.push_back(one.domain);
      blocks.emplace_back(rows.size(), 0.0);
    }
    // Sums of ranks order a domain's attentions as their means do.
    for (std::size_t j = 0; j < rows.size(); ++j) blocks[block][j] += column_ranks[j];
  }
  if (rows.size() < 2 || blocks.size() < 2) {
    page.no_ranking = fmt::format(
        "ranks need two attentions and two domains with values of all; there are {} and {}",
        rows.size(), blocks.size());
    return;
  }
  ranking.test = friedman(blocks);
  ranking.critical_difference =
      nemenyi_difference(static_cast<std::int64_t>(rows.size()),
                         static_cast<std::int64_t>(blocks.size()), page.options.level);
  page.ranking = std::move(ranking);
}

}  // namespace attnlab
