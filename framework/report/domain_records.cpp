// The page over domains as Markdown and as JSON.
#include <fmt/format.h>

#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/comparison/table.h"
#include "framework/report/domain_report.h"
#include "framework/report/markup.h"
#include "framework/runs/metric_infos.h"

namespace attnlab {
namespace {

using nlohmann::json;
using Rows = std::vector<std::vector<std::string>>;

Rows result_rows(const DomainPage& page) {
  Rows rows = {{"attention"}};
  for (std::size_t i = 0; i < page.columns.size(); ++i) {
    rows[0].push_back(column_label(page, i));
  }
  for (const DomainRow& row : page.rows) {
    rows.push_back({row.attention + (row.attention == page.baseline ? " (baseline)" : "")});
    for (std::size_t i = 0; i < page.columns.size(); ++i) {
      rows.back().push_back(cell_line(page, row, i));
    }
  }
  return rows;
}

Rows summary_rows(const DomainPage& page) {
  Rows rows = {{"attention", "summary over domains", "domains",
                "worst column, by standardised difference", "left out", "time", "memory",
                "parameters", "FLOPs"}};
  for (const DomainRow& row : page.rows) {
    if (row.attention == page.baseline) continue;
    std::string worst = "-";
    if (row.worst)
      worst = page.columns[*row.worst].name() + ": " + cell_line(page, row, *row.worst);
    rows.push_back({row.attention, summary_cell_text(row), std::to_string(row.effects.size()),
                    worst, join(row.without_effect, "; "), ratio_text(row.costs.time),
                    ratio_text(row.costs.memory), ratio_text(row.costs.parameters),
                    ratio_text(row.costs.flops)});
  }
  return rows;
}

Rows effect_rows(const DomainPage& page) {
  const std::vector<std::string> domains = quality_domains(page);
  Rows rows = {{"attention"}};
  rows[0].insert(rows[0].end(), domains.begin(), domains.end());
  for (const DomainRow& row : page.rows) {
    if (row.attention == page.baseline) continue;
    rows.push_back({row.attention});
    for (const std::string& domain : domains) rows.back().push_back(effect_text(row, domain));
  }
  return rows;
}

Rows claim_rows(const DomainPage& page) {
  Rows rows = {{"attention", "claim", "source", "column", "here", "outcome"}};
  for (const ClaimCheck& one : page.claims) {
    rows.push_back({one.claim.attention,
                    (one.claim.better ? "better: " : "worse: ") + one.claim.text, one.claim.source,
                    one.claim.experiment + ", " + one.claim.metric, one.found,
                    std::string(name_of(one.outcome))});
  }
  return rows;
}

std::string bullets(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += "- " + markdown_line(line) + "\n";
  return out;
}

json optional_json(const std::optional<double>& value) {
  return value ? finite_or_null(*value) : json(nullptr);
}
json optional_json(const std::optional<Interval>& value) {
  return value ? json::array({finite_or_null(value->low), finite_or_null(value->high)})
               : json(nullptr);
}

json cell_json(const DomainPage& page, const DomainRow& row, std::size_t column) {
  const DomainCell& cell = row.cells[column];
  json out = {{"column", page.columns[column].name()},
              {"seeds", cell.row.seeds.size()},
              {"values", cell.row.summary.count},
              {"diverged", cell.diverged},
              {"missing", missing_text(page, row, column)},
              {"baseline_diverged", cell.baseline_diverged},
              {"stored", cell.stored},
              {"verdict", cell_verdict(page, row, column)}};
  if (cell.row.summary.count > 0) {
    out["mean"] = finite_or_null(cell.row.summary.mean);
    out["sd"] = finite_or_null(cell.row.summary.sd());
  }
  if (cell.row.gap) out["absent"] = cell.row.gap.text();
  if (!cell.row.contrast) return out;
  const Contrast& contrast = *cell.row.contrast;
  out["pairs"] = contrast.difference.count;
  if (contrast.difference.count > 0) out["difference"] = finite_or_null(contrast.difference.mean);
  out["interval"] = optional_json(contrast.interval);
  if (cell.is_tested()) {
    out["p"] = contrast.test->p_value;
    out["p_adjusted"] = contrast.adjusted_p;
  }
  if (cell.effect) {
    out["effect"] = {{"g", cell.effect->value}, {"variance", cell.effect->variance}};
  }
  return out;
}

json row_json(const DomainPage& page, const DomainRow& row) {
  json out = {{"attention", row.attention},
              {"cells", json::array()},
              {"without_effect", row.without_effect},
              {"costs",
               {{"time", optional_json(row.costs.time)},
                {"memory", optional_json(row.costs.memory)},
                {"parameters", optional_json(row.costs.parameters)},
                {"flops", optional_json(row.costs.flops)}}}};
  for (std::size_t i = 0; i < page.columns.size(); ++i) {
    out["cells"].push_back(cell_json(page, row, i));
  }
  for (const auto& [domain, effect] : row.effects) {
    out["effects"][domain] = {{"g", effect.value}, {"variance", effect.variance}};
  }
  if (!row.summary) return out;
  const RandomEffects& all = *row.summary;
  out["summary"] = {{"domains", all.count},
                    {"mean", all.mean},
                    {"standard_error", all.standard_error},
                    {"interval", optional_json(all.interval)},
                    {"prediction", optional_json(all.prediction)},
                    {"tau_squared", all.tau_squared},
                    {"rough_variances", row.rough},
                    {"p", all.p_value}};
  return out;
}

json ranking_json(const Ranking& ranking) {
  return {{"attentions", ranking.attentions},
          {"domains", ranking.experiments},
          {"mean_ranks", ranking.test.mean_ranks},
          {"chi_squared", ranking.test.chi_squared},
          {"p", ranking.test.p_value()},
          {"critical_difference", ranking.critical_difference}};
}

}  // namespace

std::string domain_markdown(const DomainPage& page, const PageStamp& stamp) {
  std::string out = fmt::format("# {}\n\n", markdown_line(page.title));
  for (const std::string& note : page.notes) {
    if (note.rfind("WARNING", 0) == 0) out += fmt::format("**{}**\n\n", markdown_line(note));
  }
  if (!page.differences.empty())
    out += "**NOT A FAIR COMPARISON: more than the attention differs.**\n\n";
  out += table_text(result_rows(page));
  out += "\n## Over domains, and what it costs\n\n" + table_text(summary_rows(page));
  out += "\nEach domain's standardised difference (Hedges' g ± standard error):\n\n" +
         table_text(effect_rows(page));
  out += "\n## Ranks over domains\n\n";
  if (page.ranking) {
    out += fmt::format("{}Friedman's test over {}: {}\n",
                       fenced(rank_diagram(page.ranking->attentions, page.ranking->test.mean_ranks,
                                           page.ranking->critical_difference)),
                       markdown_line(join(page.ranking->experiments, ", ")),
                       p_phrase(page.ranking->test.p_value()));
  } else {
    out += page.no_ranking + "\n";
  }
  if (!page.left_out.empty()) out += "\nLeft out of the ranks:\n\n" + bullets(page.left_out);
  if (!page.claims.empty()) out += "\n## Published claims\n\n" + table_text(claim_rows(page));
  const std::vector<std::string> missing = page_absences(page);
  if (!missing.empty()) out += "\n## What is missing\n\n" + bullets(missing);
  out += "\n## How to read it\n\n" + bullets(page_assumptions(page));
  if (!page.notes.empty()) out += "\n## Notes\n\n" + bullets(page.notes);
  return out + fmt::format("\nattnlab {}, {}: `{}`\n", ATTNLAB_VERSION, stamp.date, stamp.command);
}

std::string domain_json(const DomainPage& page, const PageStamp& stamp) {
  json out = {{"schema", 1},
              {"title", page.title},
              {"baseline", page.baseline},
              {"command", stamp.command},
              {"date", stamp.date},
              {"compare",
               {{"test", page.options.test},
                {"correct", page.options.correct},
                {"level", page.options.level}}},
              {"notes", page.notes},
              {"left_out", page.left_out},
              {"missing", page_absences(page)},
              {"assumptions", page_assumptions(page)},
              {"columns", json::array()},
              {"rows", json::array()},
              {"claims", json::array()},
              {"differences", json::array()}};
  for (std::size_t i = 0; i < page.columns.size(); ++i) {
    const PageColumn& column = page.columns[i];
    out["columns"].push_back({{"name", column.name()},
                              {"domain", column.domain},
                              {"experiment", column.experiment},
                              {"role", name_of(column.role)},
                              {"metric", page.metrics[i].name},
                              {"better", name_of(page.metrics[i].better)},
                              {"unit", page.metrics[i].unit}});
  }
  for (const DomainRow& row : page.rows) out["rows"].push_back(row_json(page, row));
  for (const ClaimCheck& one : page.claims) {
    out["claims"].push_back({{"attention", one.claim.attention},
                             {"experiment", one.claim.experiment},
                             {"metric", one.claim.metric},
                             {"says", one.claim.better ? "better" : "worse"},
                             {"source", one.claim.source},
                             {"text", one.claim.text},
                             {"found", one.found},
                             {"outcome", name_of(one.outcome)}});
  }
  for (const ConfigDifference& one : page.differences) out["differences"].push_back(one.text());
  if (page.ranking) {
    out["ranking"] = ranking_json(*page.ranking);
  } else {
    out["no_ranking"] = page.no_ranking;
  }
  return json_text(out);
}

}  // namespace attnlab
