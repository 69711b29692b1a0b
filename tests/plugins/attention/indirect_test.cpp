// Indirect attention: softmax((Q Kᵀ + f(P)) / √D) V with positions refined from layer to layer.
#include <gtest/gtest.h>

#include <algorithm>

#include "framework/nn/attention/position_bias.h"
#include "tests/support/gradcheck.h"
#include "tests/support/naive_attention.h"
#include "tests/support/plugins.h"

namespace attnlab::indirect_test {
namespace {

using testing::largest_difference;
using testing::naive_attention;
using testing::random_input;

constexpr std::int64_t kDim = 4, kWidth = 3;

/// Two layers in float64 whose every parameter is drawn at random, g too.
struct Stack {
  std::vector<std::shared_ptr<Attention>> layers;

  explicit Stack(const std::string& options = "{hidden: 5}", bool random = true) {
    for (std::int64_t layer = 0; layer < 2; ++layer) {
      const AttentionShape shape{
          .heads = 2, .head_dim = kDim, .value_dim = kWidth, .layer = layer, .layers = 2};
      layers.push_back(testing::make_attention("indirect", shape, options));
      layers.back()->to(at::kDouble);
      const at::NoGradGuard no_gradients;
      for (Tensor& p : layers.back()->parameters()) {
        if (random) p.copy_(at::randn_like(p));
      }
    }
  }

  Tensor parameter(std::size_t layer, const std::string& name) const {
    return layers[layer]->named_parameters()[name];
  }

  /// What both layers give, each for the same input.
  std::vector<Tensor> operator()(const AttentionInput& in) const {
    ForwardState state;
    AttentionContext context{0, &state, nullptr};
    const Tensor first = layers[0]->forward(in, context);
    context.layer = 1;
    return {first, layers[1]->forward(in, context)};
  }
};

/// f for one head and one offset of any number of coordinates.
double naive_f(const Stack& stack, std::size_t layer, std::int64_t head,
               const std::vector<double>& offset) {
  const Tensor w1 = stack.parameter(layer, "position_bias.in_weight");
  const Tensor b1 = stack.parameter(layer, "position_bias.in_bias");
  const Tensor w2 = stack.parameter(layer, "position_bias.out_weight");
  double y = 0;
  for (std::int64_t m = 0; m < w1.size(0); ++m) {
    double x = b1[m].item<double>();
    for (std::size_t p = 0; p < offset.size(); ++p) {
      x += w1[m][static_cast<std::int64_t>(p)].item<double>() * offset[p];
    }
    y += w2[head][m].item<double>() * std::max(x, 0.0);
  }
  return y;
}

/// Places [B or 1, L, P], or 0, 1, 2, ..., as [B, L, P].
Tensor places(const Tensor& given, std::int64_t batch, std::int64_t length) {
  const Tensor all = given.defined() ? given : at::arange(length, at::kDouble).view({1, length, 1});
  return all.expand({batch, length, all.size(2)}).clone();
}

/// One layer by loops. @param references  [B, Lq, P].
Tensor naive_layer(const Stack& stack, std::size_t layer, AttentionInput in,
                   const Tensor& references, double factor) {
  const Tensor keys = places(in.key_positions, in.batch(), in.key_count());
  Tensor bias = at::zeros({in.batch(), 2, in.query_count(), in.key_count()}, at::kDouble);
  for (std::int64_t b = 0; b < bias.size(0); ++b) {
    for (std::int64_t h = 0; h < 2; ++h) {
      for (std::int64_t i = 0; i < bias.size(2); ++i) {
        for (std::int64_t j = 0; j < bias.size(3); ++j) {
          bias[b][h][i][j] =
              factor * naive_f(stack, layer, h, testing::row(keys[b][j] - references[b][i]));
        }
      }
    }
  }
  in.bias = in.bias.defined() ? in.bias + bias : bias;
  return naive_attention(in, {.scale = 0.5});
}

/// p_i + g(o_i) by loops.
Tensor naive_refined(const Stack& stack, const Tensor& references, const Tensor& out) {
  const Tensor w = stack.parameter(0, "refine.weight"), bias = stack.parameter(0, "refine.bias");
  Tensor moved = references.clone();
  for (std::int64_t b = 0; b < out.size(0); ++b) {
    for (std::int64_t i = 0; i < out.size(2); ++i) {
      for (std::int64_t p = 0; p < w.size(0); ++p) {
        double step = bias[p].item<double>();
        for (std::int64_t h = 0; h < out.size(1); ++h) {
          for (std::int64_t c = 0; c < out.size(3); ++c) {
            step += w[p][h * out.size(3) + c].item<double>() * out[b][h][i][c].item<double>();
          }
        }
        moved[b][i][p] += step;
      }
    }
  }
  return moved;
}

std::vector<Tensor> naive(const Stack& stack, const AttentionInput& in, double factor,
                          bool refine = true) {
  const Tensor start = places(in.query_positions, in.batch(), in.query_count());
  const Tensor first = naive_layer(stack, 0, in, start, factor);
  const Tensor moved = refine ? naive_refined(stack, start, first) : start;
  return {first, naive_layer(stack, 1, in, moved, factor)};
}

TEST(IndirectAttention, HonoursEveryInputOfTheContract) {
  EXPECT_EQ(Stack().layers[0]->traits(), AttentionTraits::all_quadratic());
}

TEST(IndirectAttention, EqualsItsEquationInTwoLayersUnderEveryRule) {
  at::manual_seed(1);
  const Stack stack;
  for (auto [name, in] : testing::one_input_for_each_rule()) {
    in.values_from_elsewhere = true;
    const auto found = stack(in), expected = naive(stack, in, 0.5);
    EXPECT_LT(largest_difference(found[0], expected[0]), 1e-10) << name;
    EXPECT_LT(largest_difference(found[1], expected[1]), 1e-10) << name << ", second layer";
  }
}

TEST(IndirectAttention, AddsItsBiasAfterTheScalingWhereAsked) {
  at::manual_seed(2);
  const Stack stack("{hidden: 5, bias: after_scaling}");
  const AttentionInput in = random_input(2, 2, 4, 5, kDim, kWidth);
  const auto found = stack(in), expected = naive(stack, in, 1);
  EXPECT_LT(largest_difference(found[0], expected[0]), 1e-10);
  EXPECT_LT(largest_difference(found[1], expected[1]), 1e-10);
}

TEST(IndirectAttention, LeavesReferencesWhereTheyAreWithoutRefinement) {
  at::manual_seed(3);
  const Stack stack("{hidden: 5, refine: false}");
  const AttentionInput in = random_input(2, 2, 4, 5, kDim, kWidth);
  EXPECT_LT(largest_difference(stack(in)[1], naive(stack, in, 0.5, false)[1]), 1e-10);
  EXPECT_EQ(stack.layers[0]->named_parameters().find("refine.weight"), nullptr);
}

TEST(IndirectAttention, TakesThePositionsOfTheModel) {
  at::manual_seed(4);
  const Stack stack("{hidden: 5, coordinates: 2}");
  AttentionInput in = random_input(2, 2, 4, 5, kDim, kWidth);
  for (const std::int64_t batch : {1, 2}) {
    in.query_positions = at::randn({batch, 4, 2}, at::kDouble);
    in.key_positions = at::randn({1, 5, 2}, at::kDouble);
    const auto found = stack(in), expected = naive(stack, in, 0.5);
    EXPECT_LT(largest_difference(found[0], expected[0]), 1e-10);
    EXPECT_LT(largest_difference(found[1], expected[1]), 1e-10);
  }
}

TEST(IndirectAttention, IsMisalignedAttentionWhereItsBiasIsZero) {
  at::manual_seed(5);
  const Stack stack;
  for (const std::size_t layer : {0, 1}) {
    const at::NoGradGuard no_gradients;
    stack.parameter(layer, "position_bias.out_weight").zero_();
  }
  for (auto [name, in] : testing::one_input_for_each_rule()) {
    in.values_from_elsewhere = true;
    const Tensor expected = naive_attention(in, {.scale = 0.5});
    for (const Tensor& found : stack(in)) {
      EXPECT_LT(largest_difference(found, expected), 1e-12) << name;
    }
  }
}

TEST(IndirectAttention, StartsUnrefined) {
  at::manual_seed(6);
  const Stack stack("{hidden: 5}", /*random=*/false);
  const AttentionInput in = random_input(2, 2, 4, 5, kDim, kWidth);
  EXPECT_LT(largest_difference(stack(in)[1], naive(stack, in, 0.5, false)[1]), 1e-10);
  const Tensor before = stack(in)[1];
  {
    const at::NoGradGuard no_gradients;
    stack.parameter(0, "refine.weight").fill_(0.5);
  }
  EXPECT_GT(largest_difference(stack(in)[1], before), 1e-3);
}

TEST(IndirectAttention, CountsPositionsFromZeroWhereTheModelGivesNone) {
  at::manual_seed(7);
  const Stack stack;
  for (const auto& [queries, keys] :
       {std::pair(4, 6), std::pair(6, 4), std::pair(1, 5), std::pair(5, 1), std::pair(1, 1)}) {
    AttentionInput in = random_input(2, 2, queries, keys, kDim, kWidth);
    const auto by_table = stack(in);
    in.query_positions = at::arange(queries, at::kDouble).view({1, queries, 1});
    in.key_positions = at::arange(keys, at::kLong).view({1, keys, 1});
    const auto by_pairs = stack(in);
    EXPECT_LT(largest_difference(by_table[0], by_pairs[0]), 1e-12) << queries << ", " << keys;
    EXPECT_LT(largest_difference(by_table[1], by_pairs[1]), 1e-12) << queries << ", " << keys;
  }
}

TEST(IndirectAttention, DoesNotDependOnTheOrderOfKeysWhosePositionsGoAlong) {
  at::manual_seed(8);
  const Stack stack;
  AttentionInput in = random_input(2, 2, 4, 5, kDim, kWidth);
  in.key_positions = at::randn({2, 5, 1}, at::kDouble);
  AttentionInput turned = in;
  turned.keys = in.keys.flip(2);
  turned.values = in.values.flip(2);
  EXPECT_GT(largest_difference(stack(in)[0], stack(turned)[0]), 1e-3);
  turned.key_positions = in.key_positions.flip(1);
  EXPECT_LT(largest_difference(stack(in)[1], stack(turned)[1]), 1e-12);
}

TEST(IndirectAttention, KeepsSequencesOfARaggedBatchApart) {
  at::manual_seed(9);
  const Stack stack;
  for (const bool given : {false, true}) {
    AttentionInput in = random_input(1, 2, 7, 9, kDim, kWidth);
    in.visible.query_offsets = at::tensor({0, 3, 3, 7}, at::kLong);
    in.visible.key_offsets = at::tensor({0, 4, 5, 9}, at::kLong);
    if (given) in.query_positions = at::randn({1, 7, 1}, at::kDouble);
    std::vector<Tensor> separate;
    for (const auto& [q, rows, k] : {std::tuple(0, 3, 0), std::tuple(3, 4, 5)}) {
      AttentionInput one = in;
      one.visible.query_offsets = one.visible.key_offsets = Tensor();
      one.queries = in.queries.narrow(2, q, rows);
      one.keys = in.keys.narrow(2, k, 4);
      one.values = in.values.narrow(2, k, 4);
      if (given) one.query_positions = in.query_positions.narrow(1, q, rows);
      separate.push_back(stack(one)[1]);
    }
    EXPECT_LT(largest_difference(stack(in)[1], at::cat(separate, 2)), 1e-12) << given;
  }
}

TEST(IndirectAttention, LetsNoReferenceLearnOfTheFuture) {
  at::manual_seed(10);
  const Stack stack;
  AttentionInput in = random_input(1, 2, 5, 5, kDim, kWidth);
  in.visible.causal = true;
  AttentionInput later = in;
  for (Tensor* x : {&later.queries, &later.keys, &later.values}) {
    *x = x->clone();
    x->select(2, 4).mul_(-7);
  }
  const Tensor change = (stack(in)[1] - stack(later)[1]).abs();
  EXPECT_EQ(change.narrow(2, 0, 4).max().item<double>(), 0);
  EXPECT_GT(change.select(2, 4).max().item<double>(), 1e-3);
}

TEST(IndirectAttention, GradientsOfInputsAndPositionsAreRight) {
  at::manual_seed(11);
  const Stack stack("{hidden: 3}");
  const AttentionInput in = random_input(1, 2, 3, 4, kDim, kWidth);
  const auto second_layer = [&](const std::vector<Tensor>& x) {
    AttentionInput changed = in;
    changed.queries = x[0], changed.keys = x[1], changed.values = x[2];
    if (x.size() > 3) changed.query_positions = x[3], changed.key_positions = x[4];
    return stack(changed)[1];
  };
  std::vector<Tensor> inputs = {in.queries, in.keys, in.values};
  for (const bool positions : {false, true}) {
    if (positions) {
      for (const std::int64_t count : {3, 4}) {
        inputs.push_back(at::randn({1, count, 1}, at::kDouble));
      }
    }
    EXPECT_LT(testing::gradient_error(second_layer, inputs), 1e-7) << positions;
    EXPECT_LT(testing::second_gradient_error(second_layer, inputs), 1e-6) << positions;
  }
}

TEST(IndirectAttention, GradientsOfParametersAreRight) {
  at::manual_seed(12);
  const Stack stack("{hidden: 3}");
  const AttentionInput in = random_input(2, 2, 3, 4, kDim, kWidth);
  const auto probed = [&] {
    const Tensor y = stack(in)[1];
    return (y * testing::probe_like(y)).sum();
  };
  for (const std::size_t layer : {0, 1}) {
    for (const auto& item : stack.layers[layer]->named_parameters()) {
      Tensor parameter = item.value();
      const Tensor gradient = torch::autograd::grad({probed()}, {parameter})[0];
      EXPECT_GT(gradient.abs().max().item<double>(), 1e-6) << layer << item.key();
      const Tensor numbers = parameter.detach().view({-1});
      for (std::int64_t n = 0; n < numbers.numel(); ++n) {
        const double value = numbers[n].item<double>(), step = 1e-6;
        numbers[n].fill_(value + step);
        const double above = probed().item<double>();
        numbers[n].fill_(value - step);
        const double below = probed().item<double>();
        numbers[n].fill_(value);
        EXPECT_NEAR(gradient.view({-1})[n].item<double>(), (above - below) / (2 * step), 1e-7)
            << layer << item.key() << n;
      }
    }
  }
}

TEST(IndirectAttention, LeavesNoParameterWithoutAGradient) {
  at::manual_seed(13);
  const Stack stack("{hidden: 5}", /*random=*/false);
  const auto out = stack(random_input(2, 2, 4, 5, kDim, kWidth));
  (out[0].sin() + out[1].sin()).sum().backward();
  for (const std::size_t layer : {0, 1}) {
    for (const auto& item : stack.layers[layer]->named_parameters()) {
      ASSERT_TRUE(item.value().grad().defined()) << layer << item.key();
      EXPECT_GT(item.value().grad().abs().max().item<double>(), 0) << layer << item.key();
    }
  }
  EXPECT_EQ(stack.layers[1]->named_parameters().find("refine.weight"), nullptr);
}

TEST(IndirectAttention, RefusesPositionsWithOtherCoordinates) {
  AttentionInput in = random_input(1, 2, 3, 3, kDim, kWidth);
  EXPECT_THROW(Stack("{coordinates: 2}")(in), ShapeError);
  in.query_positions = in.key_positions = at::zeros({1, 3, 3}, at::kDouble);
  EXPECT_THROW(Stack("{coordinates: 2}")(in), ShapeError);
  EXPECT_NO_THROW(Stack("{coordinates: 3}")(in));
}

TEST(IndirectAttention, RefusesLayersOutOfOrderOrOfOtherQueries) {
  const Stack stack;
  const AttentionInput in = random_input(1, 2, 3, 3, kDim, kWidth);
  ForwardState state;
  AttentionContext context{0, &state, nullptr};
  stack.layers[0]->forward(in, context);
  EXPECT_THROW(stack.layers[0]->forward(in, context), ConfigError);
  context.layer = 1;
  EXPECT_THROW(stack.layers[1]->forward(random_input(1, 2, 4, 3, kDim, kWidth), context),
               ShapeError);
  EXPECT_NO_THROW(stack.layers[1]->forward(in, context));
}

TEST(IndirectAttention, RefusesToTraceARaggedBatch) {
  AttentionInput in = random_input(1, 2, 4, 4, kDim, kWidth);
  in.visible.query_offsets = in.visible.key_offsets = at::tensor({0, 1, 4}, at::kLong);
  AttentionTrace trace;
  AttentionContext context{0, nullptr, &trace};
  EXPECT_THROW(Stack().layers[0]->forward(in, context), ShapeError);
}

/// A bias in float64, wide enough that the hidden layer of all pairs does not fit at once.
struct WideBias {
  PositionBias bias{2, 15000, 2};
  Tensor queries, keys;

  WideBias() {
    bias.to(at::kDouble);
    queries = at::randn({1, 18, 2}, at::kDouble).requires_grad_();
    keys = at::randn({1, 17, 2}, at::kDouble).requires_grad_();
  }

  std::vector<Tensor> leaves() const {
    return {queries, keys, bias.in_weight, bias.in_bias, bias.out_weight};
  }
  Tensor at_once() const { return bias.forward(queries, keys); }
  /// A query at a time fits.
  Tensor one_by_one() const {
    std::vector<Tensor> rows;
    for (std::int64_t i = 0; i < queries.size(1); ++i) {
      rows.push_back(bias.forward(queries.narrow(1, i, 1), keys));
    }
    return at::cat(rows, 2);
  }
};

TEST(PositionBias, IsTheSameInParts) {
  at::manual_seed(14);
  const WideBias wide;
  const Tensor found = wide.at_once(), expected = wide.one_by_one();
  EXPECT_LT(largest_difference(found.detach(), expected.detach()), 1e-12);
  const auto gradients = [&](const Tensor& y) {
    return torch::autograd::grad({(y * testing::probe_like(y)).sum()}, wide.leaves());
  };
  const auto a = gradients(found), b = gradients(expected);
  for (std::size_t n = 0; n < a.size(); ++n) {
    EXPECT_GT(a[n].abs().max().item<double>(), 1e-6) << n;
    EXPECT_LT(largest_difference(a[n], b[n]), 1e-10) << n;
  }
}

TEST(PositionBias, HasTheSameGradientsOfGradientsInParts) {
  at::manual_seed(15);
  const WideBias wide;
  const auto second = [&](const Tensor& y) {
    const auto first = torch::autograd::grad({(y * y).sum()}, {wide.queries}, {}, true, true);
    return torch::autograd::grad({first[0].sin().sum()}, {wide.keys, wide.bias.out_weight});
  };
  const auto a = second(wide.at_once()), b = second(wide.one_by_one());
  for (std::size_t n = 0; n < a.size(); ++n) {
    EXPECT_GT(a[n].abs().max().item<double>(), 1e-6) << n;
    EXPECT_LT(largest_difference(a[n], b[n]), 1e-9) << n;
  }
}

TEST(PositionBias, DoesNotRoundPositionsToANarrowDtype) {
  at::manual_seed(16);
  PositionBias bias(1, 16, 2);
  bias.to(at::kBFloat16);
  EXPECT_EQ(bias.position_options().dtype(), at::kFloat);
  const Tensor near = at::arange(4, bias.position_options()).view({1, 4, 1});
  const Tensor here = bias.forward(near, near), far = bias.forward(near + 1000, near + 1000);
  EXPECT_EQ(here.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(here, far));
  EXPECT_GT(here.detach().to(at::kFloat).std().item<double>(), 1e-2);
}

}  // namespace
}  // namespace attnlab::indirect_test
