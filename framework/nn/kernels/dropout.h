// Dropout whose mask is never stored.
//
//   y_i = x_i [h(key, i) >= p] / (1 - p),   h uniform in [0, 1), a hash of the key and the place
//
// The key is one draw of LibTorch's default generator, so a seed still decides everything, and the
// number of threads nothing. Against at::dropout, whose numbers come one after another from one
// generator: several times faster on the CPU, no tensor of noise, and other masks for one seed.
// Kernels that fold dropout in drop the same numbers: any piece of a tensor can be dropped by
// itself.
// Source: Srivastava et al., JMLR 2014; the mixing is lowbias32 of Chris Wellons' hash-prospector.
// Cost: one pass forward, one backward, both in vector registers.
#pragma once

#include <cstdint>

#include "framework/tensor/tensor.h"

namespace attnlab {

/// Zeroes numbers with probability p and divides the others by 1 - p. Differentiable any number of
/// times. Not on the CPU, or for half precision, it is at::dropout.
/// @param x  floating point
/// @throws ShapeError when p is outside [0, 1).
Tensor dropout(const Tensor& x, double p);

/// Which numbers one call drops.
struct DropoutMask {
  std::uint64_t key = 0;
  double p = 0;  ///< 0: none
};

/// The mask of a call of `dropout` at this place: one draw, none for p = 0.
/// @throws ShapeError when p is outside [0, 1).
DropoutMask draw_dropout(double p);

/// Drops numbers [first, first + count) of a contiguous tensor as `dropout` would.
/// @param x, y  the piece, and what is filled; not the same.
void drop_piece(const float* x, float* y, std::int64_t first, std::int64_t count,
                const DropoutMask& mask);
void drop_piece(const double* x, double* y, std::int64_t first, std::int64_t count,
                const DropoutMask& mask);

/// The numbers that those of the piece are multiplied by: 0 or 1 / (1 - p).
void dropout_factors(float* y, std::int64_t first, std::int64_t count, const DropoutMask& mask);
void dropout_factors(double* y, std::int64_t first, std::int64_t count, const DropoutMask& mask);

}  // namespace attnlab
