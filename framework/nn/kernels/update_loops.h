// What a step does with float32 parameters in plain memory, in one pass: the loops of
// framework/train/update_rules.h, whose formulas and names these are.
//
// The order of operations, and which of them are fused, is the same on every instruction set that
// fuses (AVX2 and up, NEON) and for every length, so that runs repeat bit for bit.
#pragma once

#include <cstdint>

namespace attnlab::updates {

/// p <- p - step_size m / (square_root sqrt(v) + epsilon), g = factor gradient.
template <class T>
struct StepNumbers {
  T factor, beta1, beta2, rest1, rest2;
  T step_size, square_root, epsilon;
};

/// A piece of a parameter, and what is remembered of it.
struct Piece {
  float* parameter;
  const float* gradient;
  float* average;  ///< m; b of SGD
  float* square;   ///< v
  std::int64_t count;
};

/// SGD's numbers: g = factor gradient + decay p, b <- momentum b + g, p <- p - rate (of_sum b +
/// of_gradient g).
struct MomentumNumbers {
  float factor, decay, rate, momentum;
  float of_sum, of_gradient;  ///< (1, 0), or Nesterov's (momentum, 1)
};

/// Sums of squares.
struct Squares {
  double parameter = 0, direction = 0;
};

/// AdamW and RAdam. @param keep  1 - lr wd
void adamw(const Piece& piece, float keep, const StepNumbers<float>& numbers);
void adam(const Piece& piece, float decay, const StepNumbers<float>& numbers);
/// SGD without momentum.
void sgd(const Piece& piece, float factor, float decay, float rate);
void momentum(const Piece& piece, const MomentumNumbers& numbers);
/// LAMB's first pass: the moments, and what the norms of p and u are made of.
Squares prepare_lamb(const Piece& piece, float decay, const StepNumbers<float>& numbers);
/// LAMB's second pass. @param rate  with the ratio of the norms
void finish_lamb(const Piece& piece, float decay, float rate, const StepNumbers<float>& numbers);

/// Summed in double, in the same order on every processor.
double sum_of_squares(const float* values, std::int64_t count);

}  // namespace attnlab::updates
