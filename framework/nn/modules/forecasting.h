// What models that forecast series share: the window that they are built for, and the instance
// norm around them.
//
//   x = (series - m) / d,   m and d of the window's own time steps, channel by channel, n steps:
//   m = sum_t series_t / n,   d = sqrt(sum_t (series_t - m)^2 / n + 1e-5)
//   forecast = y d + m      of what the model makes of x: undone
//
// Source: Kim et al., Reversible instance normalization, ICLR 2022 (RevIN), without its learned
// affine part, which the published code of PatchTST and iTransformer leaves out.
#pragma once

#include <string>

#include "framework/contracts/dataset.h"

namespace attnlab {

/// The sizes of a dataset's `series` [lookback, C] and `future` [horizon, C].
struct ForecastWindow {
  std::int64_t lookback = 0, horizon = 0, channels = 0;

  ForecastWindow() = default;
  /// @param model  for messages
  /// @throws DataError where a field is missing, ShapeError for other shapes.
  ForecastWindow(const DatasetInfo& data, const std::string& model);

  /// A batch's `series` [B, lookback, C] in a dtype. @throws ShapeError for another length.
  Tensor series_of(const Batch& batch, at::ScalarType dtype) const;
  /// How `Model::outputs` describes the forecast.
  FieldInfo forecast_info(at::ScalarType dtype) const {
    return {.name = "forecast", .shape = {horizon, channels}, .dtype = dtype};
  }
};

class InstanceNorm {
 public:
  /// @param series  [B, L, C] floating point
  explicit InstanceNorm(const Tensor& series);
  /// The series itself, normed: [B, L, C].
  Tensor normed(const Tensor& series) const { return (series - mean_) / deviation_; }
  /// @param forecast  [B, T, C] of normed series. @returns it in the series' own measure.
  Tensor undone(const Tensor& forecast) const { return forecast * deviation_ + mean_; }

 private:
  Tensor mean_, deviation_;  ///< [B, 1, C]
};

}  // namespace attnlab
