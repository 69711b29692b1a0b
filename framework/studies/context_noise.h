// What an attention's output loses when values are noisy, or come from another sequence than keys.
//
//   o = Σ a_i x_i,   x_i ~ N(mean 1, I_d),   a = softmax(sharpness z),   i = 1 ... n
//   value noise    Δ = Σ a_i ε_i,           ε_i ~ N(0, σ² I)
//   misalignment   Δ = Σ a_i (y_i − x_i),   y_i ~ N((mean + δ) 1, I)
//   SNR = E|o|² / E|Δ|²
//
//   closed form                       E|o|² = d mean² + d C,   C = E Σ a_i²
//     value noise (lemma 2)           E|Δ|² = σ² d C
//     misalignment (derivation, A.3)  E|Δ|² = 2 d C + d δ²
//   printed                           SNR = 1/σ² of value noise;  γ = 2 d + d δ² of misalignment
//
// The printed SNR is the closed form for mean 0. The printed γ leaves C out: it holds where one
// weight is one. W_v is orthogonal in the paper, so it drops out of every norm and is left out.
// Closed forms want weights that do not depend on the values (`weights: independent`, z_i normal);
// with `keys`, z_i = q·x_i/√d for a normal query q, and weights favour the values along q.
// Source: Indirect Attention, sections 3 and 4, appendix A.2 and A.3.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/config/node.h"
#include "framework/config/options.h"

namespace attnlab {

struct ContextNoiseOptions {
  std::vector<std::int64_t> dims = {16, 64, 256};
  std::vector<double> noises = {0.5, 1, 2}, shifts = {0, 0.5, 1}, sharpness = {0, 2, 20};
  double mean = 0;
  std::int64_t tokens = 32, samples = 500, seed = 0;
  std::string weights = "independent";

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("dims", dims, range(1, 65536), "channels of a value (d)");
    v("noises", noises, range(1e-6, 1e6), "standard deviations of value noise (σ)");
    v("shifts", shifts, range(-1e6, 1e6), "mean shifts between the sequences, a channel (δ)");
    v("sharpness", sharpness, range(0, 1e6), "standard deviations of the logits; 0: equal weights");
    v("mean", mean, range(-1e6, 1e6), "mean of the aligned values, a channel");
    v("tokens", tokens, range(1, 65536), "keys that a query weighs (n)");
    v("samples", samples, range(2, 1e7), "queries of the Monte Carlo");
    v("seed", seed, at_least(0), "of its random numbers");
    v("weights", weights, one_of("independent", "keys"),
      "logits independent of the values, or products of a query with the aligned tokens");
  }
};

/// Checks the options of a study. @throws ConfigError with every problem.
ContextNoiseOptions context_noise_options(const Node& values);

/// A mean over samples.
struct Estimate {
  double value = 0;
  double error = 0;  ///< its standard error
};

struct NoiseRow {
  std::int64_t dim = 0;
  double sharpness = 0, strength = 0;       ///< strength: σ or δ
  Estimate concentration;                   ///< C = Σ a²
  Estimate signal, noise, snr;              ///< Monte Carlo: E|o|², E|Δ|² and their ratio
  double closed_noise = 0, closed_snr = 0;  ///< with the measured C
  double printed_noise = 0, printed_snr = 0;
};

struct ContextNoise {
  std::vector<NoiseRow> value_noise, misalignment;
};

/// Every dimension with every sharpness and strength. The random numbers are a function of seed,
/// dimension and sharpness.
ContextNoise measure_context_noise(const ContextNoiseOptions& options);

}  // namespace attnlab
