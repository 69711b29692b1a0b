// What checks of tasks begin with: a task, a model for it, and batches.
#pragma once

#include <string>
#include <vector>

#include "framework/conformance/model_fixture.h"
#include "framework/conformance/task_conformance.h"

namespace attnlab::conformance {

/// A model and a task in float64.
struct Pair {
  std::shared_ptr<Model> model;
  std::shared_ptr<Task> task;
};

class TaskFixture {
 public:
  /// @throws what the task throws where it cannot be built for the problem.
  explicit TaskFixture(const TaskSubject& subject);

  const TaskSubject& subject() const { return subject_; }
  const Dataset& data() const { return *problem_.data; }
  /// In training mode or in evaluation mode; the same numbers for the same seed.
  Pair pair(bool training, std::uint64_t seed = 1) const;
  /// Training examples in float64.
  Batch batch(std::int64_t first, std::int64_t size) const;

  /// The loss of one training step. @param carried  may be null
  static Tensor step(const Pair& pair, const Batch& batch, std::int64_t number = 0);
  /// The task's metrics of these batches.
  Metrics evaluate(const Pair& pair, const std::vector<Batch>& batches) const;
  /// The fields that the task takes and that hold categories, by name.
  std::vector<std::string> labels() const;

 private:
  const TaskSubject& subject_;
  Problem problem_;
};

}  // namespace attnlab::conformance
