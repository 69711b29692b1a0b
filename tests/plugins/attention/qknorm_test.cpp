// QKNorm and QKNorm-DS: unit queries and keys, scales for each head and channel, or each channel.
#include "tests/plugins/attention/qk_normalisation.h"

namespace attnlab::qknorm_test {
namespace {

using testing::Learned;
using testing::NaiveSettings;
using testing::NormalisedForm;
using testing::QKNormalisation;
using testing::random_input;
using testing::Row;

NaiveSettings equation(const Attention& attention) {
  const auto map = [&](const std::string& side) {
    return
        [factors = testing::numbers_of(attention, side + ".scale")](const Row& x, std::int64_t h) {
          return testing::times(testing::on_sphere(x), factors, h);
        };
  };
  NaiveSettings settings;
  settings.map_query = map("query");
  settings.map_key = map("key");
  return settings;
}

const NormalisedForm kQKNorm{"qknorm", "", equation};
const NormalisedForm kQKNormDs{"qknorm", "scales: channel", equation};

INSTANTIATE_TEST_SUITE_P(QKNorm, QKNormalisation, ::testing::Values(kQKNorm, kQKNormDs));

TEST(QKNormAttention, IgnoresBothNorms) {
  for (const NormalisedForm& form : {kQKNorm, kQKNormDs}) testing::expect_blind_to_norms(form);
}

TEST(QKNormAttention, StartsAtTheRootOfTheDimensionTimesTheCosine) {
  at::manual_seed(8);
  const AttentionInput in = random_input(2, 2, 4, 5, 9, 3);
  const Tensor expected = testing::cosines(in.queries, in.keys) * 3;
  for (const NormalisedForm& form : {kQKNorm, kQKNormDs}) {
    const auto start = [&](const std::string& more) {
      return testing::logits_of(form.built(in, more), in);
    };
    EXPECT_LT(testing::largest_difference(start(""), expected), 1e-5);
    EXPECT_LT(testing::largest_difference(start("init: 0.5"), expected / 12), 1e-5);
  }
}

TEST(QKNormAttention, LearnsScalesOfHeadsAndChannelsOrOfChannels) {
  const AttentionInput in = random_input(1, 2, 3, 3, 4, 3);
  EXPECT_EQ(testing::learned_by(kQKNorm.built(in)),
            Learned({{"query.scale", {8}}, {"key.scale", {8}}}));
  EXPECT_EQ(testing::learned_by(kQKNormDs.built(in)),
            Learned({{"query.scale", {4}}, {"key.scale", {4}}}));
}

}  // namespace
}  // namespace attnlab::qknorm_test
