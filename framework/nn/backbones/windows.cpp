#include "framework/nn/backbones/windows.h"

#include <fmt/format.h>

namespace attnlab {
namespace {

std::int64_t filled(std::int64_t length, std::int64_t side) {
  return (length + side - 1) / side * side;
}

}  // namespace

Tensor Windows::Shift::moved(const Tensor& x, std::int64_t axis, std::int64_t sign) const {
  if (cells == 0) return x;
  const Tensor there = x.roll({sign * cells}, {axis});
  return still.defined() ? at::where(still, x, there) : there;
}

Windows::Shift Windows::shift_of(std::int64_t full, std::int64_t side, std::int64_t shift,
                                 const Tensor& real) {
  if (full <= side || shift == 0) return {};
  if (!real.defined()) return {shift};
  const Tensor still = real.le(side);
  if (still.all().item<bool>()) return {};
  return still.any().item<bool>() ? Shift{shift, still.view({-1, 1, 1, 1})} : Shift{shift};
}

Windows::Windows(std::int64_t rows, std::int64_t columns, std::int64_t side, std::int64_t shift,
                 const Tensor& valid)
    : rows_(rows),
      columns_(columns),
      side_(side),
      full_rows_(filled(rows, side)),
      full_columns_(filled(columns, side)),
      valid_(valid) {
  if (rows < 1 || columns < 1 || side < 1 || shift < 0 || shift >= side) {
    throw ShapeError(fmt::format("Windows: {} x {} cells in windows of {}, shifted by {}", rows,
                                 columns, side, shift));
  }
  const bool known = valid.defined();
  up_ = shift_of(full_rows_, side, shift, known ? valid.any(2).sum(1) : Tensor());
  left_ = shift_of(full_columns_, side, shift, known ? valid.any(1).sum(1) : Tensor());
}

Tensor Windows::pieces(const Tensor& full) const {
  const Tensor x = left_.moved(up_.moved(full, 1, -1), 2, -1);
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
  x = up_.moved(left_.moved(x, 2, 1), 1, 1);
  return x.narrow(1, 0, rows_).narrow(2, 0, columns_);
}

Tensor Windows::visible(const at::Device& device) const {
  const bool whole = full_rows_ == rows_ && full_columns_ == columns_;
  if (!valid_.defined() && whole && up_.cells == 0 && left_.cells == 0) return {};
  const auto options = at::TensorOptions().dtype(at::kLong).device(device);
  // What comes back on the other side is of another group than its new neighbours.
  const auto came_back = [&](const Shift& shift, std::int64_t length) {
    const Tensor sides = at::arange(length, options).lt(shift.cells).to(at::kLong);
    return shift.still.defined() ? sides.view({1, 1, length, 1}) * shift.still.logical_not()
                                 : sides.view({1, 1, length, 1});
  };
  const Tensor above = came_back(up_, full_rows_).transpose(1, 2);
  const Tensor groups = 2 * above + came_back(left_, full_columns_) + 1;  // 1 to 4
  const Tensor real =
      valid_.defined() ? valid_ : at::ones({1, rows_, columns_}, options.dtype(at::kBool));
  const Tensor full =
      at::constant_pad_nd(real, {0, full_columns_ - columns_, 0, full_rows_ - rows_});
  const Tensor of_cells = pieces(groups * full.unsqueeze(-1));  // 0: not real
  const Tensor keys = of_cells.transpose(1, 2);
  return of_cells.eq(keys)
      .logical_and(keys.gt(0))
      .view({real.size(0), count(), side_ * side_, side_ * side_});
}

}  // namespace attnlab
