#include "plugins/models/point_transformer/blocks.h"

#include <algorithm>
#include <cmath>

#include "framework/contracts/recompute.h"

namespace attnlab {

PointStem::PointStem(std::int64_t in, std::int64_t out) {
  convolution_ = register_module("convolution",
                                 std::make_shared<SparseConvolution>(in, out, 5, /*bias=*/false));
  norm_ = register_module("norm", point_norm(out));
}

Tensor PointStem::forward(const Tensor& x, PointLevel& level) {
  return at::gelu(norm_->forward(convolution_->forward(x, level.neighbours(5))));
}

PointBlock::PointBlock(const PointBlockOptions& o, const AttentionBuilder& attention)
    : number_(o.number), patch_size_(o.patch_size) {
  const std::int64_t dim = o.heads.dim;
  place_convolution_ =
      register_module("place_convolution", std::make_shared<SparseConvolution>(dim, dim, 3));
  place_linear_ = register_module("place_linear", std::make_shared<Linear>(dim, dim));
  place_norm_ = register_module("place_norm", std::make_shared<LayerNorm>(dim, 1e-5));
  attention_norm_ = register_module("attention_norm", std::make_shared<LayerNorm>(dim, 1e-5));
  attention_ =
      register_module("attention", std::make_shared<MultiHeadAttention>(o.heads, attention));
  mlp_norm_ = register_module("mlp_norm", std::make_shared<LayerNorm>(dim, 1e-5));
  const auto hidden =
      std::max<std::int64_t>(1, std::llround(o.mlp_ratio * static_cast<double>(dim)));
  mlp_ = register_module("mlp", std::make_shared<Mlp>(dim, hidden, o.heads.dropout));
  drop_ = register_module("drop_path", std::make_shared<DropPath>(o.drop_path));
  start_uniform(*place_linear_);
  start_uniform(*attention_);
  start_uniform(*mlp_);
}

Tensor PointBlock::attend(const Tensor& x, PointLevel& level, AttentionContext& context) {
  const Patches& patches = groups(level);
  if (patches.count == 0) return x;
  AttentionExtras extras;
  extras.visible.key_valid = extras.visible.query_valid = patches.valid;
  const std::int64_t dim = x.size(1);
  const auto in_groups = [&](const Tensor& rows) {
    return take_rows(rows, patches.slots).view({patches.count, patches.size, rows.size(1)});
  };
  if (traits().places) {
    extras.query_positions = extras.key_positions = in_groups(level.places());
  }
  const Tensor y = attention_->forward(in_groups(x), context, extras);
  return take_rows(y.reshape({-1, dim}), patches.places);
}

Tensor PointBlock::forward(const Tensor& x, const std::shared_ptr<PointLevel>& level,
                           AttentionContext& context) {
  return recomputed(*this, {x}, context,
                    [this, level](const std::vector<Tensor>& in, AttentionContext& own) {
                      return std::vector<Tensor>{pass(in[0], *level, own)};
                    })[0];
}

Tensor PointBlock::pass(const Tensor& x, PointLevel& level, AttentionContext& context) {
  const Tensor around = place_convolution_->forward(x, level.neighbours(3));
  Tensor y = x + place_norm_->forward(place_linear_->forward(around));
  // Row by row, as published: a branch is dropped for a voxel, not for a cloud.
  y = y + drop_->forward(attend(attention_norm_->forward(y), level, context));
  return y + drop_->forward(mlp_->forward(mlp_norm_->forward(y)));
}

PointPooling::PointPooling(std::int64_t in, std::int64_t out) {
  linear_ = register_module("linear", std::make_shared<Linear>(in, out));
  norm_ = register_module("norm", point_norm(out));
  start_uniform(*linear_);
}

Tensor PointPooling::forward(const Tensor& x, const RowMap& parents) {
  return at::gelu(norm_->forward(max_rows(linear_->forward(x), parents)));
}

PointUnpooling::PointUnpooling(std::int64_t in, std::int64_t skip, std::int64_t out) {
  linear_ = register_module("linear", std::make_shared<Linear>(in, out));
  norm_ = register_module("norm", point_norm(out));
  skip_linear_ = register_module("skip_linear", std::make_shared<Linear>(skip, out));
  skip_norm_ = register_module("skip_norm", point_norm(out));
  start_uniform(*linear_);
  start_uniform(*skip_linear_);
}

Tensor PointUnpooling::forward(const Tensor& x, const Tensor& skip, const RowMap& parents) {
  const Tensor coarse = at::gelu(norm_->forward(linear_->forward(x)));
  return at::gelu(skip_norm_->forward(skip_linear_->forward(skip))) + take_rows(coarse, parents);
}

}  // namespace attnlab
