// Runs of the training loop, on parts of a few numbers.
#pragma once

#include <memory>
#include <string>

#include "framework/train/training.h"
#include "tests/support/tiny_parts.h"

namespace attnlab::testing {

class TrainingLoop : public TinyRuns {
 protected:
  /// Steps in so many parts leave the weights that whole steps leave.
  void expect_parts_equal_whole(TinyParts parts, std::int64_t accumulate) const {
    parts.model = [] { return std::make_shared<Line>(/*dropout=*/0); };
    TrainOptions options = tiny_options();
    train(tiny_run(parts, options), "whole");
    options.accumulate = accumulate;
    const RunStatus status = train(tiny_run(parts, options), "parts");
    ASSERT_EQ(status.state, RunState::done) << status.reason;
    const Tensor whole = checkpoint("whole").tensors.at("model.weight");
    const Tensor part = checkpoint("parts").tensors.at("model.weight");
    EXPECT_LT((whole - part).abs().max().item<double>(), 1e-5);
  }
};

/// The clouds with a task that is made of some arguments.
template <class OwnTask, class... Given>
TinyParts clouds_with(const Given&... given) {
  TinyParts parts = clouds();
  parts.task = [given...] { return std::make_shared<OwnTask>(given...); };
  return parts;
}

}  // namespace attnlab::testing
