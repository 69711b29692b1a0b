// The Monte Carlo of noisy and misaligned values against the closed forms.
#include "framework/studies/context_noise.h"

#include <cmath>

#include "framework/config/compose.h"
#include "tests/support/data_files.h"

namespace attnlab::context_noise_test {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

/// Within five standard errors; and the error is small enough for that to say something.
void expect_near(const Estimate& found, double expected, const std::string& what) {
  EXPECT_NEAR(found.value, expected, 5 * found.error + 1e-9 * std::abs(expected)) << what;
  EXPECT_LT(found.error, 0.08 * std::abs(expected)) << what;
}

std::string name(const NoiseRow& row) {
  return "d " + std::to_string(row.dim) + ", sharpness " + std::to_string(row.sharpness) +
         ", strength " + std::to_string(row.strength);
}

TEST(ContextNoise, AgreesWithTheClosedForms) {
  ContextNoiseOptions options;
  options.dims = {4, 64};
  options.samples = 2000;
  for (const double mean : {0.0, 0.7}) {
    options.mean = mean;
    const ContextNoise found = measure_context_noise(options);
    ASSERT_EQ(found.value_noise.size(), 18U);
    ASSERT_EQ(found.misalignment.size(), 18U);
    for (const NoiseRow& row : found.value_noise) {
      const double d = double(row.dim), c = row.concentration.value;
      expect_near(row.signal, d * mean * mean + d * c, "signal, " + name(row));
      expect_near(row.noise, row.strength * row.strength * d * c, "noise, " + name(row));
      expect_near(row.snr, row.closed_snr, "SNR, " + name(row));
      EXPECT_NEAR(row.closed_snr, (mean * mean + c) / (row.strength * row.strength * c), 1e-9);
    }
    for (const NoiseRow& row : found.misalignment) {
      const double d = double(row.dim), c = row.concentration.value;
      expect_near(row.noise, 2 * d * c + d * row.strength * row.strength, "γ, " + name(row));
      expect_near(row.snr, row.closed_snr, "SNR, " + name(row));
    }
  }
}

TEST(ContextNoise, MeasuresHowSharpTheWeightsAre) {
  ContextNoiseOptions options;
  options.dims = {8};
  options.sharpness = {0, 2, 1e5};
  const ContextNoise found = measure_context_noise(options);
  EXPECT_NEAR(found.value_noise[0].concentration.value, 1.0 / 32, 1e-12);
  EXPECT_GT(found.value_noise[3].concentration.value, 0.05);
  EXPECT_LT(found.value_noise[3].concentration.value, 0.6);
  EXPECT_GT(found.value_noise[6].concentration.value, 0.999);
}

TEST(ContextNoise, PrintedGammaHoldsForOneHotWeightsOnly) {
  ContextNoiseOptions options;
  options.dims = {64};
  options.sharpness = {0, 1e5};
  options.shifts = {0.5};
  const ContextNoise found = measure_context_noise(options);
  ASSERT_EQ(found.misalignment.size(), 2U);
  const NoiseRow &even = found.misalignment[0], &sharp = found.misalignment[1];
  EXPECT_EQ(even.printed_noise, 2 * 64 + 64 * 0.25);
  expect_near(sharp.noise, sharp.printed_noise, "one-hot");
  expect_near(even.noise, 2 * 64 / 32.0 + 64 * 0.25, "equal weights");
  EXPECT_LT(even.noise.value, 0.2 * even.printed_noise);
}

// Zero-mean values: one half, whatever the dimension, against the paper's decay.
TEST(ContextNoise, OfMisalignmentDoesNotGrowWithTheDimensionRelativeToTheSignal) {
  ContextNoiseOptions options;
  options.dims = {16, 512};
  options.sharpness = {2};
  options.shifts = {0, 1};
  const ContextNoise found = measure_context_noise(options);
  for (const std::size_t i : {0, 2}) expect_near(found.misalignment[i].snr, 0.5, "no shift");
  EXPECT_NEAR(found.misalignment[1].snr.value, found.misalignment[3].snr.value,
              5 * (found.misalignment[1].snr.error + found.misalignment[3].snr.error) + 0.01)
      << "a shift of every channel scales with the dimension as the signal does";
}

TEST(ContextNoise, OfWeightsFromKeysFavoursTheValues) {
  ContextNoiseOptions options;
  options.dims = {16};
  options.sharpness = {0, 2};
  options.noises = {1};
  options.samples = 2000;
  options.weights = "keys";
  const ContextNoise found = measure_context_noise(options);
  expect_near(found.value_noise[0].snr, 1, "equal weights do not depend on the tokens");
  const NoiseRow& chosen = found.value_noise[1];
  EXPECT_GT(chosen.snr.value, chosen.closed_snr + 10 * chosen.snr.error)
      << "the weighted tokens share the query's direction, so more of the signal stays";
}

TEST(ContextNoise, IsAFunctionOfItsSeed) {
  ContextNoiseOptions options;
  options.dims = {8};
  options.samples = 20;
  const auto snr = [&] { return measure_context_noise(options).value_noise[4].snr.value; };
  const double first = snr();
  EXPECT_EQ(snr(), first);
  options.seed = 1;
  EXPECT_NE(snr(), first);
}

TEST(ContextNoise, RefusesOptionsWithoutMeaning) {
  EXPECT_THAT(message_of<ConfigError>([] { context_noise_options(parse_yaml("{dim: [3]}", "x")); }),
              HasSubstr("did you mean 'dims'"));
  EXPECT_THAT(
      message_of<ConfigError>([] { context_noise_options(parse_yaml("{noises: [0]}", "x")); }),
      HasSubstr("noises"));
}

}  // namespace
}  // namespace attnlab::context_noise_test
