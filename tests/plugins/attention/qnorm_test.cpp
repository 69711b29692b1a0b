// QNorm: unit queries, free keys.
#include "tests/plugins/attention/qk_normalisation.h"

namespace attnlab::qnorm_test {
namespace {

using testing::attended;
using testing::BuiltAttention;
using testing::largest_difference;
using testing::logits_of;
using testing::NaiveSettings;
using testing::QKNormalisation;
using testing::random_input;
using testing::Row;

NaiveSettings equation(const Attention&) {
  NaiveSettings settings;
  settings.map_query = [](const Row& x, std::int64_t) { return testing::on_sphere(x); };
  return settings;
}

const testing::NormalisedForm kQNorm{"qnorm", "", equation};

INSTANTIATE_TEST_SUITE_P(QNorm, QKNormalisation, ::testing::Values(kQNorm));

TEST(QNormAttention, IgnoresQueryNormAndFollowsKeyNorm) {
  at::manual_seed(5);
  const AttentionInput in = random_input(2, 2, 4, 5, 6, 3);
  const BuiltAttention attention = kQNorm.built(in);
  AttentionInput louder = in;
  louder.queries = testing::louder(in).queries;
  EXPECT_LT(largest_difference(attended(attention, in), attended(attention, louder)), 1e-12);
  // A key's norm multiplies its logits: that is what QUEST's keys cannot do.
  louder = in;
  louder.keys = in.keys * 3;
  EXPECT_LT(largest_difference(logits_of(attention, louder), logits_of(attention, in) * 3), 1e-12);
}

TEST(QNormAttention, EpsIsTheFloorOfAQuerysNorm) {
  at::manual_seed(6);
  AttentionInput in = random_input(1, 2, 3, 4, 5, 5);
  in.queries.narrow(2, 0, 2).mul_(0.01);
  NaiveSettings settings;
  settings.map_query = [](const Row& x, std::int64_t) { return testing::over_norm(x, 0.5); };
  const Tensor expected = naive_attention(in, settings);
  EXPECT_LT(largest_difference(attended(kQNorm.built(in, "eps: 0.5"), in), expected), 1e-10);
  EXPECT_GT(largest_difference(attended(kQNorm.built(in), in), expected), 1e-3);
}

TEST(QNormAttention, LearnsNothing) {
  EXPECT_EQ(testing::learned_by(kQNorm.built(random_input(1, 2, 3, 3, 4, 3))), testing::Learned());
}

}  // namespace
}  // namespace attnlab::qnorm_test
