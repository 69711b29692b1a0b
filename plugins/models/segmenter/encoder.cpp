#include "plugins/models/segmenter/encoder.h"

#include <fmt/format.h>

#include <cmath>

#include "framework/nn/backbones/cell_places.h"
#include "framework/nn/kernels/dropout.h"

namespace attnlab {

SegmenterEncoder::SegmenterEncoder(const PatchOptions& patches, const StackOptions& layers,
                                   const AttentionBuilder& attention)
    : options_(patches), dropout_(layers.dropout) {
  patches_ = register_module("patches", std::make_shared<PatchEmbedding>(patches));
  const auto learned = [&](const char* name, std::int64_t tokens) {
    Tensor values = at::empty({1, tokens, patches.dim});
    fill_truncated_normal(values);
    return register_parameter(name, values);
  };
  class_token_ = learned("class_token", 1);
  positions_ = learned("positions", 1 + patches_->count());
  layers_ = std::make_shared<LayerStack>(*this, layers, attention);
  norm_ = register_module("norm", std::make_shared<LayerNorm>(layers.dim, layers.norm_eps));
}

PatchTokens SegmenterEncoder::forward(const Tensor& images, AttentionTrace* trace) const {
  const std::int64_t side = options_.patch_height;
  if (images.dim() != 4 || images.size(1) != options_.channels || images.size(2) % side != 0 ||
      images.size(3) % side != 0 || images.size(2) == 0 || images.size(3) == 0) {
    throw ShapeError(fmt::format(
        "segmenter: images must be [B, {}, H, W] with sides that are multiples of patch_size {}, "
        "found {}; choose dataset.crop and task.window so",
        options_.channels, side, describe(images)));
  }
  const Tensor pixels = images.to(class_token_.scalar_type());
  PatchTokens out;
  out.rows = images.size(2) / side;
  out.columns = images.size(3) / side;
  const bool own = out.rows == patches_->rows() && out.columns == patches_->columns();
  Tensor x = own ? patches_->forward(pixels)
                 : at::conv2d(pixels, patches_->weight, patches_->bias, {side, side})
                       .flatten(2)
                       .transpose(1, 2);
  x = at::cat({class_token_.expand({x.size(0), 1, -1}), x}, 1);
  x = x + (own ? positions_
               : positions_for(positions_, patches_->rows(), patches_->columns(), out.rows,
                               out.columns));
  if (is_training() && dropout_ > 0) x = dropout(x, dropout_);
  const auto places = [&] {
    return behind_class_token(cell_places(out.rows, out.columns, x.device()));
  };
  const Residual residual = layers_->forward(x, places, trace);
  out.tokens = residual.normed(*norm_).norm.slice(1, 1);
  return out;
}

Tensor SegmenterEncoder::positions_for(const Tensor& positions, std::int64_t n, std::int64_t m,
                                       std::int64_t rows, std::int64_t columns) const {
  if (n == rows && m == columns) return positions;
  const std::int64_t dim = positions.size(2);
  const Tensor grid = positions.slice(1, 1).view({1, n, m, dim}).permute({0, 3, 1, 2});
  const Tensor resized =
      at::upsample_bilinear2d(grid.contiguous(), {rows, columns}, /*align_corners=*/false)
          .permute({0, 2, 3, 1})
          .reshape({1, rows * columns, dim});
  return at::cat({positions.narrow(1, 0, 1), resized}, 1);
}

Tensor SegmenterEncoder::resized_from_square(const Tensor& saved) const {
  if (saved.dim() != 3 || saved.size(0) != 1 || saved.size(1) < 2) return saved;
  const std::int64_t count = saved.size(1) - 1;
  const auto side = static_cast<std::int64_t>(std::llround(std::sqrt(double(count))));
  if (side * side != count) return saved;
  return positions_for(saved, side, side, patches_->rows(), patches_->columns());
}

}  // namespace attnlab
