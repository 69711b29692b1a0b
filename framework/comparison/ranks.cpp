#include "framework/comparison/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/fisher_f.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/quadrature/gauss_kronrod.hpp>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>

#include "framework/base/error.h"
#include "framework/comparison/statistics.h"

namespace attnlab {
namespace {

/// Doubled, so that mean ranks of ties are whole numbers.
using RankSums = std::vector<int>;

constexpr std::size_t kMostExactTreatments = 6;
constexpr std::size_t kMostExactSteps = 5000000;  // about a second

void check_blocks(const std::vector<std::vector<double>>& blocks) {
  if (blocks.size() < 2 || blocks.front().size() < 2) {
    throw Error("ranks need at least two experiments and two attentions");
  }
  for (const auto& block : blocks) {
    if (block.size() != blocks.front().size()) {
      throw Error("ranks need every attention in every experiment");
    }
  }
}

/// The probability of each list of rank sums, sorted, after one more block.
std::map<RankSums, double> with_block(const std::map<RankSums, double>& before, RankSums ranks) {
  std::sort(ranks.begin(), ranks.end());
  std::map<RankSums, double> after;
  do {
    for (const auto& [sums, probability] : before) {
      RankSums next = sums;
      for (std::size_t j = 0; j < next.size(); ++j) next[j] += ranks[j];
      std::sort(next.begin(), next.end());
      after[next] += probability;
    }
  } while (std::next_permutation(ranks.begin(), ranks.end()));
  double total = 0;
  for (const auto& [sums, probability] : after) total += probability;
  for (auto& [sums, probability] : after) probability /= total;
  return after;
}

std::int64_t square_sum(const RankSums& sums) {
  std::int64_t total = 0;
  for (const int sum : sums) total += std::int64_t{sum} * sum;
  return total;
}

/// The share of all orders within blocks whose rank sums spread at least as far as those observed.
/// Only the sorted sums matter: every block's order is as likely as every other.
std::optional<double> exact_p(const std::vector<RankSums>& blocks) {
  const std::size_t k = blocks.front().size();
  if (k > kMostExactTreatments) return std::nullopt;
  std::size_t orders = 1;
  for (std::size_t i = 2; i <= k; ++i) orders *= i;
  RankSums observed(k, 0);
  std::map<RankSums, double> reached = {{observed, 1.0}};
  std::size_t steps = 0;
  for (const RankSums& block : blocks) {
    steps += reached.size() * orders;
    if (steps > kMostExactSteps) return std::nullopt;
    for (std::size_t j = 0; j < k; ++j) observed[j] += block[j];
    reached = with_block(reached, block);
  }
  double p = 0;
  for (const auto& [sums, probability] : reached) {
    if (square_sum(sums) >= square_sum(observed)) p += probability;
  }
  return std::min(1.0, p);
}

void add_tests(FriedmanResult& result, double blocks, double treatments, double rank_squares) {
  const double centre = (treatments + 1) / 2;
  double between = 0;
  for (const double rank : result.mean_ranks) between += (rank - centre) * (rank - centre);
  between *= blocks;
  // What each block's ranks vary about their centre; k (k^2 - 1) / 12 a block without ties.
  const double whole = rank_squares - blocks * treatments * centre * centre;
  if (whole <= 0) return;  // every block is one great tie
  result.chi_squared = blocks * (treatments - 1) * between / whole;
  const double left = blocks * (treatments - 1) - result.chi_squared;
  const bool agree = left <= 1e-9 * result.chi_squared;
  result.f =
      agree ? std::numeric_limits<double>::infinity() : (blocks - 1) * result.chi_squared / left;
  const boost::math::chi_squared_distribution<double> chi(treatments - 1);
  result.chi_squared_p = boost::math::cdf(boost::math::complement(chi, result.chi_squared));
  const boost::math::fisher_f_distribution<double> fisher(treatments - 1,
                                                          (treatments - 1) * (blocks - 1));
  result.f_p = agree ? 0 : boost::math::cdf(boost::math::complement(fisher, result.f));
}

}  // namespace

FriedmanResult friedman(const std::vector<std::vector<double>>& blocks) {
  check_blocks(blocks);
  const std::size_t k = blocks.front().size();
  FriedmanResult result;
  result.mean_ranks.assign(k, 0);
  std::vector<RankSums> doubled;
  double rank_squares = 0;
  for (const std::vector<double>& block : blocks) {
    const std::vector<double> ranks = average_ranks(block);
    doubled.emplace_back();
    for (std::size_t j = 0; j < k; ++j) {
      result.mean_ranks[j] += ranks[j] / static_cast<double>(blocks.size());
      rank_squares += ranks[j] * ranks[j];
      doubled.back().push_back(static_cast<int>(std::lround(2 * ranks[j])));
    }
  }
  add_tests(result, static_cast<double>(blocks.size()), static_cast<double>(k), rank_squares);
  result.exact_p = exact_p(doubled);
  return result;
}

double studentized_range_cdf(double q, std::int64_t k) {
  if (k < 2) throw Error("a range needs at least two values");
  if (q <= 0) return 0;
  const boost::math::normal_distribution<double> normal;
  // z is the smallest of the k values, and the others lie in [z, z + q].
  const auto density = [&](double z) {
    const double inside = boost::math::cdf(normal, z + q) - boost::math::cdf(normal, z);
    return static_cast<double>(k) * boost::math::pdf(normal, z) *
           std::pow(inside, static_cast<double>(k - 1));
  };
  const double low = -9, high = 9;  // beyond, less than 1e-18 of the mass
  return boost::math::quadrature::gauss_kronrod<double, 61>::integrate(density, low, high, 8,
                                                                       1e-12);
}

double studentized_range_quantile(double probability, std::int64_t k) {
  if (!(probability > 0 && probability < 1)) throw Error("a probability lies between 0 and 1");
  // Each takes some ten milliseconds, and a report asks for few different ones many times.
  static std::mutex guard;
  static std::map<std::pair<double, std::int64_t>, double> known;
  const std::lock_guard<std::mutex> lock(guard);
  const auto found = known.find({probability, k});
  if (found != known.end()) return found->second;
  double low = 0, high = 20;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (studentized_range_cdf(middle, k) < probability ? low : high) = middle;
  }
  return known[{probability, k}] = (low + high) / 2;
}

double nemenyi_difference(std::int64_t treatments, std::int64_t blocks, double level) {
  const double k = static_cast<double>(treatments), n = static_cast<double>(blocks);
  const double q = studentized_range_quantile(1 - level, treatments) / std::sqrt(2.0);
  return q * std::sqrt(k * (k + 1) / (6 * n));
}

RankGroups rank_groups(const std::vector<double>& mean_ranks, double critical_difference) {
  RankGroups out;
  out.order.resize(mean_ranks.size());
  std::iota(out.order.begin(), out.order.end(), std::size_t{0});
  std::stable_sort(out.order.begin(), out.order.end(),
                   [&](std::size_t a, std::size_t b) { return mean_ranks[a] < mean_ranks[b]; });
  std::size_t covered = 0;  // one past the last position of the group before
  for (std::size_t first = 0; first < out.order.size(); ++first) {
    std::size_t last = first;
    while (last + 1 < out.order.size() &&
           mean_ranks[out.order[last + 1]] - mean_ranks[out.order[first]] < critical_difference) {
      ++last;
    }
    if (last > first && last + 1 > covered) {
      out.groups.emplace_back(first, last);
      covered = last + 1;
    }
  }
  return out;
}

std::string rank_diagram(const std::vector<std::string>& names,
                         const std::vector<double>& mean_ranks, double critical_difference) {
  constexpr std::size_t kWidest = 60;
  const std::size_t k = names.size();
  const std::size_t unit = std::max<std::size_t>(4, kWidest / std::max<std::size_t>(1, k - 1));
  const auto column = [&](double rank) {
    return static_cast<std::size_t>(std::lround((rank - 1) * static_cast<double>(unit)));
  };
  const std::size_t width = (k - 1) * unit + 1;
  const auto line = [&](std::size_t first, std::size_t last, char mark, const std::string& text) {
    std::string row(std::max(width, last + 1), ' ');
    std::fill(row.begin() + static_cast<std::ptrdiff_t>(first),
              row.begin() + static_cast<std::ptrdiff_t>(last) + 1, mark);
    return fmt::format("  {}  {}\n", row, text);
  };
  const auto number = [](double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", value);
    return std::string(text);
  };
  std::string labels(width + 4, ' '), axis(width, '-');
  for (std::size_t rank = 1; rank <= k; ++rank) {
    labels.replace((rank - 1) * unit, std::to_string(rank).size(), std::to_string(rank));
    axis[(rank - 1) * unit] = '+';
  }
  labels.erase(labels.find_last_not_of(' ') + 1);
  std::string out = fmt::format("  {}\n  {}  mean rank, 1 is best\n", labels, axis);
  const RankGroups groups = rank_groups(mean_ranks, critical_difference);
  for (const std::size_t j : groups.order) {
    const std::size_t at = column(mean_ranks[j]);
    out += line(at, at, '*', fmt::format("{}  {}", number(mean_ranks[j]), names[j]));
  }
  for (const auto& [first, last] : groups.groups) {
    std::string members;
    for (std::size_t i = first; i <= last; ++i) {
      members += (i > first ? ", " : "") + names[groups.order[i]];
    }
    out += line(column(mean_ranks[groups.order[first]]), column(mean_ranks[groups.order[last]]),
                '=', "no significant difference: " + members);
  }
  return out + line(0, column(1 + critical_difference), '~',
                    "critical difference " + number(critical_difference));
}

}  // namespace attnlab
