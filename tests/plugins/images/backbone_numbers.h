// Classifiers with weights by rule, whose logits tests/references/backbones.py asks torchvision
// for.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/support/plugins.h"

namespace attnlab::testing {

inline constexpr std::int64_t kSide = 64, kClasses = 5;

/// Images [3, 64, 64] of five classes.
inline DatasetInfo backbone_images() {
  DatasetInfo data;
  data.name = "waves";
  data.fields = {{"image", {3, kSide, kSide}, at::kFloat}, {"class", {}, at::kLong}};
  data.classes = kClasses;
  return data;
}

/// What the reference fills a parameter of that name with.
inline Tensor by_rule(const std::string& name, at::IntArrayRef sizes) {
  const int phase = std::accumulate(name.begin(), name.end(), 0) % 97;
  const std::int64_t count = c10::multiply_integers(sizes);
  const Tensor waves = (at::arange(count, at::kDouble) * 0.7 + phase).sin().view(sizes);
  if (name.ends_with("logit_scale")) return 2 + 0.5 * waves;
  if (sizes.size() > 1) return waves * std::sqrt(2.0 * double(sizes[0]) / double(count));
  if (name.ends_with("running_var")) return 1 + 0.5 * waves;
  return 0.1 * waves + (name.ends_with("weight") ? 1 : 0);
}

/// The reference's image.
inline Tensor waves() {
  return (at::arange(3 * kSide * kSide, at::kDouble) * 0.05).sin().view({1, 3, kSide, kSide});
}

/// The logits of the reference's image. @param name_of  torchvision's name of a parameter
template <class NameOf>
Tensor logits_by_rule(Model& model, const NameOf& name_of) {
  const at::NoGradGuard no_gradients;
  model.to(at::kDouble);
  model.eval();
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const auto& item : model.named_parameters()) tensors.emplace_back(item.key(), item.value());
  for (const auto& item : model.named_buffers()) {
    if (item.key().find("running") != std::string::npos) {
      tensors.emplace_back(item.key(), item.value());
    }
  }
  // A scale of each head is [H] here and [H, 1, 1] there.
  for (auto& [name, tensor] : tensors) tensor.copy_(by_rule(name_of(name), tensor.sizes()));
  Batch batch;
  batch.size = 1;
  batch.fields.set("image", waves());
  ForwardPass pass;
  return model.forward(batch, pass).at("logits")[0];
}

inline void expect_close(const Tensor& found, const std::vector<double>& expected,
                         double relative) {
  const Tensor wanted = at::tensor(expected, at::kDouble);
  const double scale = wanted.abs().max().item<double>();
  EXPECT_LT((found - wanted).abs().max().item<double>(), relative * scale) << found;
}

/// What is not an image, or of no class, is refused with the model's and the dataset's name.
inline void expect_only_images_taken(const std::string& model) {
  DatasetInfo flat = backbone_images(), unlabelled = backbone_images();
  flat.fields[0].shape = {3, kSide};
  unlabelled.classes = 0;
  for (const DatasetInfo& data : {flat, unlabelled}) {
    try {
      make_model(model, data);
      ADD_FAILURE() << model << " takes it";
    } catch (const ShapeError& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find(model), std::string::npos) << message;
      EXPECT_NE(message.find("'waves'"), std::string::npos) << message;
    }
  }
}

}  // namespace attnlab::testing
