// Statistics against published values and against enumeration.
#include "framework/comparison/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/compositions.h"

namespace attnlab::statistics_test {
namespace {

using namespace testing;
using ::testing::DoubleNear;
using ::testing::Pointwise;

/// Darwin's maize: cross- minus self-fertilised height in eighths of an inch, 15 pairs (Fisher, The
/// Design of Experiments, 1935; also the example of scipy.stats.wilcoxon).
const std::vector<double> kMaize = {49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48};
/// Student's sleep data (R's `sleep`): hours gained with two drugs, 10 patients.
const std::vector<double> kSleep1 = {0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0};
const std::vector<double> kSleep2 = {1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4};

/// The two-sided p-value of |sum of signs x weights| over every choice of signs, by counting.
double counted_p(const std::vector<double>& weights, double observed) {
  const std::uint64_t all = std::uint64_t{1} << weights.size();
  std::uint64_t as_far = 0;
  for (std::uint64_t signs = 0; signs < all; ++signs) {
    double sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      sum += (signs >> i & 1) != 0 ? weights[i] : -weights[i];
    }
    if (std::abs(sum) >= std::abs(observed) - 1e-9) ++as_far;
  }
  return static_cast<double>(as_far) / static_cast<double>(all);
}

TEST(Statistics, SummariseMeanAndSampleDeviation) {
  const Summary summary = summary_of({2, 4, 4, 4, 5, 5, 7, 9});
  EXPECT_EQ(summary.count, 8);
  EXPECT_NEAR(summary.mean, 5, 1e-14);
  EXPECT_NEAR(summary.deviation, std::sqrt(32.0 / 7), 1e-14);
  EXPECT_EQ(summary_of({3}).deviation, 0);
  EXPECT_EQ(summary_of({}).count, 0);
}

TEST(Statistics, IntervalsAreStudents) {
  // R: t.test(sleep1 - sleep2)$conf.int is -2.4598858, -0.7001142.
  const auto interval = confidence_interval(summary_of(paired_differences(kSleep1, kSleep2)));
  ASSERT_TRUE(interval.has_value());
  EXPECT_NEAR(interval->low, -2.4598858, 5e-8);
  EXPECT_NEAR(interval->high, -0.7001142, 5e-8);
  EXPECT_FALSE(confidence_interval(summary_of({1})).has_value());
  // Tables: the 0.975 quantile of one degree of freedom is 12.706.
  EXPECT_NEAR(confidence_interval(summary_of({-1, 1}))->high, 12.7062, 1e-4);
  EXPECT_THAT(message_of<Error>([] {
                confidence_interval(summary_of({1, 2}), 95);
              }),
              HasSubstr("must lie between 0 and 1, found 95"));
}

TEST(Statistics, IntervalsOfSharesAreWilsons) {
  const auto is = [](double successes, std::int64_t count, double low, double high) {
    const auto interval = wilson_interval(successes, count);
    EXPECT_NEAR(interval->low, low, 1e-12);
    EXPECT_NEAR(interval->high, high, 1e-12);
    // Its ends are where a share p differs from the one found by z standard errors of p's own.
    const double n = static_cast<double>(count), share = successes / n;
    for (const double p : {interval->low, interval->high}) {
      if (p <= 0 || p >= 1) continue;
      EXPECT_NEAR(std::abs(share - p) / std::sqrt(p * (1 - p) / n), 1.959963984540054, 1e-9);
    }
  };
  is(1, 4, 0.04558726080970055, 0.6993581574175981);
  is(188, 750, 0.22097303318445904, 0.2829014279189621);
  is(0, 10, 0, 0.2775327998628892);
  is(10, 10, 0.7224672001371107, 1);
  EXPECT_FALSE(wilson_interval(0, 0).has_value());
  EXPECT_THAT(message_of<Error>([] { wilson_interval(5, 4); }), HasSubstr("0 to 4 trials"));
}

TEST(Statistics, DifferencesThatAreEqualButForRoundingAreTies) {
  ASSERT_NE(0.9 - 0.8, 0.4 - 0.3);
  const auto d = paired_differences({0.9, 0.4, 0.7, 0.1 + 0.2}, {0.8, 0.3, 0.8, 0.3});
  EXPECT_EQ(d[0], d[1]);
  EXPECT_EQ(d[0], -d[2]);
  EXPECT_EQ(d[3], 0.0);
  EXPECT_NEAR(d[0], 0.1, 1e-12);
}

TEST(Statistics, AHugePairLeavesTheOthersAsTheyAre) {
  const std::vector<double> a = {10.5, 10.6, 10.7, 10.8, 10.9, 11, 11.1, 1e13},
                            b = {10, 10, 10, 10, 10, 10, 10, 2e13};
  const auto d = paired_differences(a, b);
  for (std::size_t i = 0; i < 7; ++i) EXPECT_NEAR(d[i], 0.5 + 0.1 * double(i), 1e-12);
  EXPECT_EQ(wilcoxon_signed_rank(d).statistic, 28);  // all but the largest of 36
  const auto alike = paired_differences({10.5, 10.6, 10.7, 1e13}, {10, 10, 10, 1e13});
  EXPECT_NEAR(alike[0], 0.5, 1e-12);
  EXPECT_EQ(alike[3], 0);
  EXPECT_THAT(merge_near({15, 20, 25, 1e13}, {15, 20, 25, 1e13}), ElementsAre(15, 20, 25, 1e13));
}

TEST(Statistics, DifferencesKeepWhatIsSmallButReal) {
  const auto d = paired_differences({0.8549, 0.8550}, {0.8548, 0.8548});
  EXPECT_NEAR(d[0], 1e-4, 1e-12);
  EXPECT_NEAR(d[1], 2e-4, 1e-12);
}

TEST(Statistics, DifferencesRefuseWhatIsNoPair) {
  EXPECT_THAT(message_of<Error>([] { paired_differences({1, 2}, {1}); }), HasSubstr("2 and 1"));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(message_of<Error>([&] {
                paired_differences({1, 2}, {1, nan});
              }),
              HasSubstr("pair 1 is not finite"));
}

TEST(Statistics, TiesShareTheMeanOfTheirRanks) {
  EXPECT_THAT(average_ranks({10, 20, 10, 5, 10}), ElementsAre(3, 5, 3, 1, 3));
  EXPECT_THAT(average_ranks({}), IsEmpty());
}

// ---- Wilcoxon's signed ranks

TEST(WilcoxonTest, AgreesWithPublishedExamples) {
  // scipy.stats.wilcoxon's documentation: statistic min(24, 96), p = 0.041259765625.
  const PairedResult maize = wilcoxon_signed_rank(kMaize);
  EXPECT_EQ(maize.statistic, 96);
  EXPECT_NEAR(maize.p_value, 0.041259765625, 1e-15);
  EXPECT_TRUE(maize.exact);
  // R's ?wilcox.test, depression data of Hollander and Wolfe (1973): V = 40, p = 0.01953 one-sided.
  const auto depression =
      paired_differences({1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30},
                         {0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29});
  EXPECT_EQ(wilcoxon_signed_rank(depression).statistic, 40);
  EXPECT_NEAR(wilcoxon_signed_rank(depression).p_value, 2 * 0.01953125, 1e-15);
}

TEST(WilcoxonTest, LeavesZerosOut) {
  // R's sleep data has one zero and ties; exactRankTests::wilcox.exact: V = 0, p = 2 / 2^9.
  const PairedResult sleep = wilcoxon_signed_rank(paired_differences(kSleep1, kSleep2));
  EXPECT_EQ(sleep.used, 9);
  EXPECT_EQ(sleep.statistic, 0);
  EXPECT_NEAR(sleep.p_value, 0.00390625, 1e-15);
  EXPECT_EQ(wilcoxon_signed_rank({0, 0, 0}).p_value, 1);
}

TEST(WilcoxonTest, IsExactWithTies) {
  for (const std::vector<double>& d : {std::vector<double>{1, 1, -1, 2, 2, 3, -3, 3, 4},
                                       {1, 1, 1, 1},
                                       {2, -2, 2, -2, 5, 5, 5},
                                       {0, 1, -1, 2, 0, 2, 2, 7}}) {
    std::vector<double> sizes, signs;
    for (const double value : d) {
      if (value == 0) continue;
      sizes.push_back(std::abs(value));
      signs.push_back(value > 0 ? 1 : -1);
    }
    const std::vector<double> ranks = average_ranks(sizes);
    double observed = 0;
    for (std::size_t i = 0; i < ranks.size(); ++i) observed += signs[i] * ranks[i];
    EXPECT_NEAR(wilcoxon_signed_rank(d).p_value, counted_p(ranks, observed), 1e-14);
  }
}

TEST(WilcoxonTest, OfManyPairsAgreesWithWholeNumberArithmetic) {
  // Counts of sign choices in Python's unbounded integers, divided at the end.
  std::vector<double> d;
  double positive = 0;
  for (int i = 60; i >= 1; --i) {  // W+ = 1200
    const bool up = positive + i <= 1200;
    positive += up ? i : 0;
    d.push_back(up ? i : -i);
  }
  ASSERT_EQ(positive, 1200);
  EXPECT_NEAR(wilcoxon_signed_rank(d).p_value, 0.03556317378476646, 1e-14);
  d.clear();
  for (int i = 1; i <= 201; ++i) d.push_back(i % 20 < 11 ? i : -i);
  const PairedResult many = wilcoxon_signed_rank(d);
  EXPECT_FALSE(many.exact);
  EXPECT_NEAR(many.p_value, 0.39737174477113424, 1e-3) << "the normal approximation";
}

TEST(WilcoxonTest, DoesNotDependOnOrderScaleOrDirection) {
  const double p = wilcoxon_signed_rank(kMaize).p_value;
  std::vector<double> turned(kMaize.rbegin(), kMaize.rend());
  for (double& value : turned) value *= -0.125;
  EXPECT_EQ(wilcoxon_signed_rank(turned).p_value, p);
}

// ---- the t test

TEST(PairedTTest, AgreesWithPublishedExamples) {
  // R: t.test(extra ~ group, data = sleep, paired = TRUE): t = -4.0621, df = 9, p = 0.002833.
  const auto sleep = paired_t(paired_differences(kSleep1, kSleep2));
  ASSERT_TRUE(sleep.has_value());
  EXPECT_NEAR(sleep->statistic, -4.0621, 5e-5);
  EXPECT_NEAR(sleep->p_value, 0.002833, 5e-7);
  // Fisher (1935): t = 2.148 with 14 degrees of freedom, p = 0.0497.
  EXPECT_NEAR(paired_t(kMaize)->statistic, 2.148, 5e-4);
  EXPECT_NEAR(paired_t(kMaize)->p_value, 0.0497, 5e-5);
}

TEST(PairedTTest, IsNotDefinedWithoutSpread) {
  EXPECT_FALSE(paired_t({0.1, 0.1, 0.1}).has_value());
  EXPECT_FALSE(paired_t({0.1}).has_value());
  EXPECT_FALSE(cohen_dz({0.1, 0.1, 0.1}).has_value());
  EXPECT_FALSE(paired_t({1e-170, -1e-170}).has_value()) << "squares that are 0";
  EXPECT_FALSE(paired_t({1e170, -1e170}).has_value()) << "squares without end";
}

// ---- sign flips

TEST(SignFlipTest, AgreesWithFishersCount) {
  // Fisher (1935), section 21: 863 of 32 768 sums are at least 314; two-sided twice that.
  const PairedResult maize = sign_flip(kMaize);
  EXPECT_TRUE(maize.exact);
  EXPECT_NEAR(maize.p_value, 2 * 863.0 / 32768, 1e-15);
  EXPECT_NEAR(maize.statistic, 314.0 / 15, 1e-12);
}

TEST(SignFlipTest, CountsEveryChoiceOfSigns) {
  for (const std::vector<double>& d : {std::vector<double>{0.1, 0.2, 0.3, -0.6},
                                       {0.3, -0.1, -0.2},
                                       {0, 0, 1, 2},
                                       {0.1, 0.1, 0.1, 0.1, -0.1}}) {
    double sum = 0;
    for (const double value : d) sum += value;
    EXPECT_NEAR(sign_flip(d).p_value, counted_p(d, sum), 1e-15);
  }
}

TEST(SignFlipTest, SamplesWhereThereAreTooManySigns) {
  // 18 of 25 coins up, two-sided: 2 sum_{i >= 18} C(25, i) / 2^25 = 0.0432852.
  std::vector<double> d(25, 1.0);
  std::fill(d.begin(), d.begin() + 7, -1.0);
  const PairedResult result = sign_flip(d);
  EXPECT_FALSE(result.exact);
  EXPECT_NEAR(result.p_value, 0.0432852, 0.003);  // four standard errors of 100 000 draws
  EXPECT_EQ(sign_flip(d).p_value, result.p_value) << "the same again";
  EXPECT_GT(sign_flip(std::vector<double>(40, 1.0)).p_value, 0) << "never below what was drawn";
}

// ---- what tests can reach, correction, effect sizes

TEST(Statistics, SayHowSmallAPValueCanBe) {
  EXPECT_EQ(smallest_p_value(PairedTest::wilcoxon, 5), 0.0625);
  EXPECT_EQ(smallest_p_value(PairedTest::permutation, 3), 0.25);
  EXPECT_EQ(smallest_p_value(PairedTest::t, 2), 0);
  EXPECT_EQ(smallest_p_value(PairedTest::t, 1), 1);
  for (std::size_t n = 2; n <= 10; ++n) {
    std::vector<double> up;
    for (std::size_t i = 1; i <= n; ++i) up.push_back(static_cast<double>(i));
    const auto pairs = static_cast<std::int64_t>(n);
    for (const PairedTest test : {PairedTest::wilcoxon, PairedTest::permutation}) {
      EXPECT_NEAR(paired_test(test, up)->p_value, smallest_p_value(test, pairs), 1e-15) << n;
    }
  }
  EXPECT_EQ(fewest_pairs(PairedTest::wilcoxon, 0.05), 6);
  EXPECT_EQ(fewest_pairs(PairedTest::wilcoxon, 0.05, 2), 7);
  EXPECT_EQ(fewest_pairs(PairedTest::wilcoxon, 0.0625), 5);
  EXPECT_EQ(fewest_pairs(PairedTest::t, 0.05, 100), 2);
}

TEST(Statistics, SayThatDrawnSignsHaveAFloor) {
  EXPECT_EQ(smallest_p_value(PairedTest::permutation, 20), std::ldexp(1.0, -19));
  for (const std::size_t pairs : {21, 40}) {
    EXPECT_EQ(smallest_p_value(PairedTest::permutation, static_cast<std::int64_t>(pairs)),
              1.0 / 100001);
  }
  EXPECT_EQ(sign_flip(std::vector<double>(40, 1.0)).p_value, 1.0 / 100001);
  EXPECT_EQ(fewest_pairs(PairedTest::permutation, 5e-6), 19);
  EXPECT_EQ(fewest_pairs(PairedTest::permutation, 1e-6), 0) << "no number is enough";
  EXPECT_EQ(fewest_pairs(PairedTest::wilcoxon, 1e-6), 21);
}

TEST(Statistics, TestNothingOfOnePair) {
  for (const PairedTest test : {PairedTest::wilcoxon, PairedTest::t, PairedTest::permutation}) {
    EXPECT_FALSE(paired_test(test, {1}).has_value()) << name_of(test);
    EXPECT_EQ(parse_paired_test(std::string(name_of(test))), test);
  }
  EXPECT_THAT(message_of<ConfigError>([] { parse_paired_test("wilcoxson"); }),
              HasSubstr("did you mean 'wilcoxon'?"));
}

TEST(Holm, StepsDown) {
  // By the definition: sorted 0.005 x 4, 0.01 x 3, 0.03 x 2, 0.04 x 1, never falling.
  EXPECT_THAT(holm({0.01, 0.04, 0.03, 0.005}),
              Pointwise(DoubleNear(1e-15), {0.03, 0.06, 0.06, 0.02}));
  EXPECT_THAT(holm({0.6, 0.7}), ElementsAre(1, 1)) << "no probability above one";
  EXPECT_THAT(holm({}), IsEmpty());
}

TEST(EffectSizes, AreThoseOfTheirDefinitions) {
  EXPECT_NEAR(*cohen_dz({1, 2, 3}), 2, 1e-14);  // mean 2, deviation 1
  EXPECT_NEAR(*cohen_dz({-1, -2, -3}), -2, 1e-14);
  EXPECT_NEAR(*rank_biserial(kMaize), (96.0 - 24) / 120, 1e-15);
  EXPECT_EQ(*rank_biserial({1, 2, 5}), 1);
  EXPECT_EQ(*rank_biserial({-1, -2}), -1);
  EXPECT_FALSE(rank_biserial({0, 0}).has_value());
}

}  // namespace
}  // namespace attnlab::statistics_test
