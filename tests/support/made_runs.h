// What made-up runs say about their metrics.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "framework/base/files.h"
#include "framework/base/json.h"
#include "framework/runs/evaluations.h"
#include "framework/runs/metric_infos.h"
#include "framework/runs/run_folder.h"

namespace attnlab::testing {

/// The metrics of a made-up task; its headline is the accuracy.
inline const std::vector<MetricInfo> kMadeMetrics = {
    {"accuracy", Better::higher, "share"},
    {"nll", Better::lower, "nats"},
    {"outcome/correct", Better::higher, "share of runs"},
};

/// environment.json of a run whose task measures `metrics`. @param more  further members
inline void write_environment(const RunFolder& folder,
                              const nlohmann::json& more = nlohmann::json::object(),
                              const std::vector<MetricInfo>& metrics = kMadeMetrics) {
  nlohmann::json environment = more;
  add_metrics(metrics, "examples", environment);
  write_file(folder.file("environment.json"), environment.dump());
}

/// What an evaluation of the test split found; done, unless a reason says why it failed.
inline EvaluationRecord evaluated(const std::string& entry,
                                  const std::map<std::string, double>& metrics,
                                  const std::string& reason = "",
                                  const std::vector<MetricInfo>& infos = kMadeMetrics) {
  return {entry, "0123456789abcdef", "test", reason.empty(), reason, metrics, infos};
}

}  // namespace attnlab::testing
