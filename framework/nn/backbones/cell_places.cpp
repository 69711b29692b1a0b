#include "framework/nn/backbones/cell_places.h"

namespace attnlab {

Tensor cell_places(std::int64_t rows, std::int64_t columns, const at::Device& device) {
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  const Tensor row = at::arange(rows, options).view({rows, 1}).expand({rows, columns});
  const Tensor column = at::arange(columns, options).expand({rows, columns});
  return at::stack({row, column}, -1).view({1, rows * columns, 2});
}

Tensor behind_class_token(const Tensor& cells) { return at::cat({cells.mean(1, true), cells}, 1); }

}  // namespace attnlab
