// Tasks made wrong on purpose, each in one line of a test.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/conformance/task_conformance.h"
#include "framework/eval/classification.h"

namespace attnlab::conformance::testing {

class WrongTask;

/// What is done otherwise than by a classification task; empty: nothing.
struct Otherwise {
  std::function<Tensor(WrongTask&, TrainingStep&)> step;
  std::function<Tensor(const NamedTensors&, const Batch&)> loss;
  std::function<Tensor(const Tensor& losses)> losses;
  std::function<double(const Batch&)> weight;
  std::function<std::vector<MetricInfo>(std::vector<MetricInfo>)> metrics;
  std::function<Metrics(const WrongTask&, Evaluation&)> evaluate;
  std::function<void(WrongTask&)> prepare;  ///< when it is built
};

class WrongTask : public ClassificationTask {
 public:
  WrongTask(const Otherwise& otherwise, const TaskSetup& setup)
      : ClassificationTask({}, setup), otherwise_(otherwise) {
    if (otherwise_.prepare) otherwise_.prepare(*this);
  }

  Tensor step(TrainingStep& step) override {
    return otherwise_.step ? otherwise_.step(*this, step) : sound_step(step);
  }
  Tensor loss(const NamedTensors& outputs, const Batch& batch) const override {
    return otherwise_.loss ? otherwise_.loss(outputs, batch)
                           : ClassificationTask::loss(outputs, batch);
  }
  Tensor losses(const NamedTensors& outputs, const Batch& batch,
                std::int64_t members) const override {
    const Tensor sound = ClassificationTask::losses(outputs, batch, members);
    return otherwise_.losses ? otherwise_.losses(sound) : sound;
  }
  double weight(const Batch& batch) const override {
    return otherwise_.weight ? otherwise_.weight(batch) : ClassificationTask::weight(batch);
  }
  std::vector<MetricInfo> metrics() const override {
    std::vector<MetricInfo> sound = ClassificationTask::metrics();
    return otherwise_.metrics ? otherwise_.metrics(std::move(sound)) : sound;
  }
  Metrics evaluate(Evaluation& evaluation) const override {
    return otherwise_.evaluate ? otherwise_.evaluate(*this, evaluation)
                               : sound_evaluate(evaluation);
  }

  Tensor sound_step(TrainingStep& step) { return ClassificationTask::step(step); }
  Metrics sound_evaluate(Evaluation& evaluation) const {
    return ClassificationTask::evaluate(evaluation);
  }

  Tensor kept;       ///< for those that keep what they must not
  double count = 0;  ///< for those that count their steps

 private:
  Otherwise otherwise_;
};

inline TaskSubject task_subject(const Otherwise& otherwise = {}) {
  TaskSubject subject;
  subject.build = [=](const TaskSetup& setup) {
    return std::make_shared<WrongTask>(otherwise, setup);
  };
  subject.takes = {"logits", "class"};
  subject.ensemble = true;
  return subject;
}

/// The message of a check that must fail.
inline std::string failure(std::string_view check, const Otherwise& otherwise) {
  const CheckResult result = run_check(check, task_subject(otherwise));
  EXPECT_EQ(result.outcome, Outcome::failed) << check << ": " << result.message;
  return result.message;
}

}  // namespace attnlab::conformance::testing
