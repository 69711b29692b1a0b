// Tests of two models on the same examples, against exact fractions and against every resample.
#include "framework/comparison/example_statistics.h"

#include <algorithm>
#include <cmath>

#include "tests/support/compositions.h"

namespace attnlab::example_statistics_test {
namespace {

using namespace testing;

TEST(ExampleStatistics, McNemarsTestIsThatOfFairCoins) {
  // As scipy.stats.binomtest(min(b, c), b + c).pvalue; here by whole numbers alone:
  // python3 -c 'from math import comb; b, c = 86, 150; print(
  //   min(1, 2 * sum(comb(b + c, k) for k in range(min(b, c) + 1)) / 2 ** (b + c)))'
  EXPECT_NEAR(mcnemar_exact(11, 1), 0.00634765625, 1e-15);
  EXPECT_NEAR(mcnemar_exact(3, 12), 0.03515625, 1e-15);
  EXPECT_NEAR(mcnemar_exact(0, 6), 0.03125, 1e-15);
  EXPECT_NEAR(mcnemar_exact(86, 150), 3.715936139571442e-05, 1e-16);
  EXPECT_NEAR(mcnemar_exact(59, 6), 4.964650327128617e-12, 1e-22);
  EXPECT_NEAR(mcnemar_exact(1200, 1310), 0.029561028111364476, 1e-13);
  EXPECT_EQ(mcnemar_exact(5, 5), 1);
  EXPECT_EQ(mcnemar_exact(0, 0), 1) << "no example tells them apart";
  for (std::int64_t b = 0; b < 9; ++b) {
    EXPECT_EQ(mcnemar_exact(b, 4), mcnemar_exact(4, b)) << "it has no direction";
  }
  EXPECT_THAT(message_of<Error>([] { mcnemar_exact(-1, 2); }), HasSubstr("counts examples"));
}

/// The weighted means of every resample, in order: all are equally likely.
std::vector<double> all_means(const std::vector<double>& values,
                              const std::vector<double>& weights) {
  const std::size_t n = values.size();
  std::size_t count = 1;
  for (std::size_t i = 0; i < n; ++i) count *= n;
  std::vector<double> means;
  for (std::size_t code = 0; code < count; ++code) {
    double sum = 0, weight = 0;
    for (std::size_t left = code, i = 0; i < n; ++i, left /= n) {
      sum += weights[left % n] * values[left % n];
      weight += weights[left % n];
    }
    means.push_back(sum / weight);
  }
  std::sort(means.begin(), means.end());
  return means;
}

TEST(ExampleStatistics, TheBootstrapIsNearAllResamples) {
  const std::vector<double> values = {0.7, -0.2, 0.4, 1.1, -0.5, 0.9};
  for (const std::vector<double>& weights :
       {std::vector<double>{1, 1, 1, 1, 1, 1}, std::vector<double>{4, 1, 2, 3, 5, 1}}) {
    const std::vector<double> means = all_means(values, weights);  // 46656 of them
    const BootstrapResult drawn = paired_bootstrap(values, weights, 0.9);
    double sum = 0, weight = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      sum += weights[i] * values[i];
      weight += weights[i];
    }
    EXPECT_NEAR(drawn.mean, sum / weight, 1e-15);
    // Shares of all means, of which a draw of 10,000 is off by less than 0.01 (five deviations).
    const auto share_below = [&](double bound) {
      const auto end = std::upper_bound(means.begin(), means.end(), bound);
      return static_cast<double>(end - means.begin()) / static_cast<double>(means.size());
    };
    EXPECT_NEAR(share_below(drawn.interval.low), 0.05, 0.012);
    EXPECT_NEAR(share_below(drawn.interval.high), 0.95, 0.012);
    EXPECT_NEAR(drawn.p_value, 2 * share_below(0), 0.025);
  }
}

TEST(ExampleStatistics, TheBootstrapOfManyIsNearlyNormal) {
  std::vector<double> values;
  for (int i = 0; i < 400; ++i) values.push_back(0.1 + std::sin(1.7 * i) + 0.3 * (i % 5));
  double mean = 0, squares = 0;
  for (const double value : values) mean += value / 400;
  for (const double value : values) squares += (value - mean) * (value - mean) / 400;
  const double half = 1.959964 * std::sqrt(squares / 400);
  const BootstrapResult drawn = paired_bootstrap(values, std::vector<double>(400, 1.0), 0.95);
  EXPECT_NEAR(drawn.mean, mean, 1e-12);
  EXPECT_NEAR(drawn.interval.low, mean - half, 0.06 * half);
  EXPECT_NEAR(drawn.interval.high, mean + half, 0.06 * half);
  EXPECT_DOUBLE_EQ(drawn.p_value, 2.0 / 10001) << "no draw is at 0 or below";
}

TEST(ExampleStatistics, TheBootstrapIsTheSameEachTimeAndHasNoDirection) {
  const std::vector<double> values = {1, 0, -1, 1, 1, 0, 0, 1, -1, 0};
  const std::vector<double> weights(values.size(), 1.0);
  const BootstrapResult first = paired_bootstrap(values, weights, 0.95);
  const BootstrapResult again = paired_bootstrap(values, weights, 0.95);
  EXPECT_EQ(first.interval.low, again.interval.low);
  EXPECT_EQ(first.interval.high, again.interval.high);
  std::vector<double> opposite;
  for (const double value : values) opposite.push_back(-value);
  const BootstrapResult other = paired_bootstrap(opposite, weights, 0.95);
  EXPECT_EQ(other.p_value, first.p_value);
  EXPECT_NEAR(other.interval.low, -first.interval.high, 1e-12);
  const BootstrapResult equal = paired_bootstrap({0, 0, 0}, {1, 1, 1}, 0.95);
  EXPECT_EQ(equal.p_value, 1);
  EXPECT_EQ(equal.interval.low, 0);
  EXPECT_EQ(equal.interval.high, 0);
}

TEST(ExampleStatistics, RefuseWhatHasNoMean) {
  const auto message = [](const std::vector<double>& values, const std::vector<double>& weights,
                          double confidence = 0.95) {
    return message_of<Error>([&] { paired_bootstrap(values, weights, confidence); });
  };
  EXPECT_THAT(message({}, {}), HasSubstr("a weight for each"));
  EXPECT_THAT(message({1, 2}, {1}), HasSubstr("found 2 and 1"));
  EXPECT_THAT(message({1, std::nan("")}, {1, 1}), HasSubstr("example 1"));
  EXPECT_THAT(message({1, 2}, {1, 0}), HasSubstr("weighs 0"));
  EXPECT_THAT(message({1}, {1}, 95), HasSubstr("between 0 and 1, found 95"));
}

}  // namespace
}  // namespace attnlab::example_statistics_test
