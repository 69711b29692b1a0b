#include "framework/comparison/random_effects.h"

#include <algorithm>
#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>

#include "framework/base/error.h"

namespace attnlab {
namespace {

/// Student's t has no finite variance with two degrees of freedom.
constexpr std::int64_t kLastWithoutVariance = 3;

using Student = boost::math::students_t_distribution<double>;

void check(const std::vector<Effect>& effects) {
  if (effects.size() < 2) throw Error("a mean of effects needs at least two of them");
  for (const Effect& one : effects) {
    if (std::isfinite(one.value) && std::isfinite(one.variance) && one.variance > 0) continue;
    throw Error("an effect must be finite, with a variance above 0");
  }
}

struct Weighted {
  double sum = 0, sum_of_squares = 0, mean = 0;
};

/// With weights 1 / (variance + tau_squared).
Weighted weighted(const std::vector<Effect>& effects, double tau_squared) {
  Weighted out;
  for (const Effect& one : effects) {
    const double weight = 1 / (one.variance + tau_squared);
    out.sum += weight;
    out.sum_of_squares += weight * weight;
    out.mean += weight * one.value;
  }
  out.mean /= out.sum;
  return out;
}

double scatter(const std::vector<Effect>& effects, double tau_squared, double mean) {
  double total = 0;
  for (const Effect& one : effects) {
    total += (one.value - mean) * (one.value - mean) / (one.variance + tau_squared);
  }
  return total;
}

Interval around(double mean, double half) { return {mean - half, mean + half}; }

double student_quantile(double confidence, double degrees) {
  return boost::math::quantile(Student(degrees), 0.5 + confidence / 2);
}

}  // namespace

double small_sample_factor(std::int64_t degrees_of_freedom) {
  if (degrees_of_freedom < 2) return 0;
  const double half = static_cast<double>(degrees_of_freedom) / 2;
  return std::exp(std::lgamma(half) - std::lgamma(half - 0.5)) / std::sqrt(half);
}

double rough_variance(std::int64_t pairs) {
  const double factor = small_sample_factor(pairs - 1);
  return factor * factor / static_cast<double>(pairs);
}

double null_variance(std::int64_t pairs) {
  const double n = static_cast<double>(pairs);
  return rough_variance(pairs) * (pairs > kLastWithoutVariance ? (n - 1) / (n - 3) : 1);
}

bool has_rough_variance(const Effect& effect) { return effect.pairs <= kLastWithoutVariance; }

std::optional<Effect> standardised_effect(const std::vector<double>& differences) {
  const auto d = cohen_dz(differences);
  if (differences.size() < 3 || !d) return std::nullopt;
  const auto pairs = static_cast<std::int64_t>(differences.size());
  return Effect{small_sample_factor(pairs - 1) * *d, null_variance(pairs), pairs};
}

RandomEffects random_effects(const std::vector<Effect>& effects, double confidence) {
  check(effects);
  const double others = static_cast<double>(effects.size()) - 1;
  RandomEffects out;
  out.count = static_cast<std::int64_t>(effects.size());
  const Weighted fixed = weighted(effects, 0);
  out.q = scatter(effects, 0, fixed.mean);
  const boost::math::chi_squared_distribution<double> chi(others);
  out.q_p = boost::math::cdf(boost::math::complement(chi, out.q));
  out.i_squared = out.q > 0 ? std::max(0.0, (out.q - others) / out.q) : 0;
  const double spread = fixed.sum - fixed.sum_of_squares / fixed.sum;
  out.tau_squared = std::max(0.0, (out.q - others) / spread);
  const Weighted random = weighted(effects, out.tau_squared);
  out.mean = random.mean;
  const double factor = scatter(effects, out.tau_squared, out.mean) / others;
  out.standard_error = std::sqrt(std::max(1.0, factor) / random.sum);
  const double t = std::abs(out.mean) / out.standard_error;
  out.p_value = std::min(1.0, 2 * boost::math::cdf(boost::math::complement(Student(others), t)));
  out.interval = around(out.mean, student_quantile(confidence, others) * out.standard_error);
  if (effects.size() > 2) {
    const double wide = std::sqrt(out.tau_squared + out.standard_error * out.standard_error);
    out.prediction = around(out.mean, student_quantile(confidence, others - 1) * wide);
  }
  return out;
}

}  // namespace attnlab
