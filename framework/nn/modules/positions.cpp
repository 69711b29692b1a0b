#include "framework/nn/modules/positions.h"

#include <cmath>

#include "framework/nn/modules/relative_positions.h"

namespace attnlab {

Tensor resized_positions(const Tensor& saved, const Tensor& own, std::int64_t rows,
                         std::int64_t columns) {
  const std::int64_t before = own.size(1) - rows * columns;
  if (saved.dim() != 3 || saved.size(0) != 1 || saved.size(2) != own.size(2)) return saved;
  const std::int64_t count = saved.size(1) - before;
  const std::int64_t side =
      std::llround(std::sqrt(static_cast<double>(std::max<std::int64_t>(count, 0))));
  if (count < 1 || side * side != count) return saved;
  return resized_grid(saved, side, side, rows, columns);
}

Tensor resized_grid(const Tensor& positions, std::int64_t rows, std::int64_t columns,
                    std::int64_t new_rows, std::int64_t new_columns) {
  const std::int64_t before = positions.size(1) - rows * columns;
  const Tensor grid = positions.narrow(1, before, rows * columns)
                          .reshape({1, rows, columns, -1})
                          .permute({0, 3, 1, 2});
  const Tensor resized =
      at::upsample_bicubic2d(grid.contiguous(), {new_rows, new_columns},
                             /*align_corners=*/false, c10::nullopt, c10::nullopt);
  const Tensor places = resized.permute({0, 2, 3, 1}).reshape({1, new_rows * new_columns, -1});
  return before == 0 ? places : at::cat({positions.narrow(1, 0, before), places}, 1);
}

Tensor grid_sinusoids(std::int64_t rows, std::int64_t columns, std::int64_t dim,
                      const at::TensorOptions& options) {
  const Tensor of_rows = sinusoids(at::arange(rows), dim / 2, options);
  const Tensor of_columns = sinusoids(at::arange(columns), dim / 2, options);
  return at::cat({of_rows.unsqueeze(1).expand({rows, columns, dim / 2}),
                  of_columns.expand({rows, columns, dim / 2})},
                 2)
      .view({1, rows * columns, dim});
}

}  // namespace attnlab
