// Key power against its equation.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/support/naive_attention.h"
#include "tests/support/plugins.h"

namespace attnlab {
namespace {

Tensor attend(const AttentionInput& input, const std::string& options) {
  const AttentionShape shape{
      .heads = input.heads(), .head_dim = input.queries.size(3), .value_dim = input.values.size(3)};
  AttentionContext context;
  return testing::make_attention("key_power", shape, options)->forward(input, context);
}

/// k / |k|^p, a key at a time.
Tensor divided_by_power_of_norm(const Tensor& keys, double power) {
  Tensor out = keys.clone();
  const std::int64_t dim = keys.size(-1);
  for (double* key = out.data_ptr<double>(); key < out.data_ptr<double>() + out.numel();
       key += dim) {
    double norm = 0;
    for (std::int64_t c = 0; c < dim; ++c) norm += key[c] * key[c];
    for (std::int64_t c = 0; c < dim; ++c) key[c] /= std::pow(std::sqrt(norm), power);
  }
  return out;
}

TEST(KeyPowerAttention, IsAScaledDotProductWithKeysOverAPowerOfTheirNorm) {
  const AttentionInput input = testing::random_input(2, 3, 5, 7, 4, 6);
  AttentionInput mapped = input;
  mapped.keys = divided_by_power_of_norm(input.keys, 0.5);
  const Tensor expected = testing::naive_attention(mapped, {.scale = 2});
  const Tensor found = attend(input, "{power: 0.5, scale: 2}");
  EXPECT_LT(testing::largest_difference(found, expected), 1e-6);  // the scale is float32
}

TEST(KeyPowerAttention, WithPowerOneIgnoresKeyNorm) {
  const AttentionInput input = testing::random_input(1, 2, 5, 5, 4, 4);
  AttentionInput longer = input;
  longer.keys = input.keys * 8.0;
  const std::string options = "{power: 1}";
  EXPECT_LT(testing::largest_difference(attend(input, options), attend(longer, options)), 1e-12);
}

TEST(KeyPowerAttention, WithPowerHalfSeesKeysOfFourfoldNormAsTwiceAsLong) {
  const AttentionInput input = testing::random_input(1, 2, 5, 5, 4, 4);
  AttentionInput longer_keys = input, longer_queries = input;
  longer_keys.keys = input.keys * 4.0;
  longer_queries.queries = input.queries * 2.0;
  const std::string options = "{power: 0.5}";
  EXPECT_LT(
      testing::largest_difference(attend(longer_keys, options), attend(longer_queries, options)),
      1e-12);
}

}  // namespace
}  // namespace attnlab
