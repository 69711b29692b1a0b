// Forecasting: the `horizon` time steps behind a series, each channel a number.
//
//   loss = mean over examples, steps and channels of e^2 (mse), |e| (mae) or Huber's loss, with
//          e = forecast - future: huber  e^2 / 2 up to `delta`, delta (|e| - delta / 2) beyond
//   mse, mae            means of e^2 and |e| over all windows, steps and channels, of the values as
//                       the dataset gives them (standardised, as the field does)
//   mse_step_T, ...     of step T of the horizon alone, from 1 on (`steps`)
//   mse_own, mae_own    in the data's own units (`own_units`): each channel's errors times its
//                       deviation; a mean over channels, whose units may differ
#include <fmt/format.h>

#include <algorithm>

#include "framework/plugin.h"

namespace attnlab {
namespace {

struct ForecastingOptions {
  std::string loss = "mse";
  double delta = 1;
  std::vector<std::int64_t> steps;
  bool own_units = false;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("loss", loss, one_of("mse", "mae", "huber"),
      "training loss: squared errors, absolute errors, or both");
    v("delta", delta, range(1e-9, 1e9), "for huber: the error above which the loss is linear");
    v("steps", steps, at_least(1),
      "steps of the horizon whose errors are also reported alone: [1, 96]");
    v("own_units", own_units, "also report errors in the data's own units");
  }
};

/// A forecast and what came, of one shape and on one device. @throws ShapeError.
std::pair<Tensor, Tensor> compared(const NamedTensors& outputs, const Batch& batch) {
  const Tensor& forecast = outputs.at("forecast");
  const Tensor& future = batch.fields.at("future");
  if (forecast.dim() == 3 && forecast.sizes() == future.sizes()) return {forecast, future};
  throw ShapeError(fmt::format(
      "forecasting: expected a forecast as large as `future`, [B, horizon, channels] {}, found {}",
      describe(future), describe(forecast)));
}

class ForecastMeter final : public Meter {
 public:
  /// @param units  of each channel, in the data's own; empty: not told
  ForecastMeter(const std::vector<std::int64_t>& steps, const std::vector<double>& units)
      : steps_(steps), units_(units) {}

  void add(const NamedTensors& outputs, const Batch& batch) override {
    const auto [forecast, future] = compared(outputs, batch);
    const Tensor error = forecast.to(at::kDouble) - future.to(at::kDouble);
    const Tensor squares = error.square().sum(0), sizes = error.abs().sum(0);
    squares_ = squares_.defined() ? squares_ + squares : squares;
    sizes_ = sizes_.defined() ? sizes_ + sizes : sizes;
    count_ += static_cast<double>(batch.size);
  }

  Metrics result() const override {
    if (count_ == 0) throw Error("forecasting: nothing was evaluated; give it a batch first");
    const Tensor squares = squares_.cpu() / count_, sizes = sizes_.cpu() / count_;
    Metrics metrics;
    const auto tell = [&](const std::string& name, const Tensor& square, const Tensor& size) {
      metrics["mse" + name] = square.mean().item<double>();
      metrics["mae" + name] = size.mean().item<double>();
    };
    tell("", squares, sizes);
    for (const std::int64_t step : steps_) {
      tell(fmt::format("_step_{}", step), squares[step - 1], sizes[step - 1]);
    }
    if (!units_.empty()) {
      const Tensor units = at::tensor(units_, at::kDouble);
      tell("_own", squares * units.square(), sizes * units);
    }
    return metrics;
  }

 private:
  std::vector<std::int64_t> steps_;
  std::vector<double> units_;
  Tensor squares_, sizes_;  ///< [horizon, channels] float64, sums over examples
  double count_ = 0;
};

class Forecasting final : public Task {
 public:
  Forecasting(const ForecastingOptions& options, const TaskSetup& setup) : options_(options) {
    std::sort(options_.steps.begin(), options_.steps.end());
    options_.steps.erase(std::unique(options_.steps.begin(), options_.steps.end()),
                         options_.steps.end());
    const FieldInfo& future = setup.data.field("future");
    for (const std::int64_t step : options.steps) {
      if (step <= future.shape.at(0)) continue;
      throw OptionError("steps", fmt::format("{} is beyond the horizon of dataset '{}', {}; leave "
                                             "it out, or set dataset.horizon",
                                             step, setup.data.name, future.shape.at(0)));
    }
    if (!options.own_units) return;
    units_ = future.deviation;
    if (units_.empty()) {
      throw OptionError("own_units",
                        fmt::format("dataset '{}' does not say how its values were scaled: they "
                                    "are in their own units already; set it to false",
                                    setup.data.name));
    }
  }

  Tensor loss(const NamedTensors& outputs, const Batch& batch) const override {
    const auto [forecast, found] = compared(outputs, batch);
    const Tensor future = found.to(forecast.scalar_type());
    if (options_.loss == "mae") return at::l1_loss(forecast, future);
    if (options_.loss == "mse") return at::mse_loss(forecast, future);
    return at::huber_loss(forecast, future, at::Reduction::Mean, options_.delta);
  }

  std::unique_ptr<Meter> meter() const override {
    return std::make_unique<ForecastMeter>(options_.steps, units_);
  }

  std::vector<MetricInfo> metrics() const override {
    std::vector<std::string> names = {""};
    for (const std::int64_t step : options_.steps) names.push_back(fmt::format("_step_{}", step));
    if (options_.own_units) names.emplace_back("_own");
    std::vector<MetricInfo> all;
    for (const std::string& name : names) {
      all.push_back({"mse" + name, Better::lower});
      all.push_back({"mae" + name, Better::lower});
    }
    return all;
  }

 private:
  ForecastingOptions options_;
  std::vector<double> units_;  ///< of each channel; empty: not asked for
};

}  // namespace

ATTNLAB_PLUGIN(task, Forecasting, ForecastingOptions,
               {.id = "attnlab/forecasting",
                .version = "1.0.0",
                .summary = "forecast of a series: squared and absolute errors",
                .licence = "Apache-2.0",
                .takes = {"forecast", "future"}})

}  // namespace attnlab
