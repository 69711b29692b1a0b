// Effects of several domains without a common unit, and their mean: standardised differences and a
// random-effects model over them.
//
//   of one domain    d = mean(x) / sd(x), x the differences of n pairs
//                    g = J(n - 1) d,  J(m) = Γ(m/2) / (sqrt(m/2) Γ((m - 1)/2))
//                    v = J² (n - 1) / ((n - 3) n);  n = 3: none is finite, J² / n instead
//   over k domains   g_i = θ_i + e_i,  e_i ~ N(0, v_i),  θ_i ~ N(μ, τ²)
//                    τ² = max(0, (Q - (k - 1)) / (Σw - Σw²/Σw)),  w_i = 1/v_i
//                    μ = Σ w*_i g_i / Σ w*_i,  w*_i = 1 / (v_i + τ²)
//                    se² = max(1, Σ w*_i (g_i - μ)² / (k - 1)) / Σ w*_i,  Student's t, k - 1
//
// v is the variance where there is no effect: d sqrt(n) is Student's t then, of variance
// (n - 1) / (n - 3). The usual v adds J² d² / 2n, which gives a domain the less weight the more was
// found in it: with few seeds a mechanism that fails in one domain would hardly be seen in the
// mean. What v leaves out is scatter between domains, which se is made of. J² / n is below every
// variance: with three pairs, τ², Q and I² are mostly noise of the seeds.
//
// Sources: Hedges 1981 (J), Borenstein et al. 2009 (paired differences), DerSimonian and Laird 1986
// (τ²), Knapp and Hartung 2003 with the floor of 1 that Röver et al. 2015 recommend for few studies
// (se), Higgins et al. 2009 (interval of a new domain).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "framework/comparison/statistics.h"

namespace attnlab {

/// A standardised difference: in units of what the difference varies by from seed to seed.
struct Effect {
  double value = 0;
  double variance = 0;     ///< of its estimate where there is no effect, above 0
  std::int64_t pairs = 0;  ///< that it is of; 0: not known
};

/// Hedges' correction of a standardised difference for small samples. 0 below two degrees of
/// freedom, where the estimate has no mean.
double small_sample_factor(std::int64_t degrees_of_freedom);

/// J² / n: the variance of g if the deviation of the differences were known. Relative weights of
/// effects where some are of three pairs.
double rough_variance(std::int64_t pairs);
/// The variance of g where there is no effect; with three pairs, of which it is not finite, the
/// rough one.
double null_variance(std::int64_t pairs);
/// Whether an effect is of so few pairs that its variance is the rough one.
bool has_rough_variance(const Effect& effect);

/// Hedges' g of paired differences. Empty for fewer than three pairs and where they do not vary.
std::optional<Effect> standardised_effect(const std::vector<double>& differences);

/// The mean of several effects that may truly differ.
struct RandomEffects {
  std::int64_t count = 0;
  double mean = 0;            ///< μ
  double standard_error = 0;  ///< with Knapp and Hartung's factor where that is above 1
  double tau_squared = 0;     ///< scatter beyond the variances; 0: no more than chance explains
  double q = 0, q_p = 1;      ///< Cochran's Q and its p-value: are they alike?
  double i_squared = 0;       ///< share of the scatter that chance does not explain
  double p_value = 1;         ///< of μ = 0, two-sided
  std::optional<Interval> interval;    ///< of μ
  std::optional<Interval> prediction;  ///< of the effect in another domain; from three on
};

/// @param confidence  of the intervals. @throws Error for fewer than two effects, for a variance
///                    that is not above 0, and for numbers that are not finite.
RandomEffects random_effects(const std::vector<Effect>& effects, double confidence = 0.95);

}  // namespace attnlab
