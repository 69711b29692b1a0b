// Small models whose weakest directions are known, for attacks to find.
#pragma once

#include <memory>
#include <utility>

#include "framework/contracts/dataset.h"
#include "framework/contracts/model.h"
#include "tests/support/noise.h"

namespace attnlab::testing {

inline constexpr std::int64_t kAttackedClasses = 5, kAttackedPixels = 8;

inline DatasetInfo small_images(bool normalised = true) {
  DatasetInfo info;
  info.name = "small images";
  info.classes = kAttackedClasses;
  info.fields = {{"image", {1, 2, 4}, at::kFloat}, {"class", {}, at::kLong}};
  if (normalised) {
    info.fields[0].mean = {0.5};
    info.fields[0].deviation = {0.25};
  }
  return info;
}

/// logits = W2 f(W1 x); without W1 linear. It reads normalised images.
class Known final : public Model {
 public:
  explicit Known(Tensor weight, Tensor inner = {}) : inner_(std::move(inner)) {
    weight_ = register_parameter("weight", std::move(weight));
  }
  NamedTensors forward(const Batch& batch, ForwardPass&) override {
    Tensor x = batch.fields.at("image").flatten(1);
    if (steps > 0) x = (x * steps).round() / steps;  // its gradient is 0
    if (inner_.defined()) x = at::linear(x, inner_).tanh();
    return {{"logits", at::linear(x, weight_)}};
  }
  double steps = 0;

 private:
  Tensor weight_, inner_;
};

inline std::shared_ptr<Known> linear_model() {
  return std::make_shared<Known>(noise({kAttackedClasses, kAttackedPixels}, 3, at::kDouble));
}

inline std::shared_ptr<Known> curved_model() {
  return std::make_shared<Known>(noise({kAttackedClasses, 12}, 4, at::kDouble) * 2,
                                 noise({12, kAttackedPixels}, 5, at::kDouble) * 2);
}

}  // namespace attnlab::testing
