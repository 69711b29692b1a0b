#include "framework/comparison/example_statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <cmath>

#include "framework/base/error.h"
#include "framework/base/random.h"
#include "framework/base/text.h"

namespace attnlab {
namespace {

struct Drawn {
  double difference = 0, weight = 0;  ///< the difference times the weight
};

std::vector<Drawn> checked(const std::vector<double>& differences,
                           const std::vector<double>& weights, double confidence) {
  if (differences.empty() || differences.size() != weights.size()) {
    throw Error(fmt::format("a bootstrap needs a weight for each of its examples, found {} and {}",
                            differences.size(), weights.size()));
  }
  if (!(confidence > 0 && confidence < 1)) {
    throw Error(
        fmt::format("a confidence must lie between 0 and 1, found {}", shortest(confidence)));
  }
  std::vector<Drawn> out;
  out.reserve(differences.size());
  for (std::size_t i = 0; i < differences.size(); ++i) {
    if (!std::isfinite(differences[i]) || !std::isfinite(weights[i]) || weights[i] <= 0) {
      throw Error(fmt::format("example {} of a bootstrap differs by {} and weighs {}", i,
                              shortest(differences[i]), shortest(weights[i])));
    }
    out.push_back({differences[i] * weights[i], weights[i]});
  }
  return out;
}

/// One of 0, ..., count - 1, each as likely but for a part of count / 2^32.
std::size_t drawn_from(std::uint64_t count, Random& random) {
  return static_cast<std::size_t>((random() >> 32) * count >> 32);
}

/// Between the sorted values where the share falls between two (Hyndman and Fan's type 7).
double percentile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(place);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (place - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

}  // namespace

double mcnemar_exact(std::int64_t first, std::int64_t second) {
  if (first < 0 || second < 0) {
    throw Error(fmt::format("McNemar's test counts examples, found {} and {}", first, second));
  }
  if (first + second == 0) return 1;
  const boost::math::binomial_distribution<double> coin(static_cast<double>(first + second), 0.5);
  return std::min(1.0, 2 * boost::math::cdf(coin, static_cast<double>(std::min(first, second))));
}

BootstrapResult paired_bootstrap(const std::vector<double>& differences,
                                 const std::vector<double>& weights, double confidence) {
  const std::vector<Drawn> examples = checked(differences, weights, confidence);
  const std::uint64_t count = examples.size();
  Drawn all;
  for (const Drawn& one : examples) {
    all.difference += one.difference;
    all.weight += one.weight;
  }
  Random random = RandomStreams(0).stream("examples");
  std::vector<double> means(static_cast<std::size_t>(kBootstrapDraws));
  std::int64_t not_above = 0, not_below = 0;
  for (double& mean : means) {
    Drawn sum;
    for (std::uint64_t i = 0; i < count; ++i) {
      const Drawn& one = examples[drawn_from(count, random)];
      sum.difference += one.difference;
      sum.weight += one.weight;
    }
    mean = sum.difference / sum.weight;
    not_above += mean <= 0 ? 1 : 0;
    not_below += mean >= 0 ? 1 : 0;
  }
  std::sort(means.begin(), means.end());
  const double outside = (1 - confidence) / 2;
  BootstrapResult out;
  out.mean = all.difference / all.weight;
  out.interval = {percentile(means, outside), percentile(means, 1 - outside)};
  const auto fewer = static_cast<double>(std::min(not_above, not_below));
  out.p_value = std::min(1.0, 2 * (1 + fewer) / static_cast<double>(kBootstrapDraws + 1));
  return out;
}

}  // namespace attnlab
