#include "plugins/models/ia_detr/grids.h"

#include "framework/nn/boxes/sine_positions.h"

namespace attnlab {

Tensor hidden(const Tensor& x, const Tensor& valid) {
  return x * valid.flatten(1).unsqueeze(-1).to(x.scalar_type());
}

Grid grid_of(const Tensor& map, const Tensor& valid, const Tensor& sizes) {
  const Tensor middles = grid_places(valid.size(1), valid.size(2), sizes);
  const Tensor places = sine_positions(middles, map.size(1) / 2).to(map.scalar_type());
  return {hidden(map.flatten(2).transpose(1, 2), valid), hidden(places, valid), middles, valid,
          sizes};
}

Tensor on_grid(const Tensor& tokens, const Tensor& valid, std::int64_t rows, std::int64_t columns) {
  const std::int64_t h = valid.size(1), w = valid.size(2);
  if (h == rows && w == columns) return tokens;
  const Tensor cells = tokens.view({tokens.size(0), h, w, tokens.size(2)});
  return at::constant_pad_nd(cells, {0, 0, 0, columns - w, 0, rows - h}).flatten(1, 2);
}

Tensor on_grid(const Tensor& valid, std::int64_t rows, std::int64_t columns) {
  return at::constant_pad_nd(valid, {0, columns - valid.size(2), 0, rows - valid.size(1)});
}

}  // namespace attnlab
