// Small vision transformers, and what they give.
#pragma once

#include <string>

#include "tests/support/plugins.h"

namespace attnlab::vit_models {

inline const std::string kSmall = "dim: 24, depth: 3, heads: 2, patch_size: 4";
inline const std::string kOneLayer = "dim: 24, depth: 1, heads: 2, patch_size: 4";

inline DatasetInfo images(std::int64_t channels, std::int64_t height, std::int64_t width,
                          std::int64_t classes) {
  DatasetInfo data;
  data.name = "test images";
  data.fields = {{"image", {channels, height, width}, at::kFloat}, {"class", {}, at::kLong}};
  data.classes = classes;
  return data;
}

inline std::shared_ptr<Model> vit(const DatasetInfo& data, const std::string& options,
                                  const std::string& attention = "standard") {
  return testing::make_model("vit", data, "{" + options + "}", attention);
}

inline std::shared_ptr<Model> small_vit(const std::string& more = "") {
  return vit(images(1, 8, 12, 5), kSmall + (more.empty() ? "" : ", " + more));
}

inline Batch batch_of(const Tensor& image) {
  Batch batch;
  batch.fields.set("image", image);
  batch.size = image.size(0);
  return batch;
}

inline NamedTensors outputs(Model& model, const Tensor& image, AttentionTrace* trace = nullptr) {
  ForwardPass pass{trace};
  return model.forward(batch_of(image), pass);
}

}  // namespace attnlab::vit_models
