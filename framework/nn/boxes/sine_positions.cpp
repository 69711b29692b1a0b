#include "framework/nn/boxes/sine_positions.h"

#include <cmath>
#include <numbers>

namespace attnlab {

Tensor sine_positions(const Tensor& places, std::int64_t channels) {
  if (channels < 2 || channels % 2 != 0) {
    throw ShapeError("sine_positions: channels come in pairs, found " + std::to_string(channels));
  }
  const Tensor pairs = at::arange(channels / 2, places.options());
  const Tensor wavelengths =
      at::exp(pairs * (2 * std::log(10000.0) / static_cast<double>(channels)));
  const Tensor angles = places.unsqueeze(-1) * (2 * std::numbers::pi) / wavelengths;
  return at::stack({angles.sin(), angles.cos()}, -1).flatten(-3);
}

Tensor valid_sizes(const Tensor& valid) {
  const Tensor rows = valid.any(2).sum(1), columns = valid.any(1).sum(1);
  return at::stack({rows, columns}, 1).clamp_min(1).to(at::kFloat);
}

Tensor grid_places(std::int64_t rows, std::int64_t columns, const Tensor& sizes) {
  const at::TensorOptions options = sizes.options();
  const Tensor y = (at::arange(rows, options) + 0.5).view({rows, 1}).expand({rows, columns});
  const Tensor x = (at::arange(columns, options) + 0.5).view({1, columns}).expand({rows, columns});
  const Tensor cells = at::stack({y, x}, -1).view({1, rows * columns, 2});
  return (cells / sizes.unsqueeze(1)).clamp_max(1);
}

}  // namespace attnlab
