// Rotary attention: its equation by loops, and that places count by their differences alone.
#include <cmath>

#include "tests/support/attended.h"
#include "tests/support/data_files.h"
#include "tests/support/gradcheck.h"
#include "tests/support/kernel_choice.h"
#include "tests/support/naive_weights.h"
#include "tests/support/plugins.h"
#include "tests/support/ragged.h"

namespace attnlab::rotary_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::largest_difference;
using testing::message_of;
using testing::naive_attention;
using testing::random_input;
using testing::shape_of;

std::shared_ptr<Attention> rotary(const AttentionShape& shape, const std::string& options = "{}") {
  return testing::make_attention("rotary", shape, options);
}

Tensor attended(const AttentionInput& in, const std::string& options = "{}",
                AttentionTrace* trace = nullptr) {
  return testing::attended(*rotary(shape_of(in), options), in, trace);
}

/// Places [B or 1, L, P], or 0, 1, 2, ..., as [B, L, P] float64.
Tensor places_of(const Tensor& given, std::int64_t batch, std::int64_t length) {
  const Tensor all = given.defined() ? given.to(at::kDouble)
                                     : at::arange(length, at::kDouble).view({1, length, 1});
  return all.expand({batch, length, all.size(2)}).contiguous();
}

/// x [B, H, L, D] turned by places [B, L, P], one pair of channels after the other.
Tensor naive_turned(const Tensor& x, const Tensor& places, double base) {
  Tensor y = x.clone(at::MemoryFormat::Contiguous);
  auto out = y.accessor<double, 4>();
  const auto at = places.accessor<double, 3>();
  const std::int64_t pairs = x.size(3) / (2 * places.size(2));
  for (std::int64_t b = 0; b < x.size(0); ++b) {
    for (std::int64_t h = 0; h < x.size(1); ++h) {
      for (std::int64_t i = 0; i < x.size(2); ++i) {
        for (std::int64_t p = 0; p < places.size(2); ++p) {
          for (std::int64_t m = 0; m < pairs; ++m) {
            const double angle = at[b][i][p] / std::pow(base, double(m) / double(pairs));
            double& even = out[b][h][i][2 * (p * pairs + m)];
            double& odd = out[b][h][i][2 * (p * pairs + m) + 1];
            const double before = even;
            even = before * std::cos(angle) - odd * std::sin(angle);
            odd = before * std::sin(angle) + odd * std::cos(angle);
          }
        }
      }
    }
  }
  return y;
}

Tensor naive(const AttentionInput& in, double base = 10000) {
  AttentionInput turned = in;
  turned.queries =
      naive_turned(in.queries, places_of(in.query_positions, in.batch(), in.query_count()), base);
  turned.keys =
      naive_turned(in.keys, places_of(in.key_positions, in.batch(), in.key_count()), base);
  return naive_attention(turned, {.scale = 1 / std::sqrt(double(in.queries.size(3)))});
}

/// Queries and keys of D channels at places of P coordinates, drawn at random for each example.
AttentionInput placed_input(std::int64_t dim, std::int64_t coordinates, std::int64_t queries = 4,
                            std::int64_t keys = 5) {
  AttentionInput in = random_input(2, 2, queries, keys, dim, 3);
  in.query_positions = at::randn({2, queries, coordinates}, at::kDouble) * 4;
  in.key_positions = at::randn({2, keys, coordinates}, at::kDouble) * 4;
  return in;
}

TEST(RotaryAttention, ReadsPlacesAndTakesNoRelativePositions) {
  AttentionTraits expected = AttentionTraits::all_quadratic();
  expected.relative_positions = false;
  expected.places = true;
  EXPECT_EQ(rotary({.heads = 2, .head_dim = 4})->traits(), expected);
}

TEST(RotaryAttention, EqualsItsEquationUnderEveryRule) {
  at::manual_seed(1);
  const auto rules = testing::rules_by(rotary({.heads = 2, .head_dim = 4})->traits());
  EXPECT_GT(rules.covered.size(), 10u);
  for (const auto& [name, in] : rules.covered) {
    EXPECT_LT(largest_difference(attended(in), naive(in)), 1e-12) << name;
  }
  EXPECT_GT(rules.beyond.size(), 3u);
  for (const auto& [name, in] : rules.beyond) {
    EXPECT_THROW(attended(in), TraitError) << name;
  }
}

TEST(RotaryAttention, SplitsChannelsAmongTheCoordinates) {
  at::manual_seed(2);
  for (const auto& [dim, coordinates] : {std::pair(8, 1), std::pair(8, 2), std::pair(12, 3),
                                         std::pair(8, 3), std::pair(5, 2), std::pair(3, 1)}) {
    AttentionInput in = placed_input(dim, coordinates);
    EXPECT_LT(largest_difference(attended(in), naive(in)), 1e-12) << dim << ", " << coordinates;
    EXPECT_LT(largest_difference(attended(in, "{base: 100}"), naive(in, 100)), 1e-12);
    // The first pair of a coordinate turns by the place itself, whatever the base.
    const bool one_pair = dim / (2 * coordinates) == 1;
    const double change = largest_difference(attended(in, "{base: 100}"), attended(in));
    EXPECT_EQ(change < 1e-6, one_pair) << change;
    in.key_positions = in.key_positions.narrow(0, 0, 1);
    EXPECT_LT(largest_difference(attended(in), naive(in)), 1e-12) << "one for all examples";
  }
}

// Unit vectors along the first channel of each pair: logits are cosines of the turns themselves.
TEST(RotaryAttention, TurnsTheFirstPairByThePlaceAndTheSecondAHundredTimesSlower) {
  AttentionInput in = random_input(1, 1, 1, 4, 4, 2);
  in.query_positions = at::full({1, 1, 1}, 2, at::kLong);
  in.key_positions = at::tensor({2, 3, 5, 0}, at::kLong).view({1, 4, 1});
  for (const auto& [channel, rate] : {std::pair(0, 1.0), std::pair(2, 0.01)}) {
    in.queries.zero_();
    in.keys.zero_();
    in.queries.select(3, channel).fill_(1);
    in.keys.select(3, channel).fill_(1);
    AttentionTrace trace;
    trace.logits = true;
    attended(in, "{}", &trace);
    const Tensor logits = trace.layers.at(0).logits.view({4});
    const double offsets[] = {0, 1, 3, -2};
    for (std::int64_t j = 0; j < 4; ++j) {
      EXPECT_NEAR(logits[j].item<double>(), std::cos(offsets[j] * rate) / 2, 1e-12) << channel;
    }
  }
}

TEST(RotaryAttention, KnowsOfPlacesTheirDifferencesAlone) {
  at::manual_seed(3);
  for (const std::int64_t coordinates : {1, 2, 3}) {
    const AttentionInput in = placed_input(12, coordinates);
    const Tensor expected = attended(in);
    AttentionInput moved = in, mirrored = in, scaled = in;
    const Tensor shift = at::randn({1, 1, coordinates}, at::kDouble) * 50;
    moved.query_positions = in.query_positions + shift;
    moved.key_positions = in.key_positions + shift;
    EXPECT_LT(largest_difference(attended(moved), expected), 1e-11) << coordinates;
    mirrored.query_positions = -in.query_positions, mirrored.key_positions = -in.key_positions;
    EXPECT_GT(largest_difference(attended(mirrored), expected), 1e-3) << "before is not behind";
    scaled.query_positions = in.query_positions * 2, scaled.key_positions = in.key_positions * 2;
    EXPECT_GT(largest_difference(attended(scaled), expected), 1e-3) << coordinates;
  }
}

TEST(RotaryAttention, IsStandardAttentionWhereAllStandAtOnePlace) {
  at::manual_seed(4);
  AttentionInput in = random_input(2, 2, 4, 5, 4, 3);
  in.query_positions = at::full({1, 4, 2}, 7.5, at::kDouble);
  in.key_positions = at::full({1, 5, 2}, 7.5, at::kDouble);
  EXPECT_LT(largest_difference(attended(in), naive_attention(in, {.scale = 0.5})), 1e-12);
}

TEST(RotaryAttention, CountsFromZeroWhereTheModelGivesNoPlaces) {
  at::manual_seed(5);
  for (const auto& [queries, keys] :
       {std::pair(4, 4), std::pair(4, 6), std::pair(6, 4), std::pair(1, 5)}) {
    AttentionInput in = random_input(2, 2, queries, keys, 4, 3);
    const Tensor counted = attended(in);
    in.query_positions = at::arange(queries, at::kLong).view({1, queries, 1});
    in.key_positions = at::arange(keys, at::kFloat).view({1, keys, 1});
    EXPECT_LT(largest_difference(counted, attended(in)), 1e-12) << queries << ", " << keys;
  }
}

TEST(RotaryAttention, KeepsSequencesOfARaggedBatchApart) {
  at::manual_seed(6);
  const auto of = [](const AttentionInput& in) { return attended(in); };
  for (const bool causal : {false, true}) testing::expect_sequences_apart(causal, of, of);
  // Other queries than keys: each sequence is counted from 0 anew.
  AttentionInput in = random_input(1, 2, 7, 9, 4, 3);
  in.visible.query_offsets = at::tensor({0, 3, 3, 7}, at::kLong);
  in.visible.key_offsets = at::tensor({0, 4, 5, 9}, at::kLong);
  std::vector<Tensor> separate;
  for (const auto& [q, rows, k] : {std::tuple(0, 3, 0), std::tuple(3, 4, 5)}) {
    AttentionInput one = in;
    one.visible.query_offsets = one.visible.key_offsets = Tensor();
    one.queries = in.queries.narrow(2, q, rows);
    one.keys = in.keys.narrow(2, k, 4);
    one.values = in.values.narrow(2, k, 4);
    separate.push_back(naive(one));
  }
  EXPECT_LT(largest_difference(attended(in), at::cat(separate, 2)), 1e-12);
}

TEST(RotaryAttention, KeepsTheFastKernel) {
  at::manual_seed(7);
  AttentionInput in = placed_input(8, 2, 5, 5);
  in.visible.causal = true;
  for (const AttentionKernel kernel : {AttentionKernel::headwise, AttentionKernel::explicit_form}) {
    const testing::KernelChoice choice(kernel);
    EXPECT_LT(largest_difference(attended(in), naive(in)), 1e-12) << name_of(kernel);
  }
}

TEST(RotaryAttention, TellsSmallDifferencesOfLargePlacesInFloat32) {
  at::manual_seed(8);
  AttentionInput in = random_input(1, 2, 5, 5, 8, 3);
  const Tensor near = at::arange(5, at::kDouble).view({1, 5, 1}) * 0.25;
  const auto at_places = [&](const Tensor& places) {
    AttentionInput narrow = in;
    for (Tensor* x : {&narrow.queries, &narrow.keys, &narrow.values}) *x = x->to(at::kFloat);
    narrow.query_positions = narrow.key_positions = places;
    return attended(narrow);
  };
  EXPECT_LT(largest_difference(at_places(near + 1e6), at_places(near)), 1e-5);
}

TEST(RotaryAttention, GradientsAreRightTwiceOfPlacesToo) {
  at::manual_seed(9);
  const AttentionInput in = placed_input(8, 2, 3, 4);
  const auto f = [&](const std::vector<Tensor>& x) {
    AttentionInput changed = in;
    changed.queries = x[0], changed.keys = x[1], changed.values = x[2];
    changed.query_positions = x[3], changed.key_positions = x[4];
    return attended(changed, "{base: 10}");
  };
  const std::vector<Tensor> inputs = {in.queries, in.keys, in.values, in.query_positions,
                                      in.key_positions};
  EXPECT_LT(testing::gradient_error(f, inputs), 1e-7);
  EXPECT_LT(testing::second_gradient_error(f, inputs), 1e-6);
}

TEST(RotaryAttention, SaysWhichPlacesItCannotTake) {
  EXPECT_THROW(rotary({.heads = 2, .head_dim = 1}), ShapeError);
  EXPECT_THAT(message_of<ShapeError>([] { attended(placed_input(4, 3)); }),
              AllOf(HasSubstr("P = 3"), HasSubstr("4 channels")));
  EXPECT_THAT(message_of<ShapeError>([] { attended(placed_input(4, 0)); }), HasSubstr("P = 0"));
  AttentionInput half = placed_input(4, 2);
  half.key_positions = Tensor();
  EXPECT_THAT(message_of<ShapeError>([&] { attended(half); }),
              mentions("queries have 2", "keys 1"));
}

}  // namespace
}  // namespace attnlab::rotary_test
