// Rotary positions (RoPE): channels are turned in pairs by where their token stands.
//
//   R(p) turns the channels 2m and 2m + 1 by the angle p base^(-m/n),   m = 0 ... n - 1
//
// A product of a query and a key that are turned knows of places their difference alone. With one
// coordinate a place n is D / 2, the original work's. With P coordinates, as of patches or voxels,
// n is D / (2 P), rounded down: the first 2 n channels are turned by the first coordinate, the next
// 2 n by the second, and so on ("axial"); what is left over at the end is not turned.
// Source: Su et al. 2021, RoFormer, arXiv:2104.09864, equations 14 to 16 and 34; two coordinates as
// in Heo et al. 2024, Rotary Position Embedding for Vision Transformer, arXiv:2403.13298, whose
// axial form takes a base of 100. Cost: O(L D).
#pragma once

#include "framework/contracts/attention.h"

namespace attnlab {

/// Cosines and sines of the angles at some places, [B or 1, 1, L, P n].
struct Turns {
  Tensor cos, sin;
};

/// n, the pairs of channels that each coordinate turns.
/// @param channels  D
/// @throws ShapeError where heads are too narrow for so many coordinates, or there is none.
std::int64_t rotary_pairs(std::int64_t channels, std::int64_t coordinates);

/// @param places  [B or 1, L, P] float64
/// @param like    [..., D]: its channels are turned, and its dtype is that of the turns
/// @throws ShapeError as `rotary_pairs`.
Turns rotary_turns(const Tensor& places, const Tensor& like, double base);

/// @param x  [B, H, L, D]. @returns the same shape; differentiable any number of times.
Tensor turned(const Tensor& x, const Turns& turns);

/// An input with its queries and keys turned by their places, all else as it is.
/// @throws ShapeError as `rotary_pairs` and `Places`.
AttentionInput turned(const AttentionInput& input, double base);

}  // namespace attnlab
