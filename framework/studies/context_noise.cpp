#include "framework/studies/context_noise.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "framework/base/random.h"
#include "framework/manifest/schema.h"
#include "framework/tensor/tensor.h"

namespace attnlab {
namespace {

/// Sums over samples of a signal's energy s and a noise's energy n.
class Energies {
 public:
  /// [samples] each, float64.
  void add(const Tensor& signal, const Tensor& noise) {
    count_ += static_cast<double>(signal.numel());
    s_ += signal.sum().item<double>();
    n_ += noise.sum().item<double>();
    ss_ += (signal * signal).sum().item<double>();
    nn_ += (noise * noise).sum().item<double>();
    sn_ += (signal * noise).sum().item<double>();
  }
  Estimate signal() const { return {s_ / count_, error(ss_ - s_ * s_ / count_)}; }
  Estimate noise() const { return {n_ / count_, error(nn_ - n_ * n_ / count_)}; }
  /// The ratio of the means r, with the deviation of s − r n for its error.
  Estimate snr() const {
    const double r = s_ / n_;
    return {r, error(ss_ - 2 * r * sn_ + r * r * nn_) / (n_ / count_)};
  }

 private:
  /// @param squares  summed squares of deviations; rounding may leave less than nothing of them.
  double error(double squares) const {
    return std::sqrt(std::max(0.0, squares) / (count_ - 1) / count_);
  }

  double count_ = 0, s_ = 0, n_ = 0, ss_ = 0, nn_ = 0, sn_ = 0;
};

/// What the samples of one dimension and sharpness have in common.
class Measurement {
 public:
  Measurement(const ContextNoiseOptions& options, std::int64_t dim, double sharpness)
      : options_(options),
        dim_(dim),
        sharpness_(sharpness),
        value_noise_(options.noises.size()),
        misalignment_(options.shifts.size()) {
    const RandomStreams streams(static_cast<std::uint64_t>(options.seed));
    generator_ = at::detail::createCPUGenerator(streams.key(
        "synthetic", static_cast<std::uint64_t>(dim), std::bit_cast<std::uint64_t>(sharpness)));
    constexpr std::int64_t kMost = 1 << 22;  // numbers of one tensor
    const std::int64_t chunk = std::max<std::int64_t>(1, kMost / (options.tokens * dim));
    for (std::int64_t done = 0; done < options.samples; done += chunk) {
      draw(std::min(chunk, options.samples - done));
    }
  }

  void report(ContextNoise& out) const {
    const double d = static_cast<double>(dim_), c = concentration_.signal().value;
    for (std::size_t i = 0; i < value_noise_.size(); ++i) {
      const double variance = options_.noises[i] * options_.noises[i];
      NoiseRow row = row_of(value_noise_[i], options_.noises[i]);
      row.closed_noise = row.printed_noise = variance * d * c;
      row.printed_snr = 1 / variance;
      out.value_noise.push_back(closed(row));
    }
    for (std::size_t i = 0; i < misalignment_.size(); ++i) {
      const double shift = d * options_.shifts[i] * options_.shifts[i];
      NoiseRow row = row_of(misalignment_[i], options_.shifts[i]);
      row.closed_noise = 2 * d * c + shift;
      row.printed_noise = 2 * d + shift;
      row.printed_snr = closed_signal() / row.printed_noise;
      out.misalignment.push_back(closed(row));
    }
  }

 private:
  Tensor normal(at::IntArrayRef sizes) const {
    return at::randn(sizes, generator_, at::TensorOptions().dtype(at::kFloat)).to(at::kDouble);
  }

  /// Weights [samples, 1, n] of tokens [samples, n, d].
  Tensor weights(const Tensor& tokens) const {
    const std::int64_t samples = tokens.size(0);
    Tensor logits;
    if (options_.weights == "keys") {
      const Tensor query = normal({samples, 1, dim_}) / std::sqrt(static_cast<double>(dim_));
      logits = query.matmul(tokens.transpose(1, 2));
    } else {
      logits = normal({samples, 1, options_.tokens});
    }
    return (sharpness_ * logits).softmax(-1);
  }

  static Tensor energy(const Tensor& x) { return x.pow(2).sum({1, 2}); }

  void draw(std::int64_t samples) {
    const std::vector<std::int64_t> sizes = {samples, options_.tokens, dim_};
    const Tensor x = normal(sizes) + options_.mean;
    const Tensor a = weights(x);
    const Tensor o = a.matmul(x), signal = energy(o);
    const Tensor squares = a.pow(2).sum({1, 2});
    concentration_.add(squares, squares);
    const Tensor noise = energy(a.matmul(normal(sizes)));
    for (std::size_t i = 0; i < value_noise_.size(); ++i) {
      value_noise_[i].add(signal, options_.noises[i] * options_.noises[i] * noise);
    }
    const Tensor difference = a.matmul(normal(sizes) + options_.mean) - o;  // weights sum to one
    for (std::size_t i = 0; i < misalignment_.size(); ++i) {
      misalignment_[i].add(signal, energy(difference + options_.shifts[i]));
    }
  }

  double closed_signal() const {
    const double d = static_cast<double>(dim_);
    return d * options_.mean * options_.mean + d * concentration_.signal().value;
  }

  NoiseRow row_of(const Energies& energies, double strength) const {
    NoiseRow row;
    row.dim = dim_;
    row.sharpness = sharpness_;
    row.strength = strength;
    row.concentration = concentration_.signal();
    row.signal = energies.signal();
    row.noise = energies.noise();
    row.snr = energies.snr();
    return row;
  }

  NoiseRow closed(NoiseRow row) const {
    row.closed_snr = closed_signal() / row.closed_noise;
    return row;
  }

  const ContextNoiseOptions& options_;
  std::int64_t dim_;
  double sharpness_;
  at::Generator generator_;
  Energies concentration_;
  std::vector<Energies> value_noise_, misalignment_;
};

}  // namespace

ContextNoiseOptions context_noise_options(const Node& values) {
  std::vector<std::string> problems;
  const Node resolved =
      resolve_options(values, schema_of<ContextNoiseOptions>(), "study", "study 'snr'", problems);
  if (!problems.empty()) throw ConfigError(problems);
  return read_options<ContextNoiseOptions>(resolved);
}

ContextNoise measure_context_noise(const ContextNoiseOptions& options) {
  const at::NoGradGuard no_gradients;
  ContextNoise out;
  for (const std::int64_t dim : options.dims) {
    for (const double sharpness : options.sharpness) {
      Measurement(options, dim, sharpness).report(out);
    }
  }
  return out;
}

}  // namespace attnlab
