#include "framework/report/pool_tables.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/comparison/quantities.h"
#include "framework/runs/metric_text.h"

namespace attnlab {
namespace {

std::size_t place_of(const Slices& slices, const Slice& slice) {
  return static_cast<std::size_t>(&slice - slices.all.data());
}

std::vector<std::string> metrics_of(const Report& report, const Grid& grid) {
  const MetricInfo& compared = report.metric_of(*report.slices.of_grid(grid.base));
  return pool_metrics(report.cells, report.comparison.book, compared.name);
}

PoolTable whole_table(const Report& report, const Grid& grid,
                      const std::vector<std::string>& metrics) {
  const Slice& all = *report.slices.of_grid(grid.base);
  PoolTable table{all.name, "", {}};
  std::vector<std::string> columns = metrics;
  const std::string& compared = report.metric_of(all).name;
  if (std::count(columns.begin(), columns.end(), compared) == 0) columns.push_back(compared);
  for (const std::string& name : columns) {
    // "correct (%)": several columns of "outcome/..." side by side say it too often.
    const MetricInfo metric = report.info(name);
    const std::string heading = metric_heading(metric);
    const std::size_t begin = is_share_of_runs(metric) ? heading.find('/') + 1 : 0;
    table.columns.push_back({heading.substr(begin), metric, place_of(report.slices, all)});
  }
  return table;
}

PoolTable axis_table(const Report& report, const Grid& grid, const std::string& axis,
                     const MetricInfo& metric) {
  PoolTable table{fmt::format("{}: {} by {}", grid.base, metric_heading(metric), axis), axis, {}};
  for (const auto& [name, values] : grid.axes) {
    if (name != axis) continue;
    for (const std::string& value : values) {
      const Slice& slice = *report.slices.of_grid(grid.base, axis, value);
      table.columns.push_back({value, metric, place_of(report.slices, slice)});
    }
  }
  return table;
}

}  // namespace

std::vector<PoolTable> pool_tables(const Report& report, const Grid& grid) {
  const std::vector<std::string> metrics = metrics_of(report, grid);
  std::vector<PoolTable> tables = {whole_table(report, grid, metrics)};
  for (const std::string& axis : grid.pool) {
    for (const std::string& metric : metrics) {
      tables.push_back(axis_table(report, grid, axis, report.info(metric)));
    }
  }
  return tables;
}

const PooledCell* find_cell(const Report& report, std::size_t slice, const std::string& attention) {
  for (const PooledCell& cell : report.cells) {
    if (cell.slice == slice && cell.attention == attention) return &cell;
  }
  return nullptr;
}

const Summary* find_summary(const Report& report, const PoolColumn& column,
                            const std::string& attention) {
  const PooledCell* cell = find_cell(report, column.slice, attention);
  if (cell == nullptr) return nullptr;
  const auto found = cell->metrics.find(column.metric.name);
  return found == cell->metrics.end() ? nullptr : &found->second;
}

std::optional<Quantity> pool_quantity(const Report& report, const PoolColumn& column,
                                      const std::string& attention) {
  const Summary* summary = find_summary(report, column, attention);
  if (summary == nullptr) return std::nullopt;
  std::int64_t most = 0;  // an attention may have no folder of some runs
  for (const PooledCell& cell : report.cells) {
    if (cell.slice == column.slice) most = std::max(most, cell.runs);
  }
  return quantity_of(column.metric, *summary, most);
}

Table table_of(const Report& report, const PoolTable& pool, bool with_runs) {
  with_runs = with_runs && pool.axis.empty();
  Table table{pool.caption, {"attention"}};
  for (const PoolColumn& column : pool.columns) {
    table.columns.emplace_back(column.heading, /*number=*/true);
  }
  if (with_runs) table.columns.emplace_back("runs", true, "that are done, of all");
  for (const std::string& attention : report.comparison.attentions) {
    std::vector<TableCell>& row = table.rows.emplace_back(1, attention);
    const PooledCell* all = find_cell(report, pool.columns.front().slice, attention);
    for (const PoolColumn& column : pool.columns) {
      std::optional<Quantity> value = pool_quantity(report, column, attention);
      if (value && with_runs && all != nullptr && value->count == all->done) value->of = 0;
      row.push_back(value ? TableCell(*value) : TableCell());
    }
    if (!with_runs) continue;
    if (all == nullptr) {
      row.emplace_back();
      continue;
    }
    const std::string strange =
        all->not_finite > 0 ? fmt::format(", {} not finite", all->not_finite) : "";
    row.emplace_back(fmt::format("{} of {}{}", all->done, all->runs, strange));
  }
  return table;
}

std::string pool_note(const Report& report) {
  bool shares = false;
  for (const Grid& grid : report.slices.grids) {
    shares = shares || is_share_of_runs(report.info(metrics_of(report, grid).front()));
  }
  const std::string numbers = shares
                                  ? "Shares are of the runs that are done, with Wilson's interval "
                                    "of 95 %; other "
                                    "numbers are mean ± sample standard deviation over those runs."
                                  : "Mean ± sample standard deviation over the runs that are done.";
  return numbers +
         " Runs at different points may share data and initial weights: an interval assumes that "
         "they are independent.";
}

}  // namespace attnlab
