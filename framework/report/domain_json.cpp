// The page over domains as JSON.
#include "framework/base/json.h"
#include "framework/report/domain_report.h"
#include "framework/runs/metric_infos.h"

namespace attnlab {
namespace {

using nlohmann::json;
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
  for (const TunedAttention& one : page.tuned) out["tuned"].push_back(tuned_json(one));
  if (page.ranking) {
    out["ranking"] = ranking_json(*page.ranking);
  } else {
    out["no_ranking"] = page.no_ranking;
  }
  return json_text(out);
}

}  // namespace attnlab
