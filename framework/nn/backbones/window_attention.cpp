#include "framework/nn/backbones/window_attention.h"

#include "framework/nn/backbones/cell_places.h"
#include "framework/nn/kernels/linear.h"

namespace attnlab {
namespace {

/// sign(d) log2(1 + |8 d / (w - 1)|) / log2(8) for d from 1 - w to w - 1.
Tensor log_spaced(std::int64_t side) {
  const Tensor steps = at::arange(1 - side, side, at::kFloat);
  const Tensor scaled = steps * (8.0 / static_cast<double>(std::max<std::int64_t>(side - 1, 1)));
  return scaled.sign() * at::log2(scaled.abs() + 1) / 3.0;
}

/// Which of the (2 w - 1)^2 offsets each pair of cells has: [w^4].
Tensor offsets_of_pairs(std::int64_t side, const at::Device& device) {
  const Tensor cells = at::arange(side * side, at::TensorOptions().dtype(at::kLong).device(device));
  const Tensor row = at::div(cells, side, "floor"), column = cells.remainder(side);
  const Tensor down = row.unsqueeze(1) - row.unsqueeze(0) + side - 1;
  const Tensor right = column.unsqueeze(1) - column.unsqueeze(0) + side - 1;
  return (down * (2 * side - 1) + right).flatten();
}

}  // namespace

WindowBias::WindowBias(std::int64_t side, std::int64_t heads) : side_(side) {
  in_ = register_module("in", std::make_shared<Linear>(2, 512));
  out_ = register_module("out", std::make_shared<Linear>(512, heads, /*bias=*/false));
  const std::int64_t wide = 2 * side - 1;
  const Tensor along = log_spaced(side);
  offsets_ =
      register_buffer("offsets", at::stack({along.view({wide, 1}).expand({wide, wide}).flatten(),
                                            along.view({1, wide}).expand({wide, wide}).flatten()},
                                           1));
}

Tensor WindowBias::forward() const {
  const Tensor by_offset = out_->forward(at::relu(in_->forward(offsets_)));
  const std::int64_t cells = side_ * side_;
  return (by_offset.sigmoid() * 16)
      .index_select(0, offsets_of_pairs(side_, by_offset.device()))
      .view({cells, cells, -1})
      .permute({2, 0, 1});
}

WindowAttention::WindowAttention(std::int64_t dim, std::int64_t side, const AttentionShape& shape,
                                 const AttentionBuilder& attention)
    : heads_(shape.heads), side_(side) {
  qkv_ = register_module("qkv", std::make_shared<Linear>(dim, 3 * dim));
  bias_ = register_module("bias", std::make_shared<WindowBias>(side, shape.heads));
  AttentionShape own = shape;
  own.query_width = own.key_width = own.value_width = dim;
  attention_ = register_module("attention", attention(own));
  output_ = register_module("output", std::make_shared<Linear>(dim, dim));
}

Tensor WindowAttention::forward(const Tensor& x, const Tensor& visible, AttentionContext& context) {
  const std::int64_t windows = x.size(0), cells = x.size(1), dim = x.size(2);
  const Tensor& bias = qkv_->bias;
  const Tensor without_keys = at::cat(
      {bias.narrow(0, 0, dim), at::zeros({dim}, bias.options()), bias.narrow(0, 2 * dim, dim)});
  const std::vector<Tensor> qkv = attnlab::linear(x, qkv_->weight, without_keys)
                                      .view({windows, cells, 3, heads_, dim / heads_})
                                      .permute({2, 0, 3, 1, 4})
                                      .unbind(0);
  AttentionInput input;
  input.queries = qkv[0];
  input.keys = qkv[1];
  input.values = qkv[2];
  input.bias = bias_->forward().unsqueeze(0);
  if (attention_->traits().sources) input.query_source = input.key_source = input.value_source = x;
  if (attention_->traits().places) {
    input.query_positions = input.key_positions = cell_places(side_, side_, x.device());
  }
  if (visible.defined()) {
    const std::int64_t each = visible.size(1);
    input.visible.pairs =
        visible.expand({windows / each, each, cells, cells}).reshape({windows, 1, cells, cells});
  }
  const Tensor y = attention_->forward(input, context);
  return output_->forward(y.transpose(1, 2).reshape({windows, cells, dim}));
}

}  // namespace attnlab
