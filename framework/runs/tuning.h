// What the tries of a suite's `tune:` came to: how each scored, and with which value each
// attention's seeds ran. A part of the suite's record (suite.json and table.json, member `tune`).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/metric.h"
#include "framework/runs/run_folder.h"

namespace attnlab {

struct TuningTry {
  std::string point;                                        ///< "lr=0.001, weight_decay=0.1"
  std::vector<std::pair<std::string, std::string>> values;  ///< {"train.optimizer.lr", "0.001"}
  RunState state = RunState::pending;
  /// On the validation split, by the metric that chooses the epoch; empty of a try that diverged or
  /// has not ended.
  std::optional<double> score;
  double seconds = 0;  ///< that it took
  std::string folder;
};

/// The tries of one attention on one experiment.
struct TunedAttention {
  std::string experiment, attention;  ///< the attention's label
  MetricInfo metric;                  ///< that tries are judged by; no name: none has ended
  std::vector<TuningTry> tries;
  std::optional<std::size_t> chosen;  ///< place of the best one
  /// "train.optimizer.lr = 0.001, is the largest value tried": where the best lies at an edge.
  std::vector<std::string> edges;
  std::string waits;  ///< what keeps its seeds from running; empty: nothing

  double seconds() const;
  /// "vit/quest".
  std::string label() const;
};

struct TuningRecord {
  std::vector<std::string> keys;  ///< that are varied, in full: "train.optimizer.lr"
  std::int64_t seed = 0;          ///< of the tries
  std::int64_t budget = 0;        ///< tries of each attention on each experiment
  std::vector<TunedAttention> attentions;

  double seconds() const;
  /// What every reader of the suite's results must know: how many tries, with which seed, at what
  /// cost, and whose best value lies at the edge.
  std::vector<std::string> notes() const;
};

nlohmann::json tuned_json(const TunedAttention& one);
nlohmann::json tuning_json(const TuningRecord& record);
/// @throws nlohmann::json::exception or DataError for another form than `tuning_json` writes.
TuningRecord read_tuning(const nlohmann::json& in);

}  // namespace attnlab
