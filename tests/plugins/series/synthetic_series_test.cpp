// Series made up by rule.
#include <cmath>

#include "tests/support/data_files.h"
#include "tests/support/plugins.h"

namespace attnlab::synthetic_series_test {
namespace {

using testing::make_dataset;

TEST(SyntheticSeries, AreAFunctionOfSeedSplitAndIndex) {
  const auto one = make_dataset("synthetic_series", "{}", 1);
  const auto same = make_dataset("synthetic_series", "{}", 1);
  const auto other = make_dataset("synthetic_series", "{}", 2);
  const auto series = [](const Dataset& data, Split split, std::int64_t index) {
    return data.example(split, index, nullptr).at("series");
  };
  EXPECT_TRUE(series(*one, Split::train, 3).equal(series(*same, Split::train, 3)));
  EXPECT_FALSE(series(*one, Split::train, 3).equal(series(*other, Split::train, 3)));
  EXPECT_FALSE(series(*one, Split::train, 3).equal(series(*one, Split::test, 3)));
  EXPECT_EQ(one->info().fingerprint, same->info().fingerprint);
  EXPECT_NE(one->info().fingerprint, other->info().fingerprint);
  EXPECT_THROW(make_dataset("synthetic_series", "{test: 9223372036854775807}"), ConfigError);
}

TEST(SyntheticSeries, AreSinesOfTheirClassOfUnequalLength) {
  const auto data = make_dataset("synthetic_series", "{noise: 0, length: 64, channels: 2}");
  std::int64_t shortest = 64, longest = 0;
  for (std::int64_t i = 0; i < 64; ++i) {
    const NamedTensors one = data->example(Split::train, i, nullptr);
    const Tensor x = one.at("series");
    shortest = std::min(shortest, x.size(0));
    longest = std::max(longest, x.size(0));
    EXPECT_EQ(one.at("class").item<std::int64_t>(), i % 4);
    EXPECT_EQ(one.at("length").item<std::int64_t>(), x.size(0));
    EXPECT_EQ(one.at("valid").size(0), x.size(0));
    // x[t+1] + x[t-1] = 2 cos(w) x[t] for a sine of frequency w.
    const double twice = 2 * std::cos(2 * M_PI * double(i % 4 + 1) / 16);
    const std::int64_t n = x.size(0) - 2;
    const Tensor residue = x.narrow(0, 2, n) + x.narrow(0, 0, n) - twice * x.narrow(0, 1, n);
    EXPECT_LT(residue.abs().max().item<double>(), 1e-5) << i;
  }
  EXPECT_GE(shortest, 32);
  EXPECT_LT(shortest, 40);
  EXPECT_GT(longest, 56);
}

}  // namespace
}  // namespace attnlab::synthetic_series_test
