// Pictures and models made by hand, and what tasks of images measure of them.
#pragma once

#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "tests/support/plugins.h"

namespace attnlab::made_pictures {

inline DatasetInfo pictures(bool boxes = false) {
  DatasetInfo info;
  info.name = "pictures";
  info.classes = 3;
  info.fields = {{"image", {1, 8, 12}, at::kFloat}, {"class", {}, at::kLong}};
  if (boxes) info.fields.push_back({"boxes@box", {-1, 4}, at::kFloat});
  return info;
}

inline Batch batch_of(const Tensor& image) {
  Batch batch;
  batch.size = image.size(0);
  batch.fields.set("image", image);
  return batch;
}

inline void record(AttentionTrace& trace, const Tensor& weights, const Tensor& logits = {}) {
  LayerTrace layer;
  layer.weights = weights;
  layer.logits = logits;
  trace.layers.push_back(layer);
}

/// What a task measures of a model in one batch.
inline Metrics measured(const std::string& task_id, const std::string& options, Model& model,
                        const Batch& batch, const DatasetInfo& info) {
  const auto task = testing::make_task(task_id, info, "{" + options + "}");
  Evaluation evaluation{model, info, Split::test, RandomStreams(1), {}};
  evaluation.batches = [&](Split, const std::function<void(const Batch&)>& use) { use(batch); };
  const c10::NoGradGuard no_grad;
  return task->evaluate(evaluation);
}

/// Looks at the first patch of two rows of three, and answers class 1 as far as it is bright.
class FirstPatch final : public Model {
 public:
  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    const Tensor image = batch.fields.at("image");
    const at::AutoGradMode on(pass.trace != nullptr);
    Tensor weights = at::zeros({batch.size, 1, 7, 7}, image.options());
    weights.select(3, 1).fill_(1);
    const Tensor bright = image.narrow(2, 0, 4).narrow(3, 0, 4).mean({1, 2, 3}).view({-1, 1});
    if (pass.trace != nullptr) {
      weights.set_requires_grad(pass.trace->attached);
      record(*pass.trace, weights, at::zeros_like(weights));
    }
    const Tensor seen = weights.select(1, 0).select(1, 0).select(1, 1).view({-1, 1}) * bright;
    return {{"logits", at::cat({at::zeros_like(seen), 8 * seen, at::zeros_like(seen)}, 1)}};
  }
};

inline Batch bright(std::int64_t count) {
  Batch batch = batch_of(at::ones({count, 1, 8, 12}));
  batch.fields.set("class", at::ones({count}, at::kLong));
  return batch;
}

}  // namespace attnlab::made_pictures
