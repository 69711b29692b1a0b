// QKNorm-LN: layer normalisation of queries and keys.
#include "tests/plugins/attention/qk_normalisation.h"

namespace attnlab::qknorm_ln_test {
namespace {

using testing::NaiveSettings;
using testing::numbers_of;
using testing::QKNormalisation;
using testing::random_input;
using testing::Row;

Row layer_normed(Row x, const Row& weight, const Row& bias) {
  const auto size = double(x.size());
  double mean = 0, variance = 0;
  for (const double c : x) mean += c / size;
  for (const double c : x) variance += (c - mean) * (c - mean) / size;
  for (std::size_t c = 0; c < x.size(); ++c) {
    x[c] = (x[c] - mean) / std::sqrt(variance + 1e-6) * weight[c] + bias[c];
  }
  return x;
}

NaiveSettings equation(const Attention& attention) {
  const auto map = [&](const std::string& side) {
    return [weight = numbers_of(attention, side + ".norm.weight"),
            bias = numbers_of(attention, side + ".norm.bias")](const Row& x, std::int64_t) {
      return layer_normed(x, weight, bias);
    };
  };
  NaiveSettings settings;
  settings.scale = 1 / std::sqrt(double(attention.shape().head_dim));
  settings.map_query = map("query");
  settings.map_key = map("key");
  return settings;
}

const testing::NormalisedForm kQKNormLn{"qknorm_ln", "", equation};

INSTANTIATE_TEST_SUITE_P(QKNormLn, QKNormalisation, ::testing::Values(kQKNormLn));

TEST(QKNormLnAttention, IgnoresBothNorms) { testing::expect_blind_to_norms(kQKNormLn); }

TEST(QKNormLnAttention, StartsAtTheRootOfTheDimensionTimesTheCosineOfWhatIsCentred) {
  at::manual_seed(8);
  const AttentionInput in = random_input(2, 2, 4, 5, 9, 3);
  const auto centred = [](const Tensor& x) { return x - x.mean(-1, true); };
  EXPECT_LT(
      testing::largest_difference(testing::logits_of(kQKNormLn.built(in), in),
                                  testing::cosines(centred(in.queries), centred(in.keys)) * 3),
      1e-4);
}

TEST(QKNormLnAttention, LearnsWeightAndBiasOfBothSides) {
  EXPECT_EQ(testing::learned_by(kQKNormLn.built(random_input(1, 2, 3, 3, 4, 3))),
            testing::Learned({{"query.norm.weight", {4}},
                              {"query.norm.bias", {4}},
                              {"key.norm.weight", {4}},
                              {"key.norm.bias", {4}}}));
}

}  // namespace
}  // namespace attnlab::qknorm_ln_test
