// Elliptical-QUEST: what it shares with Elliptical attention, and unit keys.
#include "tests/plugins/attention/elliptical.h"

namespace attnlab::elliptical_quest_test {
namespace {

using testing::EllipticalForm;
using testing::EllipticalMechanism;

INSTANTIATE_TEST_SUITE_P(EllipticalQuest, EllipticalMechanism,
                         ::testing::Values(EllipticalForm{"elliptical_quest", "quest", true}));

TEST(EllipticalQuestAttention, IgnoresTheNormOfKeys) {
  EXPECT_LT(testing::change_by_longer_keys("elliptical_quest"), 1e-12);
}

TEST(EllipticalQuestAttention, EpsIsTheFloorOfAKeysNorm) {
  at::manual_seed(10);
  AttentionInput in = testing::random_input(1, 2, 3, 4, 4, 4);
  in.keys.narrow(2, 0, 2).mul_(0.01);
  const AttentionInput first = testing::with_values(in, at::randn_like(in.values));
  const AttentionInput stretched =
      testing::with_metric(in, testing::naive_metric(in, first.values));
  const Tensor expected =
      testing::naive_attention(stretched, {.scale = 1, .unit_keys = true, .eps = 0.5});
  const Tensor found = testing::attended("elliptical_quest", first, in, "{eps: 0.5}").second;
  EXPECT_LT(testing::largest_difference(found, expected), 1e-10);
}

}  // namespace
}  // namespace attnlab::elliptical_quest_test
