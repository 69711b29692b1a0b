// Misaligned attention: keys of one sequence, values of another, nothing added.
#include <gtest/gtest.h>

#include "tests/support/attended.h"
#include "tests/support/gradcheck.h"
#include "tests/support/naive_attention.h"
#include "tests/support/plugins.h"

namespace attnlab::misaligned_test {
namespace {

using testing::largest_difference;
using testing::naive_attention;
using testing::random_input;

Tensor attended(const std::string& name, const AttentionInput& in) {
  return testing::attended(*testing::make_attention(name, testing::shape_of(in)), in);
}

TEST(MisalignedAttention, EqualsItsEquationAndStandardAttentionUnderEveryRule) {
  at::manual_seed(1);
  for (auto [name, in] : testing::one_input_for_each_rule()) {
    in.values_from_elsewhere = true;
    const Tensor y = attended("misaligned", in);
    EXPECT_LT(largest_difference(y, naive_attention(in, {.scale = 0.5})), 1e-10) << name;
    EXPECT_TRUE(at::equal(y, attended("standard", in))) << name;
  }
}

TEST(MisalignedAttention, WeighsAValueByTheKeyInItsSlot) {
  at::manual_seed(2);
  AttentionInput in = random_input(1, 2, 4, 5, 4, 3);
  in.values_from_elsewhere = true;
  AttentionInput other_values = in, other_keys = in;
  other_values.values = in.values.flip(2);
  other_keys.keys = in.keys.flip(2);
  // Turning one sequence or the other gives the same pairs of slots, and not those of before.
  const Tensor y = attended("misaligned", other_values);
  EXPECT_LT(largest_difference(y, attended("misaligned", other_keys)), 1e-12);
  EXPECT_GT(largest_difference(y, attended("misaligned", in)), 0.1);
}

TEST(MisalignedAttention, GradientsAreRight) {
  at::manual_seed(3);
  AttentionInput in = random_input(2, 2, 3, 5, 4, 3);
  in.values_from_elsewhere = true;
  const auto f = testing::of_tokens(
      in, [&](const AttentionInput& one) { return attended("misaligned", one); });
  EXPECT_LT(testing::gradient_error(f, {in.queries, in.keys, in.values}), 1e-7);
}

}  // namespace
}  // namespace attnlab::misaligned_test
