// How many seeds a difference needs. Expected numbers are SciPy 1.17.1's:
//   c = t.isf(level / 2, n - 1); nct.sf(c, n - 1, d * sqrt(n)) + nct.cdf(-c, n - 1, d * sqrt(n))
// with n times 3 / pi for Wilcoxon's test; those of d = 0.5 (34 pairs) and 0.2 (199) are also
// G*Power's.
#include "framework/comparison/power.h"

#include <numbers>

#include "framework/base/json.h"
#include "tests/support/run_folders.h"

namespace attnlab::power_test {
namespace {

using namespace testing;
using nlohmann::json;

TEST(PairedTPower, IsThatOfTheNoncentralDistribution) {
  EXPECT_NEAR(paired_t_power(0.5, 34, 0.05), 0.8077775012792738, 1e-9);
  EXPECT_NEAR(paired_t_power(0.5, 33, 0.05), 0.7953658414875039, 1e-9);
  EXPECT_NEAR(paired_t_power(1, 10, 0.05), 0.8030968566327218, 1e-9);
  EXPECT_NEAR(paired_t_power(-2, 5, 0.05), 0.9088848681009402, 1e-9) << "of both sides";
  EXPECT_NEAR(paired_t_power(0.2, 200, 0.05), 0.8036666605857853, 1e-9);
  EXPECT_NEAR(paired_t_power(1.5, 9 / std::numbers::pi, 0.05), 0.28743934619890676, 1e-9);
  EXPECT_NEAR(paired_t_power(0.8, 15, 0.01), 0.5619286627667655, 1e-9);
  EXPECT_NEAR(paired_t_power(0, 12, 0.05), 0.05, 1e-9) << "without a difference the level itself";
  EXPECT_NEAR(paired_t_power(1e6, 2, 0.05), 1, 1e-9);
}

// Two pairs at such a level need |t| > cot(pi * 0.00025) = 1273.239; far from zero the power is
// that of |z| < d sqrt(2) / 1273.239 for a normal z.
TEST(PairedTPower, OfALargeEffectIsNotOneWhereTheCriticalValueIsLarger) {
  EXPECT_NEAR(paired_t_power(800, 2, 0.0005), 0.6257693, 1e-6);
  EXPECT_NEAR(paired_t_power(1e5, 2, 0.0005), 1, 1e-9);
  EXPECT_NEAR(*detectable_effect(PairedTest::t, 2, 0.0005, 0.8), 1153.8015, 0.01);
}

TEST(PairsFor, AreTheFewestWithThePower) {
  struct Case {
    double effect;
    std::int64_t t, wilcoxon, of_four;
  };
  for (const Case& one : {Case{0.2, 199, 208, 282}, Case{0.5, 34, 35, 48}, Case{0.8, 15, 15, 21},
                          Case{1, 10, 11, 15}}) {
    EXPECT_EQ(pairs_for(PairedTest::t, one.effect, 0.05, 0.8), one.t);
    EXPECT_EQ(pairs_for(PairedTest::wilcoxon, one.effect, 0.05, 0.8), one.wilcoxon);
    EXPECT_EQ(pairs_for(PairedTest::permutation, one.effect, 0.05, 0.8), one.t);
    EXPECT_EQ(pairs_for(PairedTest::t, one.effect, 0.05 / 4, 0.8), one.of_four);
  }
  EXPECT_EQ(pairs_for(PairedTest::t, 2, 0.05, 0.8), 5);
  EXPECT_EQ(pairs_for(PairedTest::t, 5, 0.05, 0.8), 3);
}

TEST(PairsFor, ReachTheLevelOfATestOfSignsAndRanks) {
  EXPECT_EQ(pairs_for(PairedTest::wilcoxon, 5, 0.05, 0.8), 6) << "five pairs give p = 0.0625";
  EXPECT_EQ(pairs_for(PairedTest::permutation, 5, 0.05 / 4, 0.8), 8);
  EXPECT_EQ(pairs_for(PairedTest::t, 1e-5, 0.05, 0.8), std::nullopt) << "more than a million";
}

// 2^-18 is below this level, and so are 19 and 20 pairs; the signs of 21 are drawn.
TEST(PairsFor, AreNotSoManyThatDrawnSignsCannotReachTheLevel) {
  constexpr double kLevel = 5e-6;
  EXPECT_EQ(pairs_for(PairedTest::permutation, 5, kLevel, 0.8), 19);
  EXPECT_EQ(pairs_for(PairedTest::permutation, 0.5, kLevel, 0.8), std::nullopt);
  EXPECT_EQ(pairs_for(PairedTest::permutation, 5, 1e-6, 0.8), std::nullopt);
  EXPECT_TRUE(detectable_effect(PairedTest::permutation, 20, kLevel, 0.8));
  EXPECT_EQ(detectable_effect(PairedTest::permutation, 21, kLevel, 0.8), std::nullopt);
  EXPECT_FALSE(more_pairs_reach(PairedTest::permutation, kLevel));
  EXPECT_TRUE(more_pairs_reach(PairedTest::permutation, 0.05));
  EXPECT_TRUE(more_pairs_reach(PairedTest::wilcoxon, kLevel));
}

TEST(DetectableEffect, HasThePower) {
  for (const std::int64_t pairs : {3, 5, 10}) {
    const auto effect = detectable_effect(PairedTest::t, pairs, 0.05, 0.8);
    ASSERT_TRUE(effect);
    EXPECT_NEAR(paired_t_power(*effect, double(pairs), 0.05), 0.8, 1e-9);
  }
  EXPECT_NEAR(*detectable_effect(PairedTest::t, 10, 0.05, 0.8), 0.9960013714554448, 1e-6);
  EXPECT_EQ(detectable_effect(PairedTest::wilcoxon, 5, 0.05, 0.8), std::nullopt);
}

TEST(UpperDeviation, IsThatOfTheChiSquaredDistribution) {
  EXPECT_NEAR(upper_deviation(2, 3), 2 * 2.1169364935501847, 1e-9);
  EXPECT_NEAR(upper_deviation(2, 10), 2 * 1.2933854444729525, 1e-9);
}

class PowerReportTest : public WithRunFolders {
 protected:
  void write_values(const std::string& experiment, const std::string& attention,
                    const std::vector<double>& accuracies) const {
    for (std::size_t i = 0; i < accuracies.size(); ++i) {
      RunStatus status = ended(RunState::done);
      status.metrics = {{"accuracy", accuracies[i]}};
      write_run(experiment, attention, static_cast<std::int64_t>(i), status);
    }
  }
  Comparison comparison(const std::string& test = "t", double level = 0.05) const {
    CompareOptions options;
    options.test = test;
    options.level = level;
    return compare_runs(find_runs({root()}), options, "");
  }
};

// Differences of 0, 1 and 2 points: their deviation is one point, so d is the stated difference.
TEST_F(PowerReportTest, TakesTheSpreadOfThePairsAndTheUnitOfTheTable) {
  write_values("small", "standard", {0.50, 0.60, 0.70});
  write_values("small", "quest", {0.50, 0.61, 0.72});
  const PowerReport report = power_report(comparison(), 0.5, 0.8);
  ASSERT_EQ(report.rows.size(), 1U);
  EXPECT_NEAR(report.rows[0].differences.deviation, 0.01, 1e-12);
  EXPECT_EQ(report.rows[0].seeds, 34);
  EXPECT_GT(report.rows[0].seeds_at_most, 34) << "three pairs say little of a deviation";
  EXPECT_THAT(power_text(report),
              AllOf(HasSubstr("0.5 points in accuracy"), HasSubstr("34 (up to "),
                    HasSubstr("Owen 1965"), HasSubstr("1.00")));
  EXPECT_EQ(power_report(comparison("wilcoxon"), 0.5, 0.8).rows[0].seeds, 35);
  const json out = json::parse(power_json(report));
  EXPECT_EQ(out.at("rows")[0].at("seeds"), 34);
  EXPECT_NEAR(out.at("rows")[0].at("sd").get<double>(), 1, 1e-9);
  EXPECT_EQ(out.at("unit"), "points");
}

TEST_F(PowerReportTest, HasEachTwoAttentionsAndCountsWhatHolmCorrects) {
  for (const char* attention : {"standard", "quest"}) {
    write_values("small", attention, {0.5, 0.6});
    write_values("other", attention, {0.5, 0.61});
  }
  const std::string third = "{use: quest, eps: 0.1, as: warm}";
  write_values("small", third, {0.5, 0.63});
  write_values("other", third, {0.5});
  const PowerReport report = power_report(comparison(), 1, 0.8);
  EXPECT_EQ(report.rows.size(), 6U);
  EXPECT_EQ(report.comparisons, 4) << "two attentions in two experiments, with a test yet or not";
  EXPECT_THAT(power_text(report), mentions("small:", "quest against standard:", "every pair",
                                           "other:", "warm against quest:", "1 of the two pairs"));
}

TEST_F(PowerReportTest, TellsNoNumberFromALargeOne) {
  write_values("small", "standard", {0.50, 0.60, 0.70});
  write_values("small", "quest", {0.50, 0.61, 0.72});
  const PowerReport many = power_report(comparison(), 1e-5, 0.8);
  EXPECT_THAT(power_text(many), AllOf(HasSubstr("> 1000000 (up to > 1000000)"),
                                      Not(HasSubstr("no number of seeds"))));
  EXPECT_EQ(json::parse(power_json(many)).at("more_seeds_reach"), true);
  const PowerReport none = power_report(comparison("permutation", 1e-6), 1, 0.8);
  EXPECT_THAT(power_text(none),
              AllOf(HasSubstr("none (up to none)"), HasSubstr("no number of seeds"),
                    HasSubstr("1e-05"), Not(HasSubstr("1000000"))));
  EXPECT_EQ(json::parse(power_json(none)).at("more_seeds_reach"), false);
}

TEST_F(PowerReportTest, RefusesWhatItCannotMean) {
  write_values("small", "standard", {0.5, 0.6});
  const auto refusal = [&](double difference, double power) {
    return message_of<ConfigError>([&] { power_report(comparison(), difference, power); });
  };
  EXPECT_THAT(refusal(0, 0.8), StartsWith("--difference"));
  EXPECT_THAT(refusal(1, 1), StartsWith("--power"));
  EXPECT_THAT(refusal(1, 0.8), HasSubstr("one attention"));
}

}  // namespace
}  // namespace attnlab::power_test
