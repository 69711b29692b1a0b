#include "framework/comparison/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <numeric>

#include "framework/base/error.h"
#include "framework/base/random.h"
#include "framework/base/text.h"

namespace attnlab {
namespace {

constexpr std::string_view kTests[] = {"wilcoxon", "t", "permutation"};
constexpr std::int64_t kMostExactRanks = 200;  // the table of sums has n (n + 1) entries
constexpr std::int64_t kMostExactSigns = 20;   // 2^20 sums take some ten milliseconds
constexpr std::int64_t kSampledSigns = 100000;
constexpr double kSmallestSampledP = 1.0 / static_cast<double>(kSampledSigns + 1);

std::int64_t size_of(const std::vector<double>& values) {
  return static_cast<std::int64_t>(values.size());
}

void check_probability(double value, const char* what) {
  if (value > 0 && value < 1) return;
  throw Error(fmt::format("{} must lie between 0 and 1, found {}", what, shortest(value)));
}

/// Indices in the order of their values.
std::vector<std::size_t> sorted_order(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  return order;
}

std::vector<double> without_zeros(const std::vector<double>& values) {
  std::vector<double> rest;
  std::copy_if(values.begin(), values.end(), std::back_inserter(rest),
               [](double value) { return value != 0; });
  return rest;
}

/// Ranks of the sizes of the differences, zeros left out, and the sum of those that are positive.
struct SignedRanks {
  std::vector<double> ranks;
  double positive = 0, total = 0;
};

SignedRanks signed_ranks(const std::vector<double>& differences) {
  const std::vector<double> used = without_zeros(differences);
  std::vector<double> sizes(used.size());
  std::transform(used.begin(), used.end(), sizes.begin(), [](double d) { return std::abs(d); });
  SignedRanks out;
  out.ranks = average_ranks(sizes);
  for (std::size_t i = 0; i < used.size(); ++i) {
    out.total += out.ranks[i];
    if (used[i] > 0) out.positive += out.ranks[i];
  }
  return out;
}

/// P(W+ <= smaller tail) of fair signs, doubled. Ranks are multiples of 1/2, so that the sums of
/// doubled ranks index a table of probabilities; each rank moves half of the mass up.
double exact_rank_p(const SignedRanks& signs) {
  const auto doubled = [](double rank) { return static_cast<std::size_t>(std::lround(2 * rank)); };
  std::vector<double> mass(doubled(signs.total) + 1, 0.0);
  mass[0] = 1;
  for (const double rank : signs.ranks) {
    const std::size_t step = doubled(rank);
    for (std::size_t sum = mass.size(); sum-- > 0;) {
      mass[sum] = 0.5 * (mass[sum] + (sum >= step ? mass[sum - step] : 0.0));
    }
  }
  const double smaller = std::min(signs.positive, signs.total - signs.positive);
  const auto end = mass.begin() + static_cast<std::ptrdiff_t>(doubled(smaller)) + 1;
  return std::min(1.0, 2 * std::accumulate(mass.begin(), end, 0.0));
}

double normal_rank_p(const SignedRanks& signs) {
  double variance = 0;  // of a sum of fair signs: a quarter of the ranks' squares, ties included
  for (const double rank : signs.ranks) variance += rank * rank / 4;
  const double distance = std::abs(signs.positive - signs.total / 2);
  const double z = std::max(0.0, distance - 0.5) / std::sqrt(variance);
  const boost::math::normal_distribution<double> normal;
  return std::min(1.0, 2 * boost::math::cdf(boost::math::complement(normal, z)));
}

/// The share of all signs whose sum is as far from zero as the observed one. Signs come in opposite
/// pairs, so the first one stays positive.
double exact_sign_p(const std::vector<double>& differences, double observed) {
  const std::uint64_t all = std::uint64_t{1} << (differences.size() - 1);
  std::uint64_t as_far = 0;
  for (std::uint64_t signs = 0; signs < all; ++signs) {
    double sum = differences[0];
    for (std::size_t i = 1; i < differences.size(); ++i) {
      sum += (signs >> (i - 1) & 1) != 0 ? -differences[i] : differences[i];
    }
    as_far += std::abs(sum) >= observed ? 1 : 0;
  }
  return static_cast<double>(as_far) / static_cast<double>(all);
}

double sampled_sign_p(const std::vector<double>& differences, double observed) {
  Random random = RandomStreams(0).stream("sign flips");
  std::int64_t as_far = 1;  // the observed signs themselves
  for (std::int64_t draw = 0; draw < kSampledSigns; ++draw) {
    double sum = 0;
    for (const double value : differences) sum += (random() >> 63) != 0 ? -value : value;
    as_far += std::abs(sum) >= observed ? 1 : 0;
  }
  return static_cast<double>(as_far) / static_cast<double>(kSampledSigns + 1);
}

/// What rounding may make of numbers of a size: more than it does, less than people mean.
double rounding_of(double scale) { return std::ldexp(scale, -40); }

}  // namespace

Summary summary_of(const std::vector<double>& values) {
  Summary summary;
  summary.count = size_of(values);
  for (const double value : values) summary.mean += value / static_cast<double>(values.size());
  if (values.size() > 1) {
    double squares = 0;
    for (const double value : values) squares += (value - summary.mean) * (value - summary.mean);
    summary.deviation = std::sqrt(squares / static_cast<double>(values.size() - 1));
  }
  return summary;
}

std::optional<Interval> confidence_interval(const Summary& summary, double confidence) {
  check_probability(confidence, "a confidence");
  if (summary.count < 2) return std::nullopt;
  const double n = static_cast<double>(summary.count);
  const boost::math::students_t_distribution<double> t(n - 1);
  const double half =
      boost::math::quantile(t, 0.5 + confidence / 2) * summary.deviation / std::sqrt(n);
  return Interval{summary.mean - half, summary.mean + half};
}

std::optional<Interval> wilson_interval(double successes, std::int64_t count, double confidence) {
  check_probability(confidence, "a confidence");
  const auto n = static_cast<double>(count);
  if (!(successes >= 0 && successes <= n)) {
    throw Error(
        fmt::format("a share must be of 0 to {} trials, found {}", count, shortest(successes)));
  }
  if (count == 0) return std::nullopt;
  const double z =
      boost::math::quantile(boost::math::normal_distribution<double>(), 0.5 + confidence / 2);
  const double share = successes / n, shrink = 1 + z * z / n;
  const double centre = (share + z * z / (2 * n)) / shrink;
  const double half = z / shrink * std::sqrt(share * (1 - share) / n + z * z / (4 * n * n));
  // Exact ends where nothing or everything succeeded, whatever the rounding.
  return Interval{successes == 0 ? 0 : centre - half, successes == n ? 1 : centre + half};
}

std::vector<double> merge_near(const std::vector<double>& values,
                               const std::vector<double>& scales) {
  std::vector<double> merged = values;
  std::optional<std::size_t> group;
  for (const std::size_t i : sorted_order(values)) {
    const bool near =
        group && values[i] - values[*group] <= rounding_of(std::min(scales[i], scales[*group]));
    if (!near) group = i;
    merged[i] = values[*group];
  }
  return merged;
}

double largest_size(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

std::vector<double> paired_differences(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) {
    throw Error(
        fmt::format("pairs need lists of one length, found {} and {} values", a.size(), b.size()));
  }
  std::vector<double> sizes, scales;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) {
      throw Error(fmt::format("pair {} is not finite: {}, {}; leave such runs out", i,
                              shortest(a[i]), shortest(b[i])));
    }
    scales.push_back(std::max(std::abs(a[i]), std::abs(b[i])));
    const double size = std::abs(a[i] - b[i]);
    sizes.push_back(size <= rounding_of(scales.back()) ? 0 : size);
  }
  sizes = merge_near(sizes, scales);
  std::vector<double> differences;
  for (std::size_t i = 0; i < a.size(); ++i) {
    differences.push_back(a[i] < b[i] ? -sizes[i] : sizes[i]);
  }
  return differences;
}

std::vector<double> average_ranks(const std::vector<double>& values) {
  const std::vector<std::size_t> order = sorted_order(values);
  std::vector<double> ranks(values.size());
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (std::size_t i = begin; i < end; ++i) {
      ranks[order[i]] = static_cast<double>(begin + 1 + end) / 2;
    }
  }
  return ranks;
}

std::string_view name_of(PairedTest test) { return kTests[static_cast<std::size_t>(test)]; }

PairedTest parse_paired_test(const std::string& name) {
  for (std::size_t i = 0; i < std::size(kTests); ++i) {
    if (name == kTests[i]) return static_cast<PairedTest>(i);
  }
  throw ConfigError(fmt::format("unknown test '{}'{}", name,
                                suggestion(name, {std::begin(kTests), std::end(kTests)})));
}

PairedResult wilcoxon_signed_rank(const std::vector<double>& differences) {
  const SignedRanks signs = signed_ranks(differences);
  PairedResult result;
  result.used = size_of(signs.ranks);
  result.statistic = signs.positive;
  if (result.used == 0) return result;
  result.exact = result.used <= kMostExactRanks;
  result.p_value = result.exact ? exact_rank_p(signs) : normal_rank_p(signs);
  return result;
}

std::optional<PairedResult> paired_t(const std::vector<double>& differences) {
  const Summary summary = summary_of(differences);
  // Equal differences have a mean that is off by rounding, and so a deviation.
  const bool vary = std::adjacent_find(differences.begin(), differences.end(),
                                       std::not_equal_to<>()) != differences.end();
  // Squares of very small or large ones are 0 or endless.
  const bool spread = summary.deviation > 0 && std::isfinite(summary.deviation);
  if (summary.count < 2 || !vary || !spread) return std::nullopt;
  const double n = static_cast<double>(summary.count);
  PairedResult result;
  result.used = summary.count;
  result.statistic = summary.mean / (summary.deviation / std::sqrt(n));
  const boost::math::students_t_distribution<double> t(n - 1);
  result.p_value = 2 * boost::math::cdf(boost::math::complement(t, std::abs(result.statistic)));
  return result;
}

PairedResult sign_flip(const std::vector<double>& differences) {
  PairedResult result;
  result.used = size_of(differences);
  if (differences.empty()) return result;
  double sum = 0, sizes = 0;
  for (const double value : differences) {
    sum += value;
    sizes += std::abs(value);
  }
  result.statistic = sum / static_cast<double>(differences.size());
  const double observed = std::abs(sum) - 1e-12 * sizes;  // sums round differently
  result.exact = result.used <= kMostExactSigns;
  result.p_value =
      result.exact ? exact_sign_p(differences, observed) : sampled_sign_p(differences, observed);
  return result;
}

std::optional<PairedResult> paired_test(PairedTest test, const std::vector<double>& differences) {
  if (differences.size() < 2) return std::nullopt;
  if (test == PairedTest::t) return paired_t(differences);
  return test == PairedTest::wilcoxon ? wilcoxon_signed_rank(differences) : sign_flip(differences);
}

double smallest_p_value(PairedTest test, std::int64_t pairs) {
  if (pairs < 2) return 1;
  if (test == PairedTest::t) return 0;
  const double all_alike = std::ldexp(1.0, static_cast<int>(1 - pairs));
  const bool drawn = test == PairedTest::permutation && pairs > kMostExactSigns;
  return drawn ? std::max(all_alike, kSmallestSampledP) : all_alike;
}

std::int64_t fewest_pairs(PairedTest test, double level, std::int64_t comparisons) {
  check_probability(level, "a level");
  std::int64_t pairs = 2;
  while (static_cast<double>(comparisons) * smallest_p_value(test, pairs) > level) {
    // From there on more pairs reach no smaller p-value.
    if (test == PairedTest::permutation && pairs > kMostExactSigns) return 0;
    ++pairs;
  }
  return pairs;
}

std::vector<double> holm(const std::vector<double>& p_values) {
  std::vector<double> adjusted(p_values.size());
  double least = 0;  // adjusted values never fall as p rises
  double left = static_cast<double>(p_values.size());
  for (const std::size_t i : sorted_order(p_values)) {
    least = std::max(least, std::min(1.0, left * p_values[i]));
    adjusted[i] = least;
    left -= 1;
  }
  return adjusted;
}

std::optional<double> cohen_dz(const std::vector<double>& differences) {
  const auto t = paired_t(differences);
  if (!t) return std::nullopt;
  return t->statistic / std::sqrt(static_cast<double>(t->used));
}

std::optional<double> rank_biserial(const std::vector<double>& differences) {
  const SignedRanks signs = signed_ranks(differences);
  if (signs.ranks.empty()) return std::nullopt;
  return (2 * signs.positive - signs.total) / signs.total;
}

}  // namespace attnlab
