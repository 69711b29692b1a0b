// The rows that member_norm.cpp normalises.
#pragma once

#include <cstdint>

namespace attnlab {

/// One member's rows.
struct MemberNormRows {
  const float *x, *weight;
  float* moments;  ///< [rows, 2]: mean, 1 / deviation
  std::int64_t rows, dim;
};

}  // namespace attnlab
