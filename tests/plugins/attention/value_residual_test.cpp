// Value residual: softmax(Q Kᵀ / √D) (λ₁ V_l + λ₂ V_1).
#include <gtest/gtest.h>

#include "tests/support/gradcheck.h"
#include "tests/support/kernel_choice.h"
#include "tests/support/message_of.h"
#include "tests/support/naive_attention.h"
#include "tests/support/plugins.h"

namespace attnlab::value_residual_test {
namespace {

using testing::largest_difference;
using testing::naive_attention;
using testing::random_input;

/// Three layers in float64.
struct Stack {
  std::vector<std::shared_ptr<Attention>> layers;

  explicit Stack(const AttentionInput& in, const std::string& options = "{}") {
    for (std::int64_t layer = 0; layer < 3; ++layer) {
      layers.push_back(
          testing::make_attention("value_residual", testing::shape_of(in, layer, 3), options));
      layers.back()->to(at::kDouble);
    }
  }

  Tensor run(std::size_t layer, const AttentionInput& in, ForwardState* state,
             AttentionTrace* trace = nullptr) const {
    AttentionContext context{static_cast<std::int64_t>(layer), state, trace};
    return layers[layer]->forward(in, context);
  }

  /// What all layers give, each for the same input with values of its own.
  std::vector<Tensor> operator()(AttentionInput in, const std::vector<Tensor>& values,
                                 AttentionTrace* trace = nullptr) const {
    ForwardState state;
    std::vector<Tensor> outputs;
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      in.values = values[layer];
      outputs.push_back(run(layer, in, &state, trace));
    }
    return outputs;
  }
};

std::vector<Tensor> values_like(const AttentionInput& in) {
  return {at::randn_like(in.values), at::randn_like(in.values), at::randn_like(in.values)};
}

Tensor naive(AttentionInput in, const Tensor& values) {
  in.values = values.detach();
  return naive_attention(in, {.scale = 0.5});
}

TEST(ValueResidual, TakesHalfOfTheFirstLayersValuesUnderEveryRule) {
  at::manual_seed(1);
  for (const auto& [name, in] : testing::one_input_for_each_rule()) {
    const std::vector<Tensor> v = values_like(in);
    const std::vector<Tensor> expected = {naive(in, v[0]), naive(in, (v[0] + v[1]) / 2),
                                          naive(in, (v[0] + v[2]) / 2)};
    const Stack stack(in);
    AttentionTrace trace;
    const auto found = stack(in, v), traced = stack(in, v, &trace);
    const testing::KernelChoice headwise(AttentionKernel::headwise);
    const auto by_kernel = stack(in, v);
    for (std::size_t layer = 0; layer < 3; ++layer) {
      EXPECT_LT(largest_difference(found[layer], expected[layer]), 1e-10) << name << layer;
      EXPECT_LT(largest_difference(traced[layer], expected[layer]), 1e-10) << name << layer;
      EXPECT_LT(largest_difference(by_kernel[layer], expected[layer]), 1e-10) << name << layer;
    }
  }
}

TEST(ValueResidual, MixesByLearnedNumbersOfEachLayer) {
  at::manual_seed(2);
  const AttentionInput in = random_input(2, 2, 4, 5, 4, 3);
  const std::vector<Tensor> v = values_like(in);
  const Stack stack(in, "{learned: true}");
  EXPECT_EQ(testing::parameter_count(*stack.layers[0]), 0);
  EXPECT_EQ(testing::parameter_count(*stack.layers[1]), 2);
  EXPECT_LT(largest_difference(stack(in, v)[1], naive(in, (v[0] + v[1]) / 2)), 1e-12);
  {
    const at::NoGradGuard no_gradients;
    stack.layers[2]->named_parameters()["own"].fill_(-0.25);
    stack.layers[2]->named_parameters()["first"].fill_(1.5);
  }
  EXPECT_LT(largest_difference(stack(in, v)[2], naive(in, 1.5 * v[0] - 0.25 * v[2])), 1e-12);
}

TEST(ValueResidual, LearnsNothingUnlessAsked) {
  const AttentionInput in = random_input(1, 2, 3, 3, 4, 3);
  for (const auto& layer : Stack(in).layers) EXPECT_EQ(testing::parameter_count(*layer), 0);
}

TEST(ValueResidual, IsStandardAttentionInALayerThatStandsAlone) {
  at::manual_seed(3);
  const AttentionInput in = random_input(2, 2, 4, 5, 4, 3);
  for (const std::string options : {"{}", "{learned: true}"}) {
    const Stack stack(in, options);
    const Tensor expected = naive(in, in.values);
    EXPECT_LT(largest_difference(stack.run(0, in, nullptr), expected), 1e-12);
    EXPECT_LT(largest_difference(stack.run(2, in, nullptr), expected), 1e-12);
    // In a stack of several mechanisms this may be the first layer with it.
    ForwardState state;
    EXPECT_LT(largest_difference(stack.run(1, in, &state), expected), 1e-12);
    EXPECT_LT(largest_difference(stack.run(2, in, &state), expected), 1e-12);
  }
}

TEST(ValueResidual, GivesEachMemberOfAnEnsembleItsOwnNumbers) {
  at::manual_seed(4);
  const AttentionInput in = random_input(1, 4, 3, 3, 4, 3);
  AttentionShape shape = testing::shape_of(in, 1, 2);
  shape.members = 2;
  const auto attention = testing::make_attention("value_residual", shape, "{learned: true}");
  attention->to(at::kDouble);
  const Tensor first = at::randn_like(in.values);
  ForwardState state;
  AttentionContext context{0, &state, nullptr};
  AttentionInput before = in;
  before.values = first;
  testing::make_attention("value_residual", testing::shape_of(in, 0, 2))->forward(before, context);
  context.layer = 1;
  {
    const at::NoGradGuard no_gradients;
    attention->named_parameters()["own"].copy_(at::tensor({1.0, 0.0}, at::kDouble));
    attention->named_parameters()["first"].copy_(at::tensor({0.0, 2.0}, at::kDouble));
  }
  const Tensor mixed = at::cat({in.values.narrow(1, 0, 2), 2 * first.narrow(1, 2, 2)}, 1);
  EXPECT_LT(largest_difference(attention->forward(in, context), naive(in, mixed)), 1e-12);
}

TEST(ValueResidual, ATraceHasTheWeightsOfTheFirstLayerAlone) {
  at::manual_seed(5);
  const AttentionInput in = random_input(1, 2, 3, 4, 4, 3);
  AttentionTrace trace;
  trace.weights = trace.logits = true;
  const Stack stack(in);
  stack(in, values_like(in), &trace);
  ASSERT_EQ(trace.layers.size(), 3u);
  for (const LayerTrace& layer : trace.layers) {
    EXPECT_EQ(layer.weights.defined(), layer.layer == 0) << layer.layer;
    EXPECT_TRUE(layer.logits.defined()) << layer.layer;
  }
  EXPECT_TRUE(trace.weights);
}

TEST(ValueResidual, RefusesValuesOfAnotherShapeAndLayersOutOfOrder) {
  const AttentionInput in = random_input(2, 2, 3, 4, 4, 3);
  const Stack stack(in);
  ForwardState state;
  stack.run(0, in, &state);
  for (const AttentionInput& other :
       {random_input(2, 2, 3, 5, 4, 3), random_input(1, 2, 3, 4, 4, 3)}) {
    EXPECT_THAT(testing::message_of<ShapeError>([&] { stack.run(1, other, &state); }),
                testing::says({"value residual", "layer 1", "first layer"}));
  }
  EXPECT_NO_THROW(stack.run(2, in, &state));
  EXPECT_THAT(testing::message_of<ConfigError>([&] { stack.run(1, in, &state); }),
              testing::says({"layer 1 came after layer 2", "ForwardState"}));
}

TEST(ValueResidual, GradientsAreRightTwiceAlsoOfTheFirstLayersValues) {
  at::manual_seed(6);
  AttentionInput in = random_input(1, 2, 3, 4, 3, 2);
  const Stack stack(in, "{learned: true}");
  const std::vector<Tensor> v = values_like(in);
  for (const bool causal : {false, true}) {
    in.visible.causal = causal;
    const auto f = [&](const std::vector<Tensor>& x) {
      AttentionInput changed = in;
      changed.queries = x[0], changed.keys = x[1];
      return stack(changed, {x[2], x[3], x[3]})[1];
    };
    const std::vector<Tensor> inputs = {in.queries, in.keys, v[0], v[1]};
    EXPECT_LT(testing::gradient_error(f, inputs), 1e-7);
    EXPECT_LT(testing::second_gradient_error(f, inputs), 1e-6);
    EXPECT_LT(testing::leaf_gradient_error([&] { return stack(in, v)[1]; },
                                           stack.layers[1]->parameters()),
              1e-7);
  }
}

}  // namespace
}  // namespace attnlab::value_residual_test
