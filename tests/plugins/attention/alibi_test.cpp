// ALiBi: its equation by loops, the published slopes, and that places count by their distances
// alone.
#include <cmath>

#include "tests/support/attended.h"
#include "tests/support/data_files.h"
#include "tests/support/gradcheck.h"
#include "tests/support/naive_weights.h"
#include "tests/support/plugins.h"
#include "tests/support/ragged.h"

namespace attnlab::alibi_test {
namespace {

using testing::largest_difference;
using testing::naive_attention;
using testing::random_input;
using testing::shape_of;

Tensor attended(const AttentionInput& in, AttentionTrace* trace = nullptr) {
  return testing::attended(*testing::make_attention("alibi", shape_of(in)), in, trace);
}

/// What it adds to the logits, [B or 1, H, Lq, Lk].
Tensor bias_of(const AttentionInput& in, const AttentionShape& shape) {
  AttentionTrace trace;
  trace.bias = true;
  AttentionContext context{0, nullptr, &trace};
  testing::make_attention("alibi", shape)->forward(in, context);
  return trace.layers.at(0).bias;
}

/// Places [B or 1, L, P], or 0, 1, 2, ..., as [B, L, P] float64.
Tensor places_of(const Tensor& given, std::int64_t batch, std::int64_t length) {
  const Tensor all = given.defined() ? given.to(at::kDouble)
                                     : at::arange(length, at::kDouble).view({1, length, 1});
  return all.expand({batch, length, all.size(2)}).contiguous();
}

Tensor naive_bias(const AttentionInput& in) {
  const Tensor queries = places_of(in.query_positions, in.batch(), in.query_count());
  const Tensor keys = places_of(in.key_positions, in.batch(), in.key_count());
  const auto from = queries.accessor<double, 3>(), to = keys.accessor<double, 3>();
  Tensor all = at::zeros({in.batch(), in.heads(), in.query_count(), in.key_count()}, at::kDouble);
  auto bias = all.accessor<double, 4>();
  testing::each_pair(all, [&](auto b, auto h, auto i, auto j) {
    double square = 0;
    for (std::int64_t p = 0; p < queries.size(2); ++p) {
      square += std::pow(from[b][i][p] - to[b][j][p], 2);
    }
    bias[b][h][i][j] = -std::pow(2, -8.0 * double(h + 1) / double(in.heads())) * std::sqrt(square);
  });
  return all;
}

Tensor naive(AttentionInput in) {
  const Tensor bias = naive_bias(in);
  in.bias = in.bias.defined() ? in.bias + bias : bias;
  return naive_attention(in, {.scale = 1 / std::sqrt(double(in.queries.size(3)))});
}

/// Queries and keys at places of P coordinates, drawn at random for each example.
AttentionInput placed_input(std::int64_t coordinates) {
  AttentionInput in = random_input(2, 2, 4, 5, 4, 3);
  in.query_positions = at::randn({2, 4, coordinates}, at::kDouble) * 4;
  in.key_positions = at::randn({2, 5, coordinates}, at::kDouble) * 4;
  return in;
}

TEST(AlibiAttention, HonoursEveryInputOfTheContractAndReadsPlaces) {
  AttentionTraits expected = AttentionTraits::all_quadratic();
  expected.places = true;
  EXPECT_EQ(testing::make_attention("alibi", {.heads = 2, .head_dim = 4})->traits(), expected);
}

// Press et al., section 3: with 8 heads 1/2, 1/4, ..., 1/256; with 16 heads 1/2^0.5, 1/2, 1/2^1.5,
// ..., 1/256.
TEST(AlibiAttention, HasThePublishedSlopes) {
  for (const std::int64_t heads : {8, 16}) {
    const AttentionInput in = random_input(1, heads, 2, 2, 4, 4);
    const Tensor bias = bias_of(in, shape_of(in));
    ASSERT_EQ(bias.sizes(), (at::IntArrayRef{1, heads, 2, 2}));
    for (std::int64_t h = 0; h < heads; ++h) {
      const double slope = heads == 8 ? 1 / double(2 << h) : std::pow(0.5, double(h + 1) / 2);
      EXPECT_NEAR(bias[0][h][1][0].item<double>(), -slope, 1e-15) << h;
      EXPECT_EQ(bias[0][h][0][0].item<double>(), 0) << h;
    }
    EXPECT_NEAR(bias[0][heads - 1][1][0].item<double>(), -1.0 / 256, 1e-15);
  }
}

TEST(AlibiAttention, GivesEachMemberOfAnEnsembleTheSameSlopes) {
  const AttentionInput in = random_input(1, 6, 3, 3, 4, 4);
  AttentionShape shape = shape_of(in);
  shape.members = 2;
  const Tensor bias = bias_of(in, shape);
  const AttentionInput one = random_input(1, 3, 3, 3, 4, 4);
  const Tensor alone = bias_of(one, shape_of(one));
  EXPECT_TRUE(bias.narrow(1, 0, 3).equal(alone));
  EXPECT_TRUE(bias.narrow(1, 3, 3).equal(alone));
}

TEST(AlibiAttention, EqualsItsEquationUnderEveryRule) {
  at::manual_seed(1);
  for (const auto& [name, in] : testing::one_input_for_each_rule()) {
    EXPECT_LT(largest_difference(attended(in), naive(in)), 1e-12) << name;
  }
}

TEST(AlibiAttention, TakesPlacesOfAnyCoordinates) {
  at::manual_seed(2);
  for (const std::int64_t coordinates : {1, 2, 3}) {
    AttentionInput in = placed_input(coordinates);
    EXPECT_LT(largest_difference(attended(in), naive(in)), 1e-12) << coordinates;
    in.key_positions = in.key_positions.narrow(0, 0, 1);
    EXPECT_LT(largest_difference(attended(in), naive(in)), 1e-12) << "one for all examples";
  }
  AttentionInput half = placed_input(2);
  half.key_positions = Tensor();
  EXPECT_THROW(attended(half), ShapeError);
}

TEST(AlibiAttention, KnowsOfPlacesTheirDistancesAlone) {
  at::manual_seed(3);
  for (const std::int64_t coordinates : {1, 2, 3}) {
    const AttentionInput in = placed_input(coordinates);
    const Tensor expected = attended(in);
    AttentionInput moved = in, mirrored = in, scaled = in;
    const Tensor shift = at::randn({1, 1, coordinates}, at::kDouble) * 50;
    moved.query_positions = in.query_positions + shift;
    moved.key_positions = in.key_positions + shift;
    EXPECT_LT(largest_difference(attended(moved), expected), 1e-11) << coordinates;
    mirrored.query_positions = -in.query_positions, mirrored.key_positions = -in.key_positions;
    EXPECT_LT(largest_difference(attended(mirrored), expected), 1e-12) << coordinates;
    scaled.query_positions = in.query_positions * 2, scaled.key_positions = in.key_positions * 2;
    EXPECT_GT(largest_difference(attended(scaled), expected), 1e-3) << coordinates;
  }
}

TEST(AlibiAttention, RecordsItsOwnBiasBesideThatOfTheModel) {
  at::manual_seed(4);
  AttentionInput in = random_input(2, 2, 4, 5, 4, 3);
  const Tensor without = attended(in);
  in.bias = at::randn({4, 5}, at::kDouble);
  AttentionTrace trace;
  trace.bias = trace.logits = true;
  EXPECT_GT(largest_difference(attended(in, &trace), without), 1e-3);
  ASSERT_EQ(trace.layers.size(), 1u);
  const Tensor own = trace.layers[0].bias;
  EXPECT_LT(largest_difference(own.expand({2, 2, 4, 5}), naive_bias(in)), 1e-12);
  const Tensor products = at::matmul(in.queries, in.keys.transpose(2, 3)) / 2;
  EXPECT_LT(largest_difference(trace.layers[0].logits, products + in.bias + own), 1e-12);
  std::vector<LayerTrace> handed;
  trace.layers.clear();
  trace.on_layer = [&](const LayerTrace& seen) { handed.push_back(seen); };
  attended(in, &trace);
  ASSERT_EQ(handed.size(), 1u);
  EXPECT_TRUE(trace.layers.empty());
  EXPECT_TRUE(handed[0].bias.equal(own));
}

TEST(AlibiAttention, KeepsSequencesOfARaggedBatchApart) {
  at::manual_seed(5);
  const auto of = [](const AttentionInput& in) { return attended(in); };
  const auto by_loops = [](const AttentionInput& in) { return naive(in); };
  for (const bool causal : {false, true}) testing::expect_sequences_apart(causal, of, by_loops);
  AttentionInput in = random_input(1, 2, 7, 9, 4, 3);
  in.visible.query_offsets = at::tensor({0, 3, 3, 7}, at::kLong);
  in.visible.key_offsets = at::tensor({0, 4, 5, 9}, at::kLong);
  in.query_positions = at::randn({1, 7, 3}, at::kDouble);
  in.key_positions = at::randn({1, 9, 3}, at::kDouble);
  std::vector<Tensor> separate;
  for (const auto& [q, rows, k] : {std::tuple(0, 3, 0), std::tuple(3, 4, 5)}) {
    AttentionInput one = in;
    one.visible.query_offsets = one.visible.key_offsets = Tensor();
    one.queries = in.queries.narrow(2, q, rows);
    one.keys = in.keys.narrow(2, k, 4);
    one.values = in.values.narrow(2, k, 4);
    one.query_positions = in.query_positions.narrow(1, q, rows);
    one.key_positions = in.key_positions.narrow(1, k, 4);
    separate.push_back(naive(one));
  }
  EXPECT_LT(largest_difference(attended(in), at::cat(separate, 2)), 1e-12);
  AttentionTrace trace;
  EXPECT_THROW(attended(in, &trace), ShapeError);
}

TEST(AlibiAttention, GradientsAreRightTwice) {
  at::manual_seed(6);
  for (const std::int64_t coordinates : {1, 2}) {
    AttentionInput in = placed_input(coordinates);
    in.bias = at::randn({2, 1, 4, 5}, at::kDouble);
    const auto f = [&](const std::vector<Tensor>& x) {
      AttentionInput changed = in;
      changed.queries = x[0], changed.keys = x[1], changed.values = x[2], changed.bias = x[3];
      changed.query_positions = x[4], changed.key_positions = x[5];
      return attended(changed);
    };
    const std::vector<Tensor> inputs = {in.queries,         in.keys,         in.values, in.bias,
                                        in.query_positions, in.key_positions};
    EXPECT_LT(testing::gradient_error(f, inputs), 1e-7) << coordinates;
    EXPECT_LT(testing::second_gradient_error(f, inputs), 1e-6) << coordinates;
  }
}

TEST(AlibiAttention, StaysFiniteHoweverFarTokensAreApart) {
  AttentionInput in = random_input(1, 2, 2, 3, 4, 2);
  in.query_positions = at::tensor({0.0, 1e9}, at::kDouble).view({1, 2, 1});
  in.key_positions = at::tensor({0.0, 1e9, -1e9}, at::kDouble).view({1, 3, 1});
  for (Tensor* x : {&in.queries, &in.keys, &in.values}) *x = x->to(at::kFloat);
  const Tensor out = attended(in);
  EXPECT_LT(largest_difference(out, in.values.narrow(2, 0, 2)), 1e-6) << "each sees its own place";
}

}  // namespace
}  // namespace attnlab::alibi_test
