// BoxRPB: a bias of attention from boxes of queries to pixels of a map.
//
//   bias[h, q, (y, x)] = f_h(x0 - x, x1 - x) + g_h(y0 - y, y1 - y)
//
// x0, x1, y0, y1 are the edges of query q's box, (x, y) the middle of a cell, all in pixels; f and
// g are small MLPs, R^2 to R^H, with no bias at their end. So the logits of a column and those of a
// row are computed once each: O(Q (w + h) hidden), and Q w h for their sum.
// Source: Lin et al., DETR Does Not Need Multi-Scale or Locality Design, ICCV 2023,
// arXiv:2308.01904 ("linear" offsets); Indirect Attention takes it for its decoder.
#pragma once

#include "framework/nn/attention/position_bias.h"

namespace attnlab {

class BoxBias : public torch::nn::Module {
 public:
  /// Weights start as truncated normal (std 0.02) with biases 0, as published.
  BoxBias(std::int64_t hidden, std::int64_t heads);

  /// @param boxes   [B, Q, 4] corners in pixels
  /// @param rows, columns  of the map   @param stride  pixels from one cell to the next
  /// @returns [B, H, Q, rows * columns], cells row by row.
  Tensor forward(const Tensor& boxes, std::int64_t rows, std::int64_t columns, double stride) const;

 private:
  std::shared_ptr<PositionBias> x_, y_;
};

}  // namespace attnlab
