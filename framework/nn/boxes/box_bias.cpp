#include "framework/nn/boxes/box_bias.h"

#include "framework/nn/modules/layers.h"

namespace attnlab {
namespace {

std::shared_ptr<PositionBias> started(std::int64_t hidden, std::int64_t heads) {
  auto bias = std::make_shared<PositionBias>(2, hidden, heads);
  fill_truncated_normal(bias->in_weight);
  fill_truncated_normal(bias->out_weight);
  const at::NoGradGuard no_gradients;
  bias->in_bias.zero_();
  return bias;
}

/// Of both edges of each box to the middle of each cell along one axis: [B, H, Q, cells].
Tensor along(const PositionBias& bias, const Tensor& edges, std::int64_t cells, double stride) {
  const Tensor at_cells = (at::arange(cells, edges.options()) + 0.5) * stride;
  // PositionBias takes key minus query; published is edge minus cell.
  return bias.forward(-edges, -at_cells.view({1, cells, 1}).expand({1, cells, 2}));
}

}  // namespace

BoxBias::BoxBias(std::int64_t hidden, std::int64_t heads)
    : x_(register_module("x", started(hidden, heads))),
      y_(register_module("y", started(hidden, heads))) {}

Tensor BoxBias::forward(const Tensor& boxes, std::int64_t rows, std::int64_t columns,
                        double stride) const {
  if (boxes.dim() != 3 || boxes.size(2) != 4) {
    throw ShapeError("BoxBias: boxes are [B, Q, 4], found " + describe(boxes));
  }
  const Tensor placed = boxes.to(x_->position_options());
  const auto edges = [&](std::int64_t axis) {
    return at::stack({placed.select(2, axis), placed.select(2, axis + 2)}, 2);
  };
  const Tensor of_columns = along(*x_, edges(0), columns, stride);
  const Tensor of_rows = along(*y_, edges(1), rows, stride);
  return (of_rows.unsqueeze(-1) + of_columns.unsqueeze(-2)).flatten(3);
}

}  // namespace attnlab
