// DLinear: a linear forecast of a series' moving average, and one of the rest. No attention: what
// forecasters with attention are held against.
//
//   trend    = mean of `window` steps around each, the first and last value repeated beyond the
//   ends forecast = W_s (series - trend) + b_s + W_t trend + b_t      the same maps for every
//   channel
//
// Source: Zeng et al., AAAI 2023; cure-lab/LTSF-Linear, commit 0c113668. Cost: O(B C L T).
#include <fmt/format.h>

#include "framework/nn/modules/forecasting.h"
#include "framework/nn/modules/layers.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct DLinearOptions {
  std::int64_t window = 25;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("window", window, range(1, 1e6), "time steps of the moving average, an odd number");
  }
};

class DLinear final : public Model {
 public:
  DLinear(const DLinearOptions& options, const ModelSetup& setup)
      : average_(options.window), window_(setup.data, "dlinear") {
    if (average_ % 2 == 0) {
      throw OptionError(
          "window", fmt::format("{} steps have no step in their middle; make it odd", average_));
    }
    for (std::shared_ptr<Linear>* map : {&seasonal_, &trend_}) {
      *map = register_module(map == &trend_ ? "trend" : "seasonal",
                             std::make_shared<Linear>(window_.lookback, window_.horizon));
      start_uniform(**map);
    }
  }

  NamedTensors forward(const Batch& batch, ForwardPass&) override {
    const Tensor x = window_.series_of(batch, trend_->weight.scalar_type()).transpose(1, 2);
    const std::int64_t side = average_ / 2;
    const Tensor trend = at::avg_pool1d(at::replication_pad1d(x, {side, side}), {average_}, {1});
    return {{"forecast", (seasonal_->forward(x - trend) + trend_->forward(trend)).transpose(1, 2)}};
  }

  std::vector<FieldInfo> outputs() const override {
    return {window_.forecast_info(trend_->weight.scalar_type())};
  }

 private:
  std::int64_t average_;
  ForecastWindow window_;
  std::shared_ptr<Linear> seasonal_, trend_;
};

}  // namespace

ATTNLAB_PLUGIN(
    model, DLinear, DLinearOptions,
    {.id = "attnlab/dlinear",
     .version = "1.0.0",
     .summary = "linear forecasts of a moving average and of the remainder; no attention",
     .citation = "Zeng et al., Are transformers effective for time series forecasting?, "
                 "AAAI 2023, arXiv:2205.13504",
     .licence = "Apache-2.0",
     .takes = {"series", "future"},
     .gives = {"forecast"}})

}  // namespace attnlab
