// The rows that member_norm.cpp normalises.
#pragma once

#include <cstdint>

namespace attnlab {

/// Rows of one member: dense, of `dim` numbers.
struct MemberNormRows {
  std::int64_t rows, dim;
  const float* x;
  const float* added;          ///< to x first; null: nothing
  float* sum;                  ///< x + added, filled where there is something to add
  const float *weight, *bias;  ///< [dim]; bias null: none
  float* moments;              ///< [rows, 2]: mean (0 where not centred), 1 / deviation
  bool centred;                ///< the mean is taken away first (layer norm); else it is not (RMS)
};

/// What the gradient reads and fills; x, above, is what was normalised.
struct MemberNormGradients {
  const float* grad;   ///< of the normalised rows
  const float* other;  ///< what reaches x by other ways; null: nothing
  float* dx;
  float *dw, *db;  ///< [dim], added to; db null: not wanted
};

}  // namespace attnlab
