// Answers of models to graphs, and what tasks measure of them.
#pragma once

#include <gtest/gtest.h>
#include <cmath>
#include <limits>

#include "tests/support/plugins.h"

namespace attnlab::graph_answers {

inline constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();

inline DatasetInfo data_with(const std::vector<FieldInfo>& fields, std::int64_t classes = 0) {
  DatasetInfo data;
  data.name = "graphs";
  data.fields = fields;
  data.classes = classes;
  return data;
}

/// Outputs and labels that one row of each is an example of.
struct Answered {
  NamedTensors outputs;
  Batch batch;
};

inline Answered table(const std::vector<double>& logits, const std::vector<float>& labels,
                      std::int64_t targets) {
  Answered answered;
  answered.outputs.set("logits", at::tensor(logits, at::kDouble).view({-1, targets}));
  answered.batch.fields.set("labels", at::tensor(labels, at::kFloat).view({-1, targets}));
  answered.batch.size = answered.batch.fields.at("labels").size(0);
  return answered;
}

inline Metrics measured(const Task& task, const std::vector<Answered>& all) {
  const auto meter = task.meter();
  for (const Answered& one : all) meter->add(one.outputs, one.batch);
  return meter->result();
}

/// What is left of the metrics where some have no value.
inline Metrics others(const Task& task, const Answered& all) {
  try {
    measured(task, {all});
  } catch (const UndefinedMetrics& some) {
    return some.others();
  }
  ADD_FAILURE() << "all have one";
  return {};
}

inline double cross_entropy(double logit, double label) {
  const double p = 1 / (1 + std::exp(-logit));
  return -label * std::log(p) - (1 - label) * std::log(1 - p);
}

inline Answered nodes(const std::vector<double>& logits, const std::vector<std::int64_t>& classes,
                      std::int64_t count) {
  Answered answered;
  answered.outputs.set("logits@node", at::tensor(logits, at::kDouble).view({-1, count}));
  answered.batch.fields.set("class@node", at::tensor(classes, at::kLong));
  answered.batch.size = 1;
  return answered;
}

}  // namespace attnlab::graph_answers
