#include "plugins/models/segmenter/decoder.h"

#include <cmath>

#include "framework/nn/backbones/cell_places.h"
#include "framework/nn/kernels/unit.h"

namespace attnlab {
namespace {

constexpr double kFloor = 1e-12;  ///< of a token's length

/// [B, rows columns, K] as maps, [B, K, rows, columns].
Tensor maps_of(const Tensor& logits, const PatchTokens& patches) {
  return logits.transpose(1, 2).reshape(
      {logits.size(0), logits.size(2), patches.rows, patches.columns});
}

}  // namespace

LinearDecoder::LinearDecoder(std::int64_t dim, std::int64_t classes) {
  head_ = register_module("head", std::make_shared<Linear>(dim, classes));
}

Tensor LinearDecoder::forward(const PatchTokens& patches, AttentionTrace*) const {
  return maps_of(head_->forward(patches.tokens), patches);
}

MaskDecoder::MaskDecoder(std::int64_t source, std::int64_t classes, const StackOptions& layers,
                         const AttentionBuilder& attention)
    : classes_(classes) {
  const std::int64_t dim = layers.dim;
  input_ = register_module("input", std::make_shared<Linear>(source, dim));
  Tensor embeddings = at::empty({1, classes, dim});
  fill_truncated_normal(embeddings);
  class_embeddings_ = register_parameter("class_embeddings", embeddings);
  const auto projection = [&](const char* name) {
    return register_parameter(name, at::randn({dim, dim}) / std::sqrt(static_cast<double>(dim)));
  };
  patch_projection_ = projection("patch_projection");
  class_projection_ = projection("class_projection");
  layers_ = std::make_shared<LayerStack>(*this, layers, attention);
  norm_ = register_module("norm", std::make_shared<LayerNorm>(dim, layers.norm_eps));
  mask_norm_ = register_module("mask_norm", std::make_shared<LayerNorm>(classes, layers.norm_eps));
}

Tensor MaskDecoder::forward(const PatchTokens& patches, AttentionTrace* trace) const {
  const Tensor x = input_->forward(patches.tokens);
  const std::int64_t count = x.size(1);
  const auto places = [&] {  // a class stands in the middle of the picture
    const Tensor cells = cell_places(patches.rows, patches.columns, x.device());
    return at::cat({cells, cells.mean(1, true).expand({1, classes_, 2})}, 1);
  };
  const Tensor both = at::cat({x, class_embeddings_.expand({x.size(0), -1, -1})}, 1);
  const Tensor y = layers_->forward(both, places, trace).normed(*norm_).norm;
  const Tensor masks = unit(at::matmul(y.narrow(1, 0, count), patch_projection_), kFloor);
  const Tensor classes = unit(at::matmul(y.narrow(1, count, classes_), class_projection_), kFloor);
  return maps_of(mask_norm_->forward(at::matmul(masks, classes.transpose(1, 2))), patches);
}

}  // namespace attnlab
