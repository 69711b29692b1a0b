// A suite's table as Markdown and JSON, and its record.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "framework/base/foreign_text.h"
#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/comparison/quantities.h"
#include "framework/comparison/tuning_table.h"
#include "framework/document/text.h"
#include "framework/runs/metric_text.h"
#include "framework/runs/run_records.h"
#include "framework/suites/suite.h"
#include "framework/suites/suite_pool.h"

namespace attnlab {
namespace {

using nlohmann::json;

/// A grid of many points has too many rows to read.
constexpr std::size_t kMostRows = 60;

MetricBook book_of(const std::vector<SuiteRow>& rows) {
  MetricBook book;
  for (const SuiteRow& row : rows) book.add(row.experiment, row.infos);
  return book;
}

/// In the order in which runs recorded them: the task's, then the host's; of evaluations the
/// headline of each entry, and what the suite has published numbers of.
std::vector<MetricInfo> columns_of(const Suite& suite, const std::vector<SuiteRow>& rows) {
  std::set<std::string> names, published;
  for (const PublishedNumbers& one : suite.references) published.insert(one.metric);
  for (const SuiteRow& row : rows) {  // a detail of one experiment may be another's headline
    for (const auto& [name, summary] : row.metrics) {
      if (row.details.count(name) == 0 || published.count(name) > 0) names.insert(name);
    }
  }
  const MetricBook book = book_of(rows);
  std::vector<MetricInfo> columns;
  for (const std::string& name : book.in_order(names)) columns.push_back(book.shared(name));
  return columns;
}

std::string states_text(const SuiteRow& row) {
  std::vector<std::string> parts;
  for (const auto& [state, count] : row.states) {
    parts.push_back(fmt::format("{} {}", count, name_of(state)));
    if (state != RunState::done || row.not_finite == 0) continue;
    parts.back() += fmt::format(" ({} not finite)", row.not_finite);
  }
  for (const auto& [absence, count] : row.absences) {
    parts.push_back(fmt::format("{} {}", count, name_of(absence)));
  }
  return join(parts, ", ");
}

bool is_of(const SuiteRow& row, const std::string& experiment, const std::string& attention) {
  return row.experiment == experiment && row.attention == attention;
}

SuiteRow row_of(const Suite& suite, const std::string& experiment, const std::string& attention) {
  std::vector<const Cell*> own;
  for (const Cell& cell : suite.cells) {
    if (cell.experiment.name != experiment || cell.experiment.attention.label != attention)
      continue;
    own.push_back(&cell);
  }
  return row_over(own, experiment, attention);
}

/// The points of a suite's grid, with their values in the order of its axes, for reports.
json grid_json(const Suite& suite) {
  json points = json::array();
  for (const SuitePoint& point : suite.points) {
    points.push_back(
        {{"experiment", point.experiment}, {"base", point.base}, {"values", point.values}});
  }
  return {{"points", std::move(points)}, {"pool", suite.pool}};
}

/// What table.json and suite.json have in common.
json record_of(const Suite& suite, const std::string& command) {
  json out = {{"suite", suite.name},    {"file", suite.file},   {"baseline", suite.baseline},
              {"command", command},     {"notes", suite.notes}, {"runs", json::array()},
              {"absent", json::array()}};
  if (suite.compare) {
    const CompareOptions& compare = *suite.compare;
    out["compare"] = {{"test", compare.test},       {"pair", compare.pair},
                      {"correct", compare.correct}, {"level", compare.level},
                      {"metric", compare.metric},   {"better", compare.better}};
  }
  if (!suite.planned_test.empty()) out["planned_test"] = suite.planned_test;
  json references = json::array();
  for (const PublishedNumbers& one : suite.references) {
    references.push_back({{"source", one.source}, {"metric", one.metric}, {"values", one.values}});
  }
  if (references.size() == 1) out["reference"] = references[0];
  if (references.size() > 1) out["references"] = std::move(references);
  if (!suite.points.empty()) out["grid"] = grid_json(suite);
  if (suite.page) out["page"] = page_json(*suite.page);
  if (suite.tuned) out["tune"] = tuning_json(*suite.tuned);
  for (const Cell& cell : suite.cells) {
    if (cell.action == CellAction::stale) continue;
    out["runs"].push_back({{"experiment", cell.experiment.name},
                           {"attention", cell.experiment.attention.label},
                           {"seed", cell.seed},
                           {"folder", cell.folder.path()}});
  }
  for (const AbsentCell& cell : absent_cells(suite)) {
    json entry = {{"experiment", cell.experiment},
                  {"attention", cell.attention},
                  {"seed", cell.seed},
                  {"kind", name_of(cell.gap.kind)},
                  {"reason", cell.gap.reason}};
    if (!cell.folder.empty()) entry["folder"] = cell.folder;
    out["absent"].push_back(std::move(entry));
  }
  return out;
}

json row_json(const Suite& suite, const SuiteRow& row) {
  json entry = {{"experiment", row.experiment}, {"attention", row.attention}};
  for (const PublishedNumbers& one : suite.references) {
    const std::string* value = one.find(row.experiment, row.attention);
    if (value == nullptr) continue;
    const double number = *Node::scalar(*value).as_double();
    if (suite.references.size() == 1) {
      entry["reference"] = number;
    } else {
      entry["references"].push_back(
          {{"source", one.source}, {"metric", one.metric}, {"value", number}});
    }
  }
  for (const auto& [name, summary] : row.metrics) {
    entry["metrics"][name] = {
        {"mean", summary.mean}, {"sd", finite_or_null(summary.sd())}, {"n", summary.count}};
    const MetricInfo metric = metric_or_plain(row.infos, name);
    const auto interval = interval_of(metric, summary);
    if (!is_share_of_runs(metric) || !interval) continue;
    entry["metrics"][name]["interval"] = {interval->low, interval->high};
  }
  for (const auto& [state, count] : row.states)
    entry["states"][std::string(name_of(state))] = count;
  if (row.not_finite > 0) entry["not_finite"] = row.not_finite;
  for (const auto& [absence, count] : row.absences) {
    entry["absences"][std::string(name_of(absence))] = count;
  }
  return entry;
}

/// Adds how a run ended to its entry.
void add_result(const std::string& folder, json& entry) try {
  const RunResult run = read_result(folder);
  const RunStatus& status = run.status;
  if (run.together > 1) entry["together"] = run.together;
  entry["state"] = name_of(status.state);
  entry["seconds"] = status.seconds;
  add_used_time(status, entry);
  for (const auto& [name, value] : status.metrics) {
    entry["metrics"][name] = finite_or_null(value);
  }
  if (!status.reason.empty()) entry["reason"] = status.reason;
} catch (const Error& damage) {
  entry["state"] = name_of(Absence::unreadable);
  entry["reason"] = damage.what();
}

/// What the runs of some rows say, each sentence once.
std::vector<std::string> run_notes(const std::vector<SuiteRow>& rows) {
  std::map<std::string, std::vector<std::string>> by_text;
  for (const SuiteRow& row : rows) {
    for (const std::string& note : row.notes) {
      by_text[note].push_back(fmt::format("{}/{}", row.experiment, row.attention));
    }
  }
  std::vector<std::string> lines;
  lines.reserve(by_text.size());
  for (const auto& [note, names] : by_text) {
    lines.push_back(fmt::format("{}: {}", first_of(names), note));
  }
  return lines;
}

/// "paper"; "paper (fog/accuracy)" where a source has numbers of several metrics.
std::string reference_heading(const std::vector<PublishedNumbers>& all,
                              const PublishedNumbers& one) {
  const auto same = [&](const PublishedNumbers& other) { return other.source == one.source; };
  const bool repeats = std::count_if(all.begin(), all.end(), same) > 1;
  return repeats ? fmt::format("{} ({})", one.source, one.metric) : one.source;
}

/// "85.00 ± 7.07"; with " (2 of 3)" where not all runs that are done have a value: an evaluation
/// that failed, for instance.
TableCell value_cell(const SuiteRow& row, const MetricInfo& column) {
  const auto metric = row.metrics.find(column.name);
  if (metric == row.metrics.end()) return {};
  const auto done = row.states.find(RunState::done);
  return quantity_of(column, metric->second, done == row.states.end() ? 0 : done->second);
}

/// @param values  of a grid's axis, one per row, after its name; empty: no such column
std::string rows_markdown(const Suite& suite, const std::vector<SuiteRow>& rows,
                          const std::vector<std::string>& values,
                          const std::vector<MetricInfo>& columns) {
  Table table;
  table.columns.emplace_back("experiment");
  if (!values.empty()) table.columns.emplace_back(values.front());
  table.columns.emplace_back("attention");
  std::vector<std::vector<const PublishedNumbers*>> references;  // of each column
  for (const MetricInfo& column : columns) {
    table.columns.emplace_back(metric_heading(column));
    references.emplace_back();
    for (const PublishedNumbers& one : suite.references) {
      if (one.metric != column.name) continue;
      references.back().push_back(&one);
      table.columns.emplace_back(reference_heading(suite.references, one));
    }
  }
  table.columns.emplace_back("runs");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const SuiteRow& row = rows[i];
    std::vector<TableCell>& line = table.rows.emplace_back(1, row.experiment);
    if (!values.empty()) line.emplace_back(values[i + 1]);
    line.emplace_back(row.attention + (row.attention == suite.baseline ? " (baseline)" : ""));
    for (std::size_t j = 0; j < columns.size(); ++j) {
      line.push_back(value_cell(row, columns[j]));
      for (const PublishedNumbers* one : references[j]) {
        const std::string* value = one->find(row.experiment, row.attention);
        line.push_back(value == nullptr ? TableCell() : TableCell(*value));
      }
    }
    line.emplace_back(states_text(row));
  }
  return table_text(table);
}

/// Shares of runs, where there are any: they are what many runs are pooled for.
std::string pool_markdown(const Suite& suite, const SuitePool& pool) {
  std::vector<MetricInfo> columns = columns_of(suite, pool.rows);
  std::vector<std::string> values;
  if (std::any_of(columns.begin(), columns.end(), is_share_of_runs)) {
    std::erase_if(columns, [](const MetricInfo& metric) { return !is_share_of_runs(metric); });
  }
  if (!pool.axis.empty()) {
    values = pool.values;
    values.insert(values.begin(), pool.axis);
  }
  const std::string title =
      pool.axis.empty() ? "Over all " + points_text(suite) : "By " + pool.axis;
  return fmt::format("## {}\n\n{}", title, rows_markdown(suite, pool.rows, values, columns));
}

json pool_json(const Suite& suite, const SuitePool& pool) {
  json rows = json::array();
  for (std::size_t i = 0; i < pool.rows.size(); ++i) {
    rows.push_back(row_json(suite, pool.rows[i]));
    if (!pool.axis.empty()) rows.back()["value"] = pool.values[i];
  }
  json out = {{"rows", std::move(rows)}};
  if (!pool.axis.empty()) out["by"] = pool.axis;
  return out;
}

json point_json(const SuitePoint& point) {
  json out = {{"experiment", point.experiment}, {"base", point.base}, {"values", json::object()}};
  for (const auto& [word, value] : point.values) out["values"][word] = value;
  return out;
}

}  // namespace

std::vector<AbsentCell> absent_cells(const Suite& suite) {
  std::vector<AbsentCell> all = suite.absent;
  for (const Cell& cell : suite.cells) {
    if (cell.action != CellAction::stale) continue;
    const Experiment& experiment = cell.experiment;
    const Gap gap{Absence::stale, cell.reason};
    all.push_back(
        {experiment.name, experiment.attention.label, cell.seed, gap, cell.folder.path()});
  }
  return all;
}

namespace {

void add_run(const RunResult& run, std::map<std::string, std::vector<double>>& values,
             SuiteRow& row) {
  for (const MetricInfo& info : run.infos) {
    const bool known = std::count(row.infos.begin(), row.infos.end(), info) > 0;
    if (!known) row.infos.push_back(info);
  }
  row.details.merge(run.details());
  for (const std::string& note : run.notes) row.notes.insert(note);
  if (!run.done()) return;
  row.not_finite += run.not_finite().empty() ? 0 : 1;
  for (const auto& [name, value] : run.status.metrics) {
    if (std::isfinite(value)) values[name].push_back(value);
  }
}

}  // namespace

SuiteRow row_over(const std::vector<const Cell*>& cells, const std::string& experiment,
                  const std::string& attention) {
  SuiteRow row{experiment, attention, {}, {}, {}};
  std::map<std::string, std::vector<double>> values;
  for (const Cell* cell : cells) {
    if (cell->action == CellAction::stale) continue;  // counted among the absent
    try {
      const RunResult run = read_result(cell->folder.path());
      ++row.states[run.status.state];
      add_run(run, values, row);
    } catch (const Error& damage) {
      ++row.absences[Absence::unreadable];
      row.notes.insert(Unreadable{cell->folder.path(), damage.what()}.text());
    }
  }
  for (const auto& [name, list] : values) row.metrics[name] = summary_of(list);
  return row;
}

std::vector<SuiteRow> summarise(const Suite& suite) {
  const std::vector<AbsentCell> absent = absent_cells(suite);
  std::vector<SuiteRow> rows;
  for (const std::string& experiment : suite.experiments) {
    for (const std::string& attention : suite.attentions) {
      SuiteRow row = row_of(suite, experiment, attention);
      for (const AbsentCell& cell : absent) {
        if (is_of(row, cell.experiment, cell.attention)) ++row.absences[cell.gap.kind];
      }
      // A sweep that zips the attention with something has no cells there.
      if (!row.states.empty() || !row.absences.empty()) rows.push_back(std::move(row));
    }
  }
  if (suite.relative) add_relative(*suite.relative, suite.cells, rows);
  return rows;
}

std::string suite_markdown(const Suite& suite, const std::vector<SuiteRow>& rows,
                           const std::string& command) {
  std::string out = fmt::format("# Suite {}\n\n", markdown_line(suite.name));
  for (const SuitePool& pool : pools_of(suite)) out += pool_markdown(suite, pool) + "\n";
  if (suite.points.empty()) {
    out += rows_markdown(suite, rows, {}, columns_of(suite, rows));
  } else if (rows.size() <= kMostRows) {
    out += "## Each point\n\n" + rows_markdown(suite, rows, {}, columns_of(suite, rows));
  } else {
    out += fmt::format("Each point, in {} rows, stands in table.json.\n", rows.size());
  }
  out += suite.points.empty()
             ? "\nmean ± sample standard deviation over the seeds that are done\n"
             : "\nmean ± sample standard deviation over the runs that are done; shares with "
               "Wilson's interval of 95 %\n";
  if (suite.relative) {
    out += fmt::format("\n{}: of {} as {} has it with the same attention and seed\n",
                       relative_name(suite.relative->metric) + ", ...", suite.relative->metric,
                       suite.relative->to);
  }
  if (suite.tuned) {
    out += "\n## Tries before the seeds\n\n" + table_text(tuning_table(suite.tuned->attentions)) +
           "\nscores on the validation split; each attention's seeds ran with its best\n";
  }
  const std::vector<std::string> absences = absence_lines(absent_cells(suite));
  if (!absences.empty()) out += fmt::format("\nNot there:\n\n- {}\n", join(absences, "\n- "));
  const auto line = [](const std::string& note) { return one_line(note, kLongestMessageLine); };
  for (const std::string& note : suite.notes) out += fmt::format("\n**{}**\n", line(note));
  for (const std::string& note : run_notes(rows)) out += fmt::format("\n- {}\n", line(note));
  return fmt::format("{}\nRepeat it with\n\n    {}\n", out, command);
}

std::string suite_json(const Suite& suite, const std::vector<SuiteRow>& rows,
                       const std::string& command) {
  json out = record_of(suite, command);
  out["rows"] = json::array();
  for (const SuiteRow& row : rows) out["rows"].push_back(row_json(suite, row));
  for (const SuitePool& pool : pools_of(suite)) out["pools"].push_back(pool_json(suite, pool));
  for (const SuitePoint& point : suite.points) out["points"].push_back(point_json(point));
  bool all_read = std::none_of(rows.begin(), rows.end(), [](const SuiteRow& row) {
    return row.absences.count(Absence::unreadable) > 0;
  });
  for (json& entry : out["runs"]) {
    add_result(entry.at("folder").get<std::string>(), entry);
    all_read &= entry.at("state") != name_of(Absence::unreadable);
  }
  out["complete"] = all_read && complete(suite);
  return json_text(out);
}

std::string suite_record(const Suite& suite, const std::string& command) {
  return json_text(record_of(suite, command));
}

bool complete(const Suite& suite) {
  if (suite.tries_left) return false;
  return std::all_of(suite.cells.begin(), suite.cells.end(), [](const Cell& cell) {
    try {
      return cell.action != CellAction::stale && cell.folder.status().finished();
    } catch (const Error&) {
      return false;
    }
  });
}

}  // namespace attnlab
