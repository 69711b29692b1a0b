// iBOT's arithmetic by loops, without the code that they check.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "framework/tensor/tensor.h"

namespace attnlab::ibot_loops {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

inline Rows rows_of(const Tensor& tensor) {
  const Tensor flat = tensor.detach().to(at::kDouble).reshape({-1, tensor.size(-1)}).contiguous();
  Rows rows;
  for (std::int64_t i = 0; i < flat.size(0); ++i) {
    const double* row = flat.data_ptr<double>() + i * flat.size(1);
    rows.emplace_back(row, row + flat.size(1));
  }
  return rows;
}

inline double dot(const Row& a, const Row& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

inline Row softmax(Row x) {
  double sum = 0;
  for (double& value : x) sum += value = std::exp(value);
  for (double& value : x) value /= sum;
  return x;
}

inline double cross_entropy(const Row& target, const Row& logits) {
  const Row shares = softmax(logits);
  double sum = 0;
  for (std::size_t k = 0; k < target.size(); ++k) sum -= target[k] * std::log(shares[k]);
  return sum;
}

}  // namespace attnlab::ibot_loops
