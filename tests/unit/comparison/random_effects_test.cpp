// Standardised effects and their mean over domains, against worked examples.
#include "framework/comparison/random_effects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/base/error.h"
#include "framework/base/random.h"

namespace attnlab::random_effects_test {
namespace {

TEST(SmallSampleFactor, IsHedgesCorrection) {
  // Γ(1) / (1 Γ(1/2)) = 1 / sqrt(π); Γ(3/2) / (sqrt(3/2) Γ(1)) = sqrt(π / 6)
  EXPECT_NEAR(small_sample_factor(2), 1 / std::sqrt(M_PI), 1e-12);
  EXPECT_NEAR(small_sample_factor(3), std::sqrt(M_PI / 6), 1e-12);
  EXPECT_NEAR(small_sample_factor(10), 1 - 3.0 / (4 * 10 - 1), 1e-3) << "his approximation";
  EXPECT_EQ(small_sample_factor(1), 0);
}

TEST(StandardisedEffect, IsTheMeanOverTheDeviationOfTheDifferences) {
  // mean 2, deviation 1, three pairs: d = 2, J = 1 / sqrt(π), v = J² / 3
  const auto effect = standardised_effect({1, 2, 3});
  ASSERT_TRUE(effect);
  EXPECT_NEAR(effect->value, 2 / std::sqrt(M_PI), 1e-12);
  EXPECT_NEAR(effect->variance, 1 / (3 * M_PI), 1e-12);
  EXPECT_NEAR(standardised_effect({-1, 0, 1})->variance, effect->variance, 1e-12)
      << "a domain's weight does not depend on what was found in it";
}

TEST(StandardisedEffect, HasTheVarianceOfItsEstimateWhereThereIsNoEffect) {
  // n = 5: J² (4 / 2) / 5
  const double factor = small_sample_factor(4);
  EXPECT_NEAR(null_variance(5), 2 * factor * factor / 5, 1e-12);
  Random random = RandomStreams(9).stream("null effects");
  for (const int pairs : {8, 20}) {
    constexpr int kDraws = 20000;
    double squares = 0;
    for (int draw = 0; draw < kDraws; ++draw) {
      std::vector<double> differences;
      for (int pair = 0; pair < pairs; ++pair) differences.push_back(random.normal());
      const Effect effect = *standardised_effect(differences);
      EXPECT_EQ(effect.pairs, pairs);
      squares += effect.value * effect.value;
    }
    EXPECT_NEAR(squares / kDraws / null_variance(pairs), 1, 0.06) << pairs;
  }
}

TEST(StandardisedEffect, OfThreePairsHasTheRoughVariance) {
  EXPECT_EQ(null_variance(3), rough_variance(3));
  EXPECT_LT(rough_variance(4), null_variance(4));
  EXPECT_TRUE(has_rough_variance(*standardised_effect({1, 2, 3})));
  EXPECT_FALSE(has_rough_variance(*standardised_effect({1, 2, 3, 5})));
}

TEST(StandardisedEffect, TakesThreePairsThatVary) {
  EXPECT_FALSE(standardised_effect({1, 2}));
  EXPECT_FALSE(standardised_effect({1, 1, 1}));
  EXPECT_FALSE(standardised_effect({0, 0, 0})) << "identical runs have no unit to measure by";
}

TEST(RandomEffects, OfTwoEffectsIsWhatAHandComputes) {
  // w = 4, 4; fixed mean 1; Q = 4 + 4 = 8; τ² = (8 - 1) / (8 - 32/8) = 7/4
  // w* = 1 / (1/4 + 7/4) = 1/2 each; μ = 1; Σ w* (g - μ)² / 1 = 1; se² = 1 / 1 = 1; t = 1
  const RandomEffects out = random_effects({{0, 0.25}, {2, 0.25}});
  EXPECT_NEAR(out.q, 8, 1e-12);
  EXPECT_NEAR(out.tau_squared, 1.75, 1e-12);
  EXPECT_NEAR(out.i_squared, 7.0 / 8, 1e-12);
  EXPECT_NEAR(out.mean, 1, 1e-12);
  EXPECT_NEAR(out.standard_error, 1, 1e-12);
  EXPECT_NEAR(out.p_value, 0.5, 1e-12) << "t of 1 with one degree of freedom";
  ASSERT_TRUE(out.interval);
  EXPECT_NEAR(out.interval->high - 1, std::tan(0.475 * M_PI), 1e-6);
  EXPECT_FALSE(out.prediction);
}

TEST(RandomEffects, OfUnequalWeightsIsWhatAHandComputes) {
  // w = 1, 1/2, 1/4; Σw = 7/4; fixed mean (0 + 1 + 1) / (7/4) = 8/7
  // Q = 64/49 + (1/2)(36/49) + (1/4)(400/49) = 182/49 = 26/7
  // Σw - Σw²/Σw = 7/4 - (21/16)(4/7) = 1; τ² = 26/7 - 2 = 12/7
  // w* = 7/19, 7/26, 7/40
  const RandomEffects out = random_effects({{0, 1}, {2, 2}, {4, 4}});
  EXPECT_NEAR(out.q, 26.0 / 7, 1e-12);
  EXPECT_NEAR(out.tau_squared, 12.0 / 7, 1e-12);
  const double a = 7.0 / 19, b = 7.0 / 26, c = 7.0 / 40, mean = (2 * b + 4 * c) / (a + b + c);
  EXPECT_NEAR(out.mean, mean, 1e-12);
  const double factor =
      (a * mean * mean + b * (2 - mean) * (2 - mean) + c * (4 - mean) * (4 - mean)) / 2;
  EXPECT_NEAR(out.standard_error, std::sqrt(std::max(1.0, factor) / (a + b + c)), 1e-12);
  ASSERT_TRUE(out.prediction);
  EXPECT_LT(out.prediction->low, out.interval->low);
}

TEST(RandomEffects, OfEffectsThatAgreeHaveNoVarianceBetweenThem) {
  const RandomEffects out = random_effects({{1, 1}, {1.1, 1}, {0.9, 1}, {1, 1}});
  EXPECT_EQ(out.tau_squared, 0);
  EXPECT_EQ(out.i_squared, 0);
  EXPECT_NEAR(out.mean, 1, 1e-12);
  EXPECT_NEAR(out.standard_error, 0.5, 1e-12) << "not below what the variances say";
}

// Thirteen trials of the BCG vaccine (Colditz et al., JAMA 271, 1994), log risk ratios; DerSimonian
// and Laird's numbers as the manual of metafor prints them (Viechtbauer, J. Stat. Softw. 36, 2010).
TEST(RandomEffects, HasThePublishedNumbersOfTheVaccineTrials) {
  const double trials[13][4] = {
      {4, 119, 11, 128},       {6, 300, 29, 274},        {3, 228, 11, 209},
      {62, 13536, 248, 12619}, {33, 5036, 47, 5761},     {180, 1361, 372, 1079},
      {8, 2537, 10, 619},      {505, 87886, 499, 87892}, {29, 7470, 45, 7232},
      {17, 1699, 65, 1600},    {186, 50448, 141, 27197}, {5, 2493, 3, 2338},
      {27, 16886, 29, 17825}};
  std::vector<Effect> effects;
  for (const auto& [ill, well, control_ill, control_well] : trials) {
    const double treated = ill + well, control = control_ill + control_well;
    effects.push_back({std::log(ill / treated / (control_ill / control)),
                       1 / ill - 1 / treated + 1 / control_ill - 1 / control});
  }
  const RandomEffects out = random_effects(effects);
  EXPECT_NEAR(out.tau_squared, 0.3088, 5e-5);
  EXPECT_NEAR(out.mean, -0.7141, 5e-5);
  EXPECT_NEAR(out.q, 152.2330, 5e-5);
  EXPECT_NEAR(100 * out.i_squared, 92.12, 5e-3);
}

TEST(RandomEffects, RefusesWhatHasNoMean) {
  EXPECT_THROW(random_effects({{1, 1}}), Error);
  EXPECT_THROW(random_effects({{1, 1}, {1, 0}}), Error);
  EXPECT_THROW(random_effects({{1, 1}, {std::nan(""), 1}}), Error);
}

// Without any true effect the summary is significant no more often than its level says.
TEST(RandomEffects, KeepsItsErrorRateOverDomainsOfFewSeeds) {
  constexpr int kStudies = 4000, kDomains = 7;
  Random random = RandomStreams(7).stream("null effects");
  for (const int seeds : {3, 5, 10}) {
    int found = 0;
    for (int study = 0; study < kStudies; ++study) {
      std::vector<Effect> effects;
      for (int domain = 0; domain < kDomains; ++domain) {
        std::vector<double> differences;
        for (int seed = 0; seed < seeds; ++seed) differences.push_back(random.normal());
        effects.push_back(*standardised_effect(differences));
      }
      found += random_effects(effects).p_value <= 0.05 ? 1 : 0;
    }
    const double rate = static_cast<double>(found) / kStudies;
    RecordProperty("rate_with_" + std::to_string(seeds) + "_seeds", std::to_string(rate));
    EXPECT_LE(rate, 0.05 + 3 * std::sqrt(0.05 * 0.95 / kStudies)) << seeds << " seeds";
    EXPECT_GE(rate, 0.002) << "a test that never finds anything tests nothing";
  }
}

}  // namespace
}  // namespace attnlab::random_effects_test
