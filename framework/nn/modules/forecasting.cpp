#include "framework/nn/modules/forecasting.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace attnlab {

ForecastWindow::ForecastWindow(const DatasetInfo& data, const std::string& model) {
  const std::vector<std::int64_t>& before = data.field("series").shape;
  const std::vector<std::int64_t>& after = data.field("future").shape;
  const bool fits = before.size() == 2 && after.size() == 2 && before[0] > 0 && before[1] > 0 &&
                    after[0] > 0 && after[1] == before[1];
  if (!fits) {
    throw ShapeError(fmt::format(
        "{} forecasts windows of one length: series [lookback, C] and future [horizon, C]; dataset "
        "'{}' has series [{}] and future [{}]; choose data such as `forecasting` gives",
        model, data.name, fmt::join(before, ", "), fmt::join(after, ", ")));
  }
  lookback = before[0];
  horizon = after[0];
  channels = before[1];
}

Tensor ForecastWindow::series_of(const Batch& batch, at::ScalarType dtype) const {
  const Tensor& series = batch.fields.at("series");
  if (series.dim() == 3 && series.size(1) == lookback) return series.to(dtype);
  throw ShapeError(
      fmt::format("the model was built for series of {} time steps, [B, {}, C], and this batch has "
                  "{}; give it windows of that length, or build it again",
                  lookback, lookback, describe(series)));
}

InstanceNorm::InstanceNorm(const Tensor& series) : mean_(series.mean(1, /*keepdim=*/true)) {
  deviation_ = ((series - mean_).square().mean(1, /*keepdim=*/true) + 1e-5).sqrt();
}

}  // namespace attnlab
