// Windows of a map: attention within squares of w x w cells, shifted in every second layer.
//
// The map is filled up to whole windows at the bottom and on the right, and shifted up and left by
// s cells, what leaves coming back on the other side. Cells see each other where they are in one
// window, were neighbours before the shift, and are real. Along an axis on which one window covers
// what is real of a map, that map is not shifted.
// Source: Liu et al., Swin Transformer, ICCV 2021. There, cells that fill a window up are seen;
// here they are hidden, so that a map gives the same whatever it is padded to.
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

class Windows {
 public:
  /// @param rows, columns  of the map   @param side  w   @param shift  s, 0 <= s < w
  /// @param valid  [B, rows, columns] bool, true = real; undefined: all cells are
  Windows(std::int64_t rows, std::int64_t columns, std::int64_t side, std::int64_t shift,
          const Tensor& valid = {});

  /// [B, rows, columns, C] to [B n, w w, C]: n windows of each map, row by row.
  Tensor cut(const Tensor& x) const;
  /// What `cut` gave back to [B, rows, columns, C].
  Tensor joined(const Tensor& windows) const;
  /// Which cells see which: [1 or B, n, w w, w w] bool; undefined where all cells of a window do.
  Tensor visible(const at::Device& device) const;

  std::int64_t count() const { return (full_rows_ / side_) * (full_columns_ / side_); }

 private:
  /// The shift along an axis.
  struct Shift {
    std::int64_t cells = 0;
    Tensor still = {};  ///< [B, 1, 1, 1] bool: maps that are not shifted; undefined: all are

    /// @param x  [B, rows, columns, C]   @param sign  -1: there; 1: back
    Tensor moved(const Tensor& x, std::int64_t axis, std::int64_t sign) const;
  };

  /// @param real  [B], how many cells of each map are real along the axis; undefined: all
  static Shift shift_of(std::int64_t full, std::int64_t side, std::int64_t shift,
                        const Tensor& real);
  /// [B, full rows, full columns, ...] shifted and cut.
  Tensor pieces(const Tensor& full) const;

  std::int64_t rows_, columns_, side_;
  std::int64_t full_rows_, full_columns_;  ///< filled up to whole windows
  Tensor valid_;
  Shift up_, left_;
};

}  // namespace attnlab
