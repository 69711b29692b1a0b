// QUEST's toy data against their rule.
#include <cmath>
#include <map>

#include "tests/support/data_files.h"
#include "tests/support/plugins.h"

namespace attnlab::spurious_retrieval_test {
namespace {

using attnlab::testing::mentions;
using ::testing::HasSubstr;
using testing::make_dataset;
using testing::message_of;

constexpr std::int64_t kKey = 10;
constexpr std::int64_t kUnbiased = 1, kBiased = 2;  // of the field `kind`

struct Sample {
  Tensor keys, values, kind;  ///< [N, 10], [N, 10], [N]
  std::int64_t label = 0, place = 0;
};

Sample sample(const Dataset& data, Split split, std::int64_t index) {
  const NamedTensors one = data.example(split, index, nullptr);
  const Tensor series = one.at("series").to(at::kDouble);
  return {series.narrow(1, 0, kKey), series.narrow(1, kKey, series.size(1) - kKey), one.at("kind"),
          one.at("class").item<std::int64_t>(), one.at("location").item<std::int64_t>()};
}

/// S and b as the seed gives them.
std::pair<Tensor, Tensor> spread_and_bias(std::uint64_t seed) {
  Random random = RandomStreams(seed).stream("synthetic", 3);
  const Tensor numbers = at::empty({kKey + 1, kKey}, at::kDouble);
  for (std::int64_t i = 0; i < numbers.numel(); ++i) {
    numbers.data_ptr<double>()[i] = random.normal();
  }
  const Tensor spread = numbers.narrow(0, 0, kKey);
  return {spread, spread.matmul(numbers[kKey])};
}

TEST(SpuriousRetrieval, NamesTheClassOfItsOneAnswer) {
  const auto data = make_dataset("spurious_retrieval", "{train: 40}");
  EXPECT_EQ(data->info().classes, 10);
  EXPECT_EQ(data->info().field("series").shape, (std::vector<std::int64_t>{20, 20}));
  for (std::int64_t i = 0; i < 40; ++i) {
    const Sample one = sample(*data, Split::train, i);
    EXPECT_TRUE(one.values.sum(1).equal(at::ones({20}, at::kDouble)));
    EXPECT_EQ(one.values.max().item<double>(), 1);
    EXPECT_EQ(one.values[one.place][one.label].item<double>(), 1) << i;
    EXPECT_EQ(one.kind.nonzero().numel(), 1);
    EXPECT_GT(one.kind[one.place].item<std::int64_t>(), 0);
  }
}

// Computed from the rule with another program.
TEST(SpuriousRetrieval, IsTheSameOnEveryMachine) {
  const auto data = make_dataset("spurious_retrieval", "{}", 5);
  const Sample first = sample(*data, Split::train, 0);
  EXPECT_EQ(first.place, 11);
  EXPECT_EQ(first.label, 2);
  EXPECT_EQ(first.kind[11].item<std::int64_t>(), kBiased);
  EXPECT_NEAR(first.keys[0][1].item<double>(), 0.1099502, 1e-6);
  EXPECT_NEAR(first.keys[11][0].item<double>(), 0.8765734, 1e-6);
  const Sample test = sample(*data, Split::test, 7);
  EXPECT_EQ(test.place, 8);
  EXPECT_EQ(test.label, 1);
  EXPECT_EQ(test.kind[8].item<std::int64_t>(), kUnbiased);
  EXPECT_NEAR(test.keys[0][0].item<double>(), -0.1494469, 1e-6);
  EXPECT_NEAR(test.keys[8][0].item<double>(), 4.7641099, 1e-6);
}

TEST(SpuriousRetrieval, DrawsAnswersFromTheirOwnDistributions) {
  const auto data = make_dataset("spurious_retrieval", "{train: 6000}", 3);
  const auto [spread, bias] = spread_and_bias(3);
  std::vector<Tensor> biased, unbiased;
  Tensor sum = at::zeros({kKey}, at::kDouble), squares = sum.clone();
  for (std::int64_t i = 0; i < 6000; ++i) {
    const Sample one = sample(*data, Split::train, i);
    const bool is_biased = one.kind[one.place].item<std::int64_t>() == kBiased;
    (is_biased ? biased : unbiased).push_back(one.keys[one.place]);
    const Tensor other = one.keys[(one.place + 1) % 20];
    sum += other;
    squares += other * other;
  }
  EXPECT_NEAR(double(biased.size()) / 6000, 0.5, 0.025);
  EXPECT_LT(sum.abs().max().item<double>() / 6000, 0.06);
  EXPECT_LT((squares / 6000 - 1).abs().max().item<double>(), 0.08);
  const Tensor near = at::stack(biased), wide = at::stack(unbiased);
  EXPECT_LT((near.mean(0) - bias).abs().max().item<double>(), 0.03);
  EXPECT_LT(((near - bias).pow(2).mean(0) - 0.1).abs().max().item<double>(), 0.015);
  const Tensor expected = spread.matmul(spread.t());
  const Tensor found = wide.t().matmul(wide) / double(unbiased.size());
  EXPECT_LT((found - expected).norm().item<double>(), 0.08 * expected.norm().item<double>());
}

TEST(SpuriousRetrieval, PutsAnAnswerInFiveAtTheMostFrequentPlace) {
  const auto data = make_dataset("spurious_retrieval", "{train: 5000}");
  std::map<std::int64_t, int> places;
  for (std::int64_t i = 0; i < 5000; ++i) ++places[sample(*data, Split::train, i).place];
  EXPECT_NEAR(places[10] / 5000.0, 0.197, 0.02);
  EXPECT_NEAR(places[8] / 5000.0, 0.121, 0.02);
  EXPECT_NEAR(places[12] / 5000.0, 0.121, 0.02);
}

TEST(SpuriousRetrieval, RoundsAndKeepsPlacesWithinTheSequence) {
  // Truncated, the mean lies half a place lower.
  const auto cut = make_dataset("spurious_retrieval", "{location_rounding: truncate}");
  double mean = 0;
  for (std::int64_t i = 0; i < 1000; ++i) mean += double(sample(*cut, Split::train, i).place);
  EXPECT_NEAR(mean / 1000, 9.5, 0.25);
  const auto narrow = make_dataset("spurious_retrieval", "{tokens: 6, train: 50}");
  for (std::int64_t i = 0; i < 50; ++i) EXPECT_LE(sample(*narrow, Split::train, i).place, 5);
  const auto uniform = make_dataset("spurious_retrieval", "{test_location: uniform}");
  std::map<std::int64_t, int> places;
  for (std::int64_t i = 0; i < 1000; ++i) ++places[sample(*uniform, Split::test, i).place];
  EXPECT_EQ(places.size(), 20U);
}

TEST(SpuriousRetrieval, HasNoBiasedAnswersInTestUnlessAsked) {
  const auto data = make_dataset("spurious_retrieval", "{test: 300}");
  const auto mixed = make_dataset("spurious_retrieval", "{test: 300, test_biased: 0.5}");
  int biased = 0;
  for (std::int64_t i = 0; i < 300; ++i) {
    EXPECT_EQ(sample(*data, Split::test, i).kind.max().item<std::int64_t>(), kUnbiased);
    biased += sample(*mixed, Split::test, i).kind.max().item<std::int64_t>() == kBiased;
  }
  EXPECT_NEAR(biased, 150, 35);
}

// The true cue is there: the longest token is nearly always an unbiased answer.
TEST(SpuriousRetrieval, CanBeSolvedByTheNormOfTokens) {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const auto data = make_dataset("spurious_retrieval", "{}", seed);
    for (std::int64_t i = 0; i < 500; ++i) {
      const Sample one = sample(*data, Split::test, i);
      found += one.keys.norm(2, 1).argmax().item<std::int64_t>() == one.place;
    }
  }
  EXPECT_GT(found / 2000.0, 0.93);
}

TEST(SpuriousRetrieval, KeepsItsDataWhereTheirSeedIsGiven) {
  const auto keys = [](const Dataset& data) { return sample(data, Split::train, 3).keys; };
  const auto own = make_dataset("spurious_retrieval", "{}", 4);
  const auto fixed = make_dataset("spurious_retrieval", "{data_seed: 4}", 0);
  const auto again = make_dataset("spurious_retrieval", "{data_seed: 4}", 9);
  const auto other = make_dataset("spurious_retrieval", "{data_seed: 5}", 9);
  EXPECT_TRUE(keys(*fixed).equal(keys(*own)));
  EXPECT_TRUE(keys(*fixed).equal(keys(*again)));
  EXPECT_FALSE(keys(*other).equal(keys(*again)));
  EXPECT_EQ(fixed->info().fingerprint, again->info().fingerprint);
  EXPECT_NE(other->info().fingerprint, again->info().fingerprint);
  const auto noisier = make_dataset("spurious_retrieval", "{data_seed: 4, bias_variance: 0.2}");
  EXPECT_NE(noisier->info().fingerprint, again->info().fingerprint);
}

TEST(SpuriousRetrieval, RefusesWhatIsNotThere) {
  const auto data = make_dataset("spurious_retrieval", "{test: 3}");
  EXPECT_EQ(data->size(Split::validation), 0);
  EXPECT_THAT(
      message_of<ConfigError>([] { make_dataset("spurious_retrieval", "{train_biased: 2}"); }),
      HasSubstr("train_biased"));
  EXPECT_THAT(
      message_of<ConfigError>([] { make_dataset("spurious_retrieval", "{location_mean: .nan}"); }),
      mentions("location_mean:", ".nan"));
  EXPECT_THAT(message_of<ConfigError>(
                  [] { make_dataset("spurious_retrieval", "{test: 9223372036854775807}"); }),
              HasSubstr("test: 9223372036854775807 is out of range"));
}

}  // namespace
}  // namespace attnlab::spurious_retrieval_test
