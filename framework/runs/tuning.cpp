#include "framework/runs/tuning.h"

#include <fmt/format.h>

#include <map>

#include "framework/base/error.h"
#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/runs/metric_infos.h"
#include "framework/runs/run_records.h"

namespace attnlab {
namespace {

using nlohmann::json;

json try_json(const TuningTry& one) {
  json values = json::array();
  for (const auto& [key, value] : one.values) values.push_back({key, value});
  json out = {{"point", one.point},
              {"values", std::move(values)},
              {"state", name_of(one.state)},
              {"seconds", one.seconds},
              {"folder", one.folder}};
  if (one.score) out["score"] = *one.score;
  return out;
}

TuningTry read_try(const json& in) {
  TuningTry one;
  one.point = in.at("point").get<std::string>();
  for (const json& value : in.at("values")) {
    one.values.emplace_back(value.at(0).get<std::string>(), value.at(1).get<std::string>());
  }
  one.state = parse_state(in.at("state").get<std::string>());
  one.seconds = in.at("seconds").get<double>();
  one.folder = in.at("folder").get<std::string>();
  if (in.contains("score")) one.score = in.at("score").get<double>();
  return one;
}

TunedAttention read_attention(const json& in) {
  TunedAttention one;
  one.experiment = in.at("experiment").get<std::string>();
  one.attention = in.at("attention").get<std::string>();
  const std::vector<MetricInfo> metric = read_metric_infos(in.at("metric"));
  if (!metric.empty()) one.metric = metric.front();
  for (const json& entry : in.at("tries")) one.tries.push_back(read_try(entry));
  if (in.contains("chosen")) one.chosen = in.at("chosen").get<std::size_t>();
  if (one.chosen && *one.chosen >= one.tries.size()) {
    throw DataError("tune: the chosen try is not one of the tries");
  }
  one.edges = in.at("edges").get<std::vector<std::string>>();
  one.waits = in.value("waits", "");
  return one;
}

}  // namespace

double TunedAttention::seconds() const {
  double sum = 0;
  for (const TuningTry& one : tries) sum += one.seconds;
  return sum;
}

std::string TunedAttention::label() const { return fmt::format("{}/{}", experiment, attention); }

double TuningRecord::seconds() const {
  double sum = 0;
  for (const TunedAttention& one : attentions) sum += one.seconds();
  return sum;
}

std::vector<std::string> TuningRecord::notes() const {
  std::size_t tries = 0;
  std::map<std::string, std::vector<std::string>> at_edge;  // labels, by what is said of them
  for (const TunedAttention& one : attentions) {
    tries += one.tries.size();
    for (const std::string& edge : one.edges) at_edge[edge].push_back(one.label());
  }
  std::vector<std::string> out = {fmt::format(
      "tune: each attention had {} tries of {} on each experiment, with seed {}, judged on the "
      "validation split; its seeds ran with the best. The {} tries took {}, which no other number "
      "here counts",
      budget, join(keys, ", "), seed, tries, duration(seconds()))};
  for (const auto& [edge, labels] : at_edge) {
    out.push_back(fmt::format("tune: {}: the best, {}; a better one may lie beyond it",
                              first_of(labels), edge));
  }
  return out;
}

json tuned_json(const TunedAttention& one) {
  std::vector<MetricInfo> metric;
  if (!one.metric.name.empty()) metric.push_back(one.metric);
  json out = {{"experiment", one.experiment},
              {"attention", one.attention},
              {"metric", metric_infos_json(metric)},
              {"tries", json::array()},
              {"edges", one.edges},
              {"seconds", one.seconds()}};
  for (const TuningTry& item : one.tries) out["tries"].push_back(try_json(item));
  if (one.chosen) out["chosen"] = *one.chosen;
  if (!one.waits.empty()) out["waits"] = one.waits;
  return out;
}

json tuning_json(const TuningRecord& record) {
  json out = {{"keys", record.keys},         {"seed", record.seed},
              {"budget", record.budget},     {"split", "validation"},
              {"seconds", record.seconds()}, {"attentions", json::array()}};
  for (const TunedAttention& one : record.attentions) out["attentions"].push_back(tuned_json(one));
  return out;
}

TuningRecord read_tuning(const json& in) {
  TuningRecord record;
  record.keys = in.at("keys").get<std::vector<std::string>>();
  record.seed = in.at("seed").get<std::int64_t>();
  record.budget = in.at("budget").get<std::int64_t>();
  for (const json& one : in.at("attentions")) record.attentions.push_back(read_attention(one));
  return record;
}

}  // namespace attnlab
