#include "framework/nn/backbones/windows.h"

namespace attnlab {
namespace {

std::int64_t filled(std::int64_t length, std::int64_t side) {
  return (length + side - 1) / side * side;
}

/// Which cells along an axis were neighbours before the shift: 0, 1 for what came back.
Tensor sides_of(std::int64_t length, std::int64_t shift, const at::Device& device) {
  const Tensor sides = at::zeros({length}, at::TensorOptions().dtype(at::kLong).device(device));
  if (shift > 0) sides.narrow(0, 0, shift).fill_(1);
  return sides;
}

}  // namespace

Windows::Windows(std::int64_t rows, std::int64_t columns, std::int64_t side, std::int64_t shift)
    : rows_(rows),
      columns_(columns),
      side_(side),
      full_rows_(filled(rows, side)),
      full_columns_(filled(columns, side)),
      down_(side < full_rows_ ? shift : 0),
      right_(side < full_columns_ ? shift : 0) {
  if (rows < 1 || columns < 1 || side < 1 || shift < 0 || shift >= side) {
    throw ShapeError("Windows: " + std::to_string(rows) + " x " + std::to_string(columns) +
                     " cells in windows of " + std::to_string(side) + ", shifted by " +
                     std::to_string(shift));
  }
}

Tensor Windows::pieces(const Tensor& full) const {
  const Tensor x = down_ > 0 || right_ > 0 ? full.roll({-down_, -right_}, {1, 2}) : full;
  const std::int64_t batch = x.size(0), channels = x.size(3);
  return x.reshape({batch, full_rows_ / side_, side_, full_columns_ / side_, side_, channels})
      .permute({0, 1, 3, 2, 4, 5})
      .reshape({batch * count(), side_ * side_, channels});
}

Tensor Windows::cut(const Tensor& x) const {
  if (full_rows_ == rows_ && full_columns_ == columns_) return pieces(x);
  return pieces(at::constant_pad_nd(x, {0, 0, 0, full_columns_ - columns_, 0, full_rows_ - rows_}));
}

Tensor Windows::joined(const Tensor& windows) const {
  const std::int64_t batch = windows.size(0) / count(), channels = windows.size(2);
  Tensor x =
      windows.reshape({batch, full_rows_ / side_, full_columns_ / side_, side_, side_, channels})
          .permute({0, 1, 3, 2, 4, 5})
          .reshape({batch, full_rows_, full_columns_, channels});
  if (down_ > 0 || right_ > 0) x = x.roll({down_, right_}, {1, 2});
  return x.narrow(1, 0, rows_).narrow(2, 0, columns_);
}

Tensor Windows::visible(const Tensor& valid, const at::Device& device) const {
  const bool whole = full_rows_ == rows_ && full_columns_ == columns_;
  if (!valid.defined() && whole && down_ == 0 && right_ == 0) return {};
  const Tensor above = sides_of(full_rows_, down_, device).view({1, full_rows_, 1, 1});
  const Tensor left = sides_of(full_columns_, right_, device).view({1, 1, full_columns_, 1});
  Tensor groups = 2 * above + left + 1;  // 1 to 4
  const Tensor real =
      valid.defined()
          ? valid
          : at::ones({1, rows_, columns_}, at::TensorOptions().dtype(at::kBool).device(device));
  const Tensor full =
      at::constant_pad_nd(real, {0, full_columns_ - columns_, 0, full_rows_ - rows_});
  groups = pieces(groups * full.unsqueeze(-1));  // 0: not real
  const Tensor seen = groups.eq(groups.transpose(1, 2)).logical_and(groups.transpose(1, 2).gt(0));
  return seen.view({real.size(0), count(), side_ * side_, side_ * side_});
}

}  // namespace attnlab
