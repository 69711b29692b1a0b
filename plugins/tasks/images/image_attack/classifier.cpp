#include "plugins/tasks/images/image_attack/classifier.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

namespace attnlab {
namespace {

/// A number for each channel, beside images.
Tensor of_channels(const std::vector<double>& values, const Tensor& like) {
  return at::tensor(values, at::kDouble)
      .to(like.options())
      .view({1, static_cast<std::int64_t>(values.size()), 1, 1});
}

}  // namespace

Classifier::Classifier(Model& model, const FieldInfo& image, bool pixel_space, std::int64_t draws)
    : model_(model),
      mean_(image.mean),
      deviation_(image.deviation),
      pixel_space_(pixel_space),
      draws_(draws) {
  if (pixel_space && mean_.empty()) {
    throw DataError(
        "the dataset does not say how its images are normalised, so there is no pixel space; set "
        "task.space to normalised");
  }
  for (const Tensor& parameter : model.parameters()) {
    if (!parameter.requires_grad()) continue;
    trained_.push_back(parameter);
    parameter.set_requires_grad(false);
  }
}

Classifier::~Classifier() {
  for (const Tensor& parameter : trained_) parameter.set_requires_grad(true);
}

Tensor Classifier::entered(const Tensor& field) const {
  if (!pixel_space_) return field;
  return field * of_channels(deviation_, field) + of_channels(mean_, field);
}

Tensor Classifier::left(const Tensor& images) const {
  if (!pixel_space_) return images;
  return (images - of_channels(mean_, images)) / of_channels(deviation_, images);
}

std::pair<Tensor, Tensor> Classifier::picture_range(const Tensor& like) const {
  if (mean_.empty()) {
    throw DataError(
        "the dataset does not say how its images are normalised, so the range of a picture is not "
        "known; set task.protocol to published, which does without");
  }
  const Tensor mean = of_channels(mean_, like), deviation = of_channels(deviation_, like);
  if (pixel_space_) return {at::zeros_like(mean), at::ones_like(mean)};
  return {-mean / deviation, (1 - mean) / deviation};
}

Tensor Classifier::forward(const Tensor& images) const {
  Batch batch;
  batch.size = images.size(0);
  batch.fields.set("image", left(images));
  queries_ += static_cast<double>(batch.size);
  ForwardPass pass;
  return model_.forward(batch, pass).at("logits");
}

Tensor Classifier::logits(const Tensor& images) const {
  const c10::NoGradGuard no_grad;
  Tensor sum = forward(images);
  for (std::int64_t draw = 1; draw < draws_; ++draw) sum = sum + forward(images);
  return sum / static_cast<double>(draws_);
}

Tensor Classifier::one_draw(const Tensor& images) const {
  const c10::NoGradGuard no_grad;
  return forward(images);
}

bool Classifier::varies(const Tensor& images) const {
  const double before = queries_;
  const Tensor one = one_draw(images), other = one_draw(images);
  queries_ = before;
  return !one.allclose(other, 1e-3, 1e-4, /*equal_nan=*/true);
}

Classifier::Step Classifier::step(const Tensor& images, const LogitLoss& loss) const {
  Step mean;
  for (std::int64_t draw = 0; draw < draws_; ++draw) {
    const at::AutoGradMode gradients(true);
    const Tensor leaf = images.detach().clone().set_requires_grad(true);
    const Tensor logits = forward(leaf), losses = loss(logits);
    // A gradient that is not finite leads nowhere; what it would lead to is not a picture.
    const Tensor gradient =
        at::nan_to_num(torch::autograd::grad({losses.sum()}, {leaf})[0], 0.0, 0.0, 0.0);
    const double share = 1 / static_cast<double>(draws_);
    const auto add = [&](Tensor& sum, const Tensor& value) {
      sum = sum.defined() ? sum + share * value.detach() : share * value.detach();
    };
    add(mean.logits, logits);
    add(mean.loss, losses);
    add(mean.gradient, gradient);
  }
  return mean;
}

}  // namespace attnlab
