// Dot-product attention against its definition, for every rule of the contract and both kernels.
//
// With a trace the explicit kernel runs, without one the fused kernel where it can: each rule is
// checked both ways.
#include "framework/nn/attention/dot_product_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "framework/nn/attention/attention_kernel.h"
#include "framework/nn/kernels/cpu_attention.h"
#include "framework/tensor/by_distance.h"
#include "tests/support/attended.h"
#include "tests/support/gradcheck.h"
#include "tests/support/kernel_choice.h"
#include "tests/support/naive_attention.h"

namespace attnlab::dot_product_attention_test {
namespace {

using testing::attended;
using testing::gradient_error;
using testing::largest_difference;
using testing::naive_attention;
using testing::NamedInput;
using testing::one_input_for_each_rule;
using testing::random_input;
using testing::second_gradient_error;

constexpr double kTolerance = 1e-10;

class Plain final : public DotProductAttention {
 public:
  using DotProductAttention::DotProductAttention;
};

std::shared_ptr<Plain> plain(const AttentionInput& in, const DotProductSettings& settings = {},
                             double dropout = 0) {
  AttentionShape shape = testing::shape_of(in);
  shape.dropout = dropout;
  return std::make_shared<Plain>(shape, settings);
}

TEST(DotProductAttention, EqualsItsDefinitionUnderEveryRule) {
  at::manual_seed(1);
  for (const auto& [name, in] : one_input_for_each_rule()) {
    const Tensor expected = naive_attention(in, {.scale = 0.5});
    EXPECT_LT(largest_difference(attended(*plain(in), in), expected), kTolerance) << name;
  }
}

TEST(DotProductAttention, EqualsItsDefinitionUnderEveryRuleWhileTraced) {
  at::manual_seed(2);
  for (const auto& [name, in] : one_input_for_each_rule()) {
    AttentionTrace trace;
    const Tensor expected = naive_attention(in, {.scale = 0.5});
    EXPECT_LT(largest_difference(attended(*plain(in), in, &trace), expected), kTolerance) << name;
    EXPECT_EQ(trace.layers.size(), 1u) << name;
  }
}

TEST(DotProductAttention, GradientsAreRightUnderEveryRule) {
  at::manual_seed(3);
  for (const NamedInput& given : one_input_for_each_rule()) {
    for (const bool traced : {false, true}) {
      const AttentionInput& in = given.input;
      const auto attention = plain(in, {.scale = 0.7});
      std::vector<Tensor> inputs = {in.queries, in.keys, in.values};
      if (in.bias.defined()) inputs.push_back(in.bias);
      if (in.relative.defined()) inputs.push_back(in.relative.keys);
      const auto f = [&](const std::vector<Tensor>& x) {
        AttentionInput changed = in;
        std::size_t n = 3;
        changed.queries = x[0], changed.keys = x[1], changed.values = x[2];
        if (in.bias.defined()) changed.bias = x[n++];
        if (in.relative.defined()) changed.relative.keys = x[n++];
        AttentionTrace trace;
        return attended(*attention, changed, traced ? &trace : nullptr);
      };
      EXPECT_LT(gradient_error(f, inputs), 1e-7) << given.name << (traced ? ", traced" : "");
    }
  }
}

TEST(DotProductAttention, GradientsOfGradientsAreRight) {
  at::manual_seed(4);
  for (const bool traced : {false, true}) {
    AttentionInput in = random_input(1, 2, 3, 4, 3, 2);
    in.visible.pairs = at::rand({3, 4}) < 0.7;
    in.visible.pairs[1].fill_(false);
    const auto attention = plain(in);
    const auto f = [&](const std::vector<Tensor>& x) {
      AttentionInput changed = in;
      changed.queries = x[0], changed.keys = x[1], changed.values = x[2];
      AttentionTrace trace;
      return attended(*attention, changed, traced ? &trace : nullptr);
    };
    EXPECT_LT(second_gradient_error(f, {in.queries, in.keys, in.values}), 1e-6) << traced;
  }
}

TEST(DotProductAttention, ReadsViewsOfOnePackedProjection) {
  at::manual_seed(5);
  const Tensor packed = at::randn({2, 6, 3, 4, 8}, at::kDouble);
  const auto piece = [&](int i) { return packed.select(2, i).transpose(1, 2); };
  AttentionInput in;
  in.queries = piece(0), in.keys = piece(1), in.values = piece(2);
  EXPECT_LT(largest_difference(attended(*plain(in), in),
                               naive_attention(in, {.scale = 1 / std::sqrt(8.0)})),
            kTolerance);
  in.values = piece(2).transpose(2, 3).contiguous().transpose(2, 3);  // columns neighbour, not rows
  EXPECT_LT(largest_difference(attended(*plain(in), in),
                               naive_attention(in, {.scale = 1 / std::sqrt(8.0)})),
            kTolerance);
}

TEST(DotProductAttention, FloatAgreesWithDoubleAcrossManyHeads) {
  at::manual_seed(6);
  AttentionInput in = random_input(3, 5, 70, 90, 16, 12);
  const Tensor expected = attended(*plain(in), in);
  for (Tensor* x : {&in.queries, &in.keys, &in.values}) *x = x->to(at::kFloat);
  const Tensor y = attended(*plain(in), in);
  EXPECT_EQ(y.scalar_type(), at::kFloat);
  EXPECT_LT(largest_difference(y, expected), 1e-5);
  for (Tensor* x : {&in.queries, &in.keys, &in.values}) *x = x->to(at::kBFloat16);
  in.visible.pairs = at::ones({70, 90}, at::kBool);
  const Tensor coarse = attended(*plain(in), in);
  EXPECT_EQ(coarse.scalar_type(), at::kBFloat16);
  EXPECT_LT(largest_difference(coarse, expected), 0.05);
}

TEST(DotProductAttention, InferenceEqualsTraining) {
  at::manual_seed(7);
  for (const auto& [name, given] : one_input_for_each_rule()) {
    AttentionInput in = given;
    in.queries = in.queries.clone().requires_grad_();
    const auto attention = plain(in);
    const Tensor learning = attended(*attention, in);
    EXPECT_TRUE(learning.requires_grad()) << name;
    const at::NoGradGuard no_gradients;
    const Tensor y = attended(*attention, in);
    EXPECT_FALSE(y.requires_grad()) << name;
    EXPECT_EQ(largest_difference(y, learning.detach()), 0) << name;
  }
}

TEST(DotProductAttention, RowsThatSeeNothingGiveZerosAndFiniteGradients) {
  at::manual_seed(8);
  for (const bool traced : {false, true}) {
    AttentionInput in = random_input(1, 2, 3, 4, 3, 2);
    for (Tensor* x : {&in.queries, &in.keys, &in.values}) *x = x->clone().requires_grad_();
    in.visible.key_valid = at::zeros({1, 4}, at::kBool);
    AttentionTrace trace;
    const Tensor y = attended(*plain(in), in, traced ? &trace : nullptr);
    EXPECT_EQ(y.abs().max().item<double>(), 0);
    y.sum().backward();
    for (const Tensor& x : {in.queries, in.keys, in.values}) {
      EXPECT_EQ(x.grad().abs().max().item<double>(), 0);
    }
  }
}

TEST(DotProductAttention, HugeLogitsStayFinite) {
  for (const double size : {1e4, -1e4}) {
    AttentionInput in = random_input(1, 1, 3, 3, 1, 2);
    for (Tensor* x : {&in.queries, &in.keys, &in.values}) *x = x->to(at::kFloat).requires_grad_();
    {
      const at::NoGradGuard no_gradients;
      in.queries.fill_(100);
      in.keys.copy_(at::tensor({size / 100, size / 50, -size / 100}).view({1, 1, 3, 1}));
    }
    in.visible.causal = true;
    const Tensor y = attended(*plain(in, {.scale = 1.0}), in);
    y.sum().backward();
    EXPECT_TRUE(y.isfinite().all().item<bool>());
    EXPECT_TRUE(in.queries.grad().isfinite().all().item<bool>());
    const std::int64_t winner = size > 0 ? 1 : 2;
    EXPECT_LT(largest_difference(y[0][0][2], in.values[0][0][winner]), 1e-6);
  }
}

TEST(DotProductAttention, OneTokenSeesItself) {
  const AttentionInput in = random_input(2, 3, 1, 1, 4, 4);
  EXPECT_EQ(largest_difference(attended(*plain(in), in), in.values), 0);
}

TEST(DotProductAttention, NoKeysGiveZeros) {
  const AttentionInput in = random_input(2, 3, 5, 0, 4, 6);
  const Tensor y = attended(*plain(in), in);
  EXPECT_EQ(y.sizes(), at::IntArrayRef({2, 3, 5, 6}));
  EXPECT_EQ(y.abs().max().item<double>(), 0);
}

TEST(DotProductAttention, TraceHoldsWhatHappened) {
  at::manual_seed(9);
  AttentionInput in = random_input(2, 2, 3, 4, 5, 5);
  in.visible.pairs = at::ones({3, 4}, at::kBool);
  in.visible.pairs[0][1] = false;
  AttentionTrace trace;
  trace.weights = trace.logits = trace.norms = trace.entropy = true;
  AttentionContext context;
  context.layer = 7;
  context.trace = &trace;
  const Tensor y = plain(in)->forward(in, context);
  ASSERT_EQ(trace.layers.size(), 1u);
  const LayerTrace& seen = trace.layers[0];
  EXPECT_EQ(seen.layer, 7);
  EXPECT_LT(largest_difference(at::matmul(seen.weights, in.values), y), kTolerance);
  EXPECT_LT(largest_difference(seen.logits.softmax(-1), seen.weights), kTolerance);
  EXPECT_TRUE(std::isinf(seen.logits[0][0][0][1].item<double>()));
  EXPECT_LT(largest_difference(seen.query_norms, (in.queries * in.queries).sum(-1).sqrt()),
            kTolerance);
  EXPECT_LT(largest_difference(seen.key_norms, (in.keys * in.keys).sum(-1).sqrt()), kTolerance);
  const Tensor positive = seen.weights.clamp_min(1e-300);
  EXPECT_LT(largest_difference(seen.entropy, -(seen.weights * positive.log()).sum(-1)), kTolerance);
}

TEST(DotProductAttention, TraceRecordsOnlyWhatIsAsked) {
  const AttentionInput in = random_input(1, 1, 2, 2, 3, 3);
  AttentionTrace trace;
  trace.norms = true;
  attended(*plain(in), in, &trace);
  const LayerTrace& seen = trace.layers.at(0);
  EXPECT_TRUE(seen.query_norms.defined() && seen.key_norms.defined());
  EXPECT_FALSE(seen.weights.defined() || seen.logits.defined() || seen.entropy.defined());
}

TEST(DotProductAttention, DropoutActsInTrainingAloneAndKeepsTheMean) {
  at::manual_seed(10);
  AttentionInput in = random_input(1, 1, 2000, 4, 3, 1);
  in.values.fill_(1);  // without dropout every output is 1
  const auto attention = plain(in, {}, 0.25);
  const Tensor y = attended(*attention, in);
  EXPECT_GT((y - 1).abs().max().item<double>(), 0.1);
  EXPECT_NEAR(y.mean().item<double>(), 1, 0.03);
  attention->eval();
  EXPECT_LT((attended(*attention, in) - 1).abs().max().item<double>(), kTolerance);
}

/// A diagonal metric and a map on queries and keys, all visible in the result.
class Hooked final : public DotProductAttention {
 public:
  using DotProductAttention::DotProductAttention;

 protected:
  Tensor map_queries(const Tensor& q, AttentionContext&) const override { return q * q; }
  Tensor map_keys(const Tensor& k, AttentionContext&) const override { return k.sin(); }
  Tensor metric(const AttentionInput& in, AttentionContext&) const override {
    return in.values.abs().mean(2, true);
  }
};

TEST(DotProductAttention, MapsAndMetricShapeTheLogits) {
  at::manual_seed(11);
  const AttentionInput in = random_input(2, 2, 3, 4, 5, 5);
  AttentionShape shape;
  shape.heads = 2, shape.head_dim = 5;
  Hooked attention(shape, {.scale = 0.3});
  AttentionInput mapped = in;
  mapped.queries = in.queries * in.queries * in.values.abs().mean(2, true);
  mapped.keys = in.keys.sin();
  EXPECT_LT(largest_difference(attended(attention, in), naive_attention(mapped, {.scale = 0.3})),
            kTolerance);
}

TEST(DotProductAttention, MapsAndMetricActOnRelativePositionsToo) {
  at::manual_seed(12);
  AttentionInput in = random_input(1, 2, 3, 4, 5, 5);
  in.relative.keys = at::randn({2, 6, 5}, at::kDouble);
  in.relative.content_bias = at::randn({2, 5}, at::kDouble);
  in.relative.position_bias = at::randn({2, 5}, at::kDouble);
  AttentionShape shape;
  shape.heads = 2, shape.head_dim = 5;
  Hooked attention(shape, {.scale = 0.3});
  const Tensor metric = in.values.abs().mean(2, true);
  const auto mapped = [&](const Tensor& bias) {
    const Tensor q = in.queries + bias.unsqueeze(1);
    return q * q * metric;
  };
  Tensor logits = at::matmul(mapped(in.relative.content_bias), in.keys.sin().transpose(2, 3));
  const Tensor place =
      at::matmul(mapped(in.relative.position_bias), in.relative.keys.sin().transpose(1, 2));
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < 4; ++j) {
      const std::int64_t distance = i + 4 - 3 - j, column = 4 - 1 - distance;
      logits.select(2, i).select(2, j).add_(place.select(2, i).select(2, column));
    }
  }
  const Tensor expected = at::matmul((logits * 0.3).softmax(-1), in.values);
  EXPECT_LT(largest_difference(attended(attention, in), expected), kTolerance);
}

/// Sigmoid weights: a normaliser of its own.
class Sigmoid final : public DotProductAttention {
 public:
  explicit Sigmoid(const AttentionShape& shape)
      : DotProductAttention(shape, {.normaliser = Normaliser::custom}) {}

 protected:
  Tensor normalise(const Tensor& logits, const Tensor& visible, AttentionContext&) const override {
    const Tensor weights = logits.sigmoid();
    return visible.defined() ? weights.masked_fill(visible.logical_not(), 0) : weights;
  }
};

TEST(DotProductAttention, ANormaliserOfItsOwnReplacesTheSoftmax) {
  at::manual_seed(13);
  AttentionInput in = random_input(1, 2, 4, 4, 4, 4);
  in.visible.causal = true;
  AttentionShape shape;
  shape.heads = 2, shape.head_dim = 4;
  Sigmoid attention(shape);
  const Tensor logits = at::matmul(in.queries, in.keys.transpose(2, 3)) / 2;
  const Tensor expected = at::matmul(logits.sigmoid().tril(), in.values);
  EXPECT_LT(largest_difference(attended(attention, in), expected), kTolerance);
}

TEST(DotProductAttention, TheDefaultNormaliserIsTheMaskedSoftmax) {
  at::manual_seed(14);
  for (const auto& [name, in] : one_input_for_each_rule()) {
    const auto attention = plain(in, {.normaliser = Normaliser::custom});
    EXPECT_LT(largest_difference(attended(*attention, in), naive_attention(in, {.scale = 0.5})),
              kTolerance)
        << name;
  }
}

/// Softmax, or sigmoid weights by rule or by a normaliser, of logits with terms of its own: all
/// that are drawn once, of the lengths that it meets.
class Termed final : public DotProductAttention {
 public:
  Termed(const AttentionInput& in, Normaliser normaliser)
      : DotProductAttention(testing::shape_of(in),
                            {.scale = 0.5, .normaliser = normaliser, .terms = true}),
        softmax_(normaliser == Normaliser::softmax) {}
  std::function<void(LogitTerms&)> change = [](LogitTerms&) {};

 protected:
  LogitTerms terms(const AttentionInput& in, AttentionContext&) const override {
    const std::int64_t rows = in.query_count(), columns = in.key_count();
    const auto numbers = [&](std::int64_t length, double step) {
      return at::linspace(-1, 1, 2 * length, at::kDouble).mul(step).cos().view({1, 2, length});
    };
    LogitTerms own;
    own.cap = 1.2;
    own.bias = numbers(columns, 9).unsqueeze(2);
    own.distance_bias = numbers(rows + columns - 1, 7);
    own.query_sums = numbers(rows, 5), own.key_sums = numbers(columns, 3);
    if (softmax_) own.sink = at::tensor({0.3, -0.4}, at::kDouble), own.signs = true;
    change(own);
    return own;
  }
  RowWeights row_weights(const AttentionInput&, AttentionContext&) const override {
    return {&sigmoid_rule(), {}, {}};
  }
  Tensor normalise(const Tensor& logits, const Tensor& visible, AttentionContext&) const override {
    const Tensor weights = logits.sigmoid();
    return visible.defined() ? weights.masked_fill(visible.logical_not(), 0) : weights;
  }

 private:
  bool softmax_;
};

/// What an attention with these terms adds to its logits, [1, 2, Lq, Lk].
Tensor added_by(Termed& attention, const AttentionInput& in) {
  AttentionTrace trace;
  trace.bias = true;
  attended(attention, in, &trace);
  return trace.layers.at(0).bias;
}

TEST(DotProductAttention, TermsGiveTheSameByEveryKernelAndUnderATrace) {
  at::manual_seed(21);
  for (const Normaliser normaliser : {Normaliser::softmax, Normaliser::rule, Normaliser::custom}) {
    for (const auto& [name, given] : one_input_for_each_rule()) {
      AttentionInput in = given;
      in.visible.query_valid = at::ones({2, in.query_count()}, at::kBool);
      in.visible.query_valid[0][0] = false;
      Termed attention(in, normaliser);
      AttentionTrace trace;
      trace.weights = trace.logits = true;
      const Tensor y = attended(attention, in, &trace);
      EXPECT_LT(largest_difference(attended(attention, in), y), kTolerance) << name;
      EXPECT_LT(y[0].select(1, 0).abs().max().item<double>(), 1e-300) << name;
      const Tensor& weights = trace.layers.at(0).weights;
      EXPECT_LT(largest_difference(at::matmul(weights, in.values).narrow(2, 1, y.size(2) - 1),
                                   y.narrow(2, 1, y.size(2) - 1)),
                kTolerance)
          << name;
      const testing::KernelChoice chosen(AttentionKernel::headwise);
      if (normaliser == Normaliser::custom) {
        EXPECT_THROW(attended(attention, in), ConfigError) << name;
      } else {
        EXPECT_LT(largest_difference(attended(attention, in), y), kTolerance) << name;
      }
    }
  }
}

TEST(DotProductAttention, TermsMeanWhatTheySay) {
  at::manual_seed(22);
  const AttentionInput in = random_input(2, 2, 3, 5, 4, 3);
  Termed attention(in, Normaliser::softmax);
  const Tensor added = added_by(attention, in);
  ASSERT_EQ(added.sizes(), at::IntArrayRef({1, 2, 3, 5}));
  const Tensor products = at::matmul(in.queries, in.keys.transpose(2, 3)) / 2;
  const Tensor logits = (products / 1.2).tanh() * 1.2 + added;
  const Tensor sizes = logits.abs().exp();
  const Tensor sinks = at::tensor({0.3, -0.4}, at::kDouble).view({2, 1, 1}).exp();
  const Tensor weights = logits.sign() * sizes / (sizes.sum(3, true) + sinks);
  AttentionTrace trace;
  trace.logits = trace.weights = true;
  EXPECT_LT(largest_difference(attended(attention, in, &trace), at::matmul(weights, in.values)),
            kTolerance);
  EXPECT_LT(largest_difference(trace.layers.at(0).logits, logits), kTolerance);
  EXPECT_LT(largest_difference(trace.layers.at(0).weights, weights), kTolerance);
}

TEST(DotProductAttention, TermsKeepSequencesOfARaggedBatchApart) {
  at::manual_seed(23);
  AttentionInput in = random_input(1, 2, 7, 9, 4, 3);
  in.visible.query_offsets = at::tensor({0, 3, 3, 7}, at::kLong);
  in.visible.key_offsets = at::tensor({0, 4, 5, 9}, at::kLong);
  for (const Normaliser normaliser : {Normaliser::softmax, Normaliser::rule}) {
    Termed attention(in, normaliser);
    const Tensor y = attended(attention, in);
    std::vector<Tensor> separate;
    for (const std::int64_t t : {0, 2}) {
      separate.push_back(attended(attention, sequence_of(in, t)));
    }
    EXPECT_LT(largest_difference(y, at::cat(separate, 2)), kTolerance);
  }
}

TEST(DotProductAttention, TermsThatDoNotFitAreRefusedByName) {
  const AttentionInput in = random_input(2, 2, 3, 5, 4, 3);
  using Change = std::function<void(LogitTerms&)>;
  const std::pair<const char*, Change> wrong[] = {
      {"LogitTerms::distance_bias must be [B or 1, H, L]",
       [](LogitTerms& own) {
         own.distance_bias = at::zeros({1, 2, 8}, at::kDouble);
       }},
      {"LogitTerms::query_sums must be",
       [](LogitTerms& own) {
         own.query_sums = at::zeros({1, 2, 3}, at::kFloat);
       }},
      {"LogitTerms::key_sums must be",
       [](LogitTerms& own) {
         own.key_sums = at::zeros({2, 5}, at::kDouble);
       }},
      {"give both, or neither", [](LogitTerms& own) { own.key_sums = Tensor(); }},
      {"LogitTerms::sink must be [H or 1]",
       [](LogitTerms& own) { own.sink = at::zeros({3}, at::kDouble); }},
  };
  for (const auto& [text, change] : wrong) {
    Termed attention(in, Normaliser::softmax);
    attention.change = change;
    try {
      attended(attention, in);
      ADD_FAILURE() << "nothing was thrown: " << text;
    } catch (const ShapeError& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  }
  for (const Normaliser normaliser : {Normaliser::rule, Normaliser::custom}) {
    Termed attention(in, normaliser);
    attention.change = [](LogitTerms& own) { own.signs = true; };
    try {
      attended(attention, in);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find("take softmax"), std::string::npos) << error.what();
    }
  }
}

TEST(DotProductAttention, ARuleThatIsNotGivenIsAnError) {
  const AttentionInput in = random_input(1, 2, 3, 5, 4, 3);
  try {
    attended(*plain(in, {.normaliser = Normaliser::rule}), in);
    FAIL() << "nothing was thrown";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("row_weights"), std::string::npos) << error.what();
  }
}

TEST(DotProductAttention, ABiasByDistanceEqualsTheSameByPair) {
  at::manual_seed(24);
  for (const auto& [name, given] : one_input_for_each_rule()) {
    AttentionInput in = given, by_pair = given;
    in.distance_bias = at::randn({2, 2, in.query_count() + in.key_count() - 1}, at::kDouble);
    const Tensor pairs = pairs_of_distances(in.distance_bias, in.key_count());
    by_pair.bias = in.bias.defined() ? in.bias + pairs : pairs;
    const Tensor expected = naive_attention(by_pair, {.scale = 0.5});
    for (const AttentionKernel kernel :
         {AttentionKernel::explicit_form, AttentionKernel::headwise}) {
      const testing::KernelChoice chosen(kernel);
      EXPECT_LT(largest_difference(attended(*plain(in), in), expected), kTolerance)
          << name << ", " << name_of(kernel);
    }
    AttentionShape shape = testing::shape_of(in);
    Sigmoid sigmoid(shape);
    EXPECT_LT(largest_difference(attended(sigmoid, in), attended(sigmoid, by_pair)), kTolerance)
        << name;
  }
}

/// A metric of its own for each query: row i weighs channel c by i + c + 1.
class Metered final : public DotProductAttention {
 public:
  using DotProductAttention::DotProductAttention;
  static Tensor weights(std::int64_t rows, std::int64_t dim) {
    const at::TensorOptions options(at::kDouble);
    return at::arange(rows, options).unsqueeze(1) + at::arange(dim, options) + 1;
  }
  mutable int calls = 0;

 protected:
  Tensor metric(const AttentionInput& in, AttentionContext&) const override {
    ++calls;
    return weights(in.query_count(), in.queries.size(3));
  }
};

TEST(DotProductAttention, AMetricMayDifferBetweenQueriesAndIsAskedOnceForARaggedBatch) {
  at::manual_seed(19);
  AttentionInput in = random_input(1, 2, 6, 6, 4, 4);
  in.visible.query_offsets = in.visible.key_offsets = at::tensor({0, 2, 6}, at::kLong);
  AttentionShape shape;
  shape.heads = 2, shape.head_dim = 4;
  Metered attention(shape, {.scale = 0.3});
  const Tensor y = attended(attention, in);
  EXPECT_EQ(attention.calls, 1);
  AttentionInput metered = in;
  metered.queries = in.queries * Metered::weights(6, 4);
  EXPECT_LT(largest_difference(y, attended(*plain(in, {.scale = 0.3}), metered)), kTolerance);
}

TEST(DotProductAttention, PaddingQueriesGiveZerosAndANormaliserSeesNothingOfThem) {
  at::manual_seed(20);
  AttentionInput in = random_input(2, 2, 4, 4, 4, 4);
  in.visible.query_valid = at::ones({2, 4}, at::kBool);
  in.visible.query_valid[0][2] = false;
  AttentionShape shape;
  shape.heads = 2, shape.head_dim = 4;
  Sigmoid attention(shape);
  Tensor weights = at::matmul(in.queries, in.keys.transpose(2, 3)).div(2).sigmoid();
  weights[0].select(1, 2).zero_();
  AttentionTrace trace;
  trace.weights = true;
  const Tensor y = attended(attention, in, &trace);
  EXPECT_LT(largest_difference(y, at::matmul(weights, in.values)), kTolerance);
  EXPECT_LT(largest_difference(trace.layers.at(0).weights, weights), kTolerance);
  const Tensor softmax = attended(*plain(in), in);
  EXPECT_EQ(softmax[0].select(1, 2).abs().max().item<double>(), 0);
  EXPECT_GT(softmax[1].select(1, 2).abs().max().item<double>(), 0);
}

TEST(DotProductAttention, ATraceMayTakeEachLayerAsItComes) {
  const AttentionInput in = random_input(1, 1, 2, 2, 3, 3);
  AttentionTrace trace;
  trace.norms = true;
  int layers = 0;
  trace.on_layer = [&](const LayerTrace& layer) { layers += layer.query_norms.defined(); };
  attended(*plain(in), in, &trace);
  EXPECT_EQ(layers, 1);
  EXPECT_TRUE(trace.layers.empty());
}

AttentionInput sequence(const AttentionInput& all, std::int64_t t) {
  const auto bounds = [&](const Tensor& offsets) {
    const std::int64_t first = offsets[t].item<std::int64_t>();
    return std::pair(first, offsets[t + 1].item<std::int64_t>());
  };
  const auto [q0, q1] = bounds(all.visible.query_offsets);
  const auto [k0, k1] = bounds(all.visible.key_offsets);
  using at::indexing::Ellipsis;
  using at::indexing::Slice;
  AttentionInput one = all;
  one.visible.query_offsets = one.visible.key_offsets = Tensor();
  one.queries = all.queries.index({Ellipsis, Slice(q0, q1), Slice()});
  one.keys = all.keys.index({Ellipsis, Slice(k0, k1), Slice()});
  one.values = all.values.index({Ellipsis, Slice(k0, k1), Slice()});
  if (all.visible.key_valid.defined()) {
    one.visible.key_valid = all.visible.key_valid.index({Slice(), Slice(k0, k1)});
  }
  if (all.bias.defined()) one.bias = all.bias.index({Ellipsis, Slice(q0, q1), Slice(k0, k1)});
  if (all.visible.pairs.defined()) {
    one.visible.pairs = all.visible.pairs.index({Ellipsis, Slice(q0, q1), Slice(k0, k1)});
  }
  if (all.relative.defined()) {
    // Distance d is column Lk - 1 - d, of all and of one alike.
    std::vector<Tensor> columns;
    for (std::int64_t d = k1 - k0 - 1; d >= 1 - (q1 - q0); --d) {
      columns.push_back(all.relative.keys.select(1, all.key_count() - 1 - d));
    }
    one.relative.keys = at::stack(columns, 1);
  }
  return one;
}

TEST(DotProductAttention, RaggedSequencesEqualSeparateOnes) {
  at::manual_seed(15);
  const auto check = [](const char* name, const auto& change) {
    AttentionInput in = random_input(1, 2, 10, 12, 4, 3);
    in.visible.query_offsets = at::tensor({0, 4, 5, 10}, at::kLong);
    in.visible.key_offsets = at::tensor({0, 5, 10, 12}, at::kLong);
    change(in);
    const auto attention = plain(in);
    const Tensor y = attended(*attention, in);
    std::vector<Tensor> expected;
    for (std::int64_t t = 0; t < 3; ++t) {
      expected.push_back(naive_attention(sequence(in, t), {.scale = 0.5}));
    }
    EXPECT_LT(largest_difference(y, at::cat(expected, 2)), kTolerance) << name;
  };
  check("nothing", [](AttentionInput&) {});
  check("causal", [](AttentionInput& in) { in.visible.causal = true; });
  check("window", [](AttentionInput& in) { in.visible.window = 2; });
  check("padding", [](AttentionInput& in) { in.visible.key_valid = at::rand({1, 12}) < 0.7; });
  check("pairs", [](AttentionInput& in) { in.visible.pairs = at::rand({2, 10, 12}) < 0.7; });
  check("bias", [](AttentionInput& in) { in.bias = at::randn({10, 12}, at::kDouble); });
  check("relative", [](AttentionInput& in) {
    in.relative.keys = at::randn({2, 21, 4}, at::kDouble);
    in.relative.position_bias = at::randn({2, 4}, at::kDouble);
  });
}

TEST(DotProductAttention, RaggedSequencesMayBeEmpty) {
  AttentionInput in = random_input(1, 2, 3, 3, 4, 3);
  in.visible.query_offsets = at::tensor({0, 0, 2, 3}, at::kLong);
  in.visible.key_offsets = at::tensor({0, 1, 1, 3}, at::kLong);
  const Tensor y = attended(*plain(in), in);
  ASSERT_EQ(y.sizes(), at::IntArrayRef({1, 2, 3, 3}));
  EXPECT_EQ(y.narrow(2, 0, 2).abs().max().item<double>(), 0);  // queries without keys
  EXPECT_GT(y.narrow(2, 2, 1).abs().max().item<double>(), 0);
}

TEST(DotProductAttention, ARaggedTraceIsRefused) {
  AttentionInput in = random_input(1, 2, 3, 3, 4, 3);
  in.visible.query_offsets = in.visible.key_offsets = at::tensor({0, 3}, at::kLong);
  AttentionTrace trace;
  EXPECT_THROW(attended(*plain(in), in, &trace), ShapeError);
}

TEST(Unit, DividesByTheNormAndHasRightGradients) {
  at::manual_seed(16);
  for (const auto& sizes : std::vector<std::vector<std::int64_t>>{{3}, {2, 5}, {2, 3, 4, 37}}) {
    const Tensor x = at::randn(sizes, at::kDouble);
    const Tensor expected = x / (x * x).sum(-1, true).sqrt();
    EXPECT_LT(largest_difference(unit(x, 1e-12), expected), 1e-14);
    const auto f = [](const std::vector<Tensor>& in) { return unit(in[0], 1e-12); };
    EXPECT_LT(gradient_error(f, {x}), 1e-7);
  }
  const auto f = [](const std::vector<Tensor>& in) { return unit(in[0], 1e-12); };
  EXPECT_LT(second_gradient_error(f, {at::randn({2, 3, 4, 3}, at::kDouble)}), 1e-6);
}

TEST(Unit, DividesShortVectorsByEps) {
  const Tensor x = at::tensor({3.0, 4.0, 0.03, 0.04, 0.0, 0.0}, at::kDouble).view({3, 2});
  const auto f = [](const std::vector<Tensor>& in) { return unit(in[0], 0.1); };
  EXPECT_LT(largest_difference(
                unit(x, 0.1), at::tensor({0.6, 0.8, 0.3, 0.4, 0.0, 0.0}, at::kDouble).view({3, 2})),
            1e-12);
  EXPECT_LT(gradient_error(f, {x}), 1e-7);
  EXPECT_LT(second_gradient_error(f, {x}), 1e-6);
}

TEST(Unit, ZeroVectorsGiveZerosAndFiniteGradients) {
  for (const double eps : {0.0, 1e-12, 0.5}) {
    const Tensor x = at::zeros({2, 3}, at::kFloat).requires_grad_();
    const Tensor y = unit(x, eps);
    y.sum().backward();
    EXPECT_EQ(y.abs().max().item<double>(), 0);
    EXPECT_FLOAT_EQ(x.grad()[0][0].item<float>(), eps == 0 ? 0.0f : static_cast<float>(1 / eps));
  }
}

TEST(Unit, ReadsStridedViewsAndGradientsInAnyOrder) {
  at::manual_seed(17);
  const Tensor packed = at::randn({2, 5, 3, 4, 6}, at::kDouble);
  const auto f = [](const std::vector<Tensor>& in) {
    const Tensor keys = in[0].select(2, 1).transpose(1, 2);
    return unit(keys, 1e-12).transpose(2, 3).contiguous();
  };
  const Tensor keys = packed.select(2, 1).transpose(1, 2);
  EXPECT_LT(largest_difference(unit(keys, 1e-12), unit(keys.contiguous(), 1e-12)), 1e-15);
  EXPECT_LT(gradient_error(f, {packed}), 1e-7);
}

TEST(Unit, BFloat16IsComputedInFloat) {
  at::manual_seed(18);
  const Tensor x = at::randn({4, 64}).to(at::kBFloat16);
  const Tensor exact = unit(x.to(at::kDouble), 1e-12);
  EXPECT_EQ(largest_difference(unit(x, 1e-12), exact.to(at::kFloat).to(at::kBFloat16)), 0);
}

TEST(Unit, HalfIsComputedInFloat) {
  at::manual_seed(19);
  // Squares above 65504 and below the smallest half, and a row of zeros.
  const Tensor x =
      (at::randn({4, 64}) * at::tensor({1.f, 500.f, 1e-4f, 0.f}).view({4, 1})).to(at::kHalf);
  const Tensor y = unit(x, 1e-12);
  EXPECT_EQ(y.scalar_type(), at::kHalf);
  EXPECT_LT(largest_difference(y.to(at::kDouble), unit(x.to(at::kDouble), 1e-12)), 1e-3);
}

TEST(ComposedGradients, OfNarrowNumbersKnowHiddenPairs) {
  at::manual_seed(20);
  const auto made = [] { return at::randn({1, 2, 5, 4}); };
  const Tensor q = made(), k = made(), v = made(), grad = made();
  ComposedLogits in;
  in.hidden = at::ones({5, 5}, at::kBool).triu(1);
  const ComposedGradients exact = composed_softmax_gradients(q, k, v, grad, in);
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const ComposedGradients narrow =
        composed_softmax_gradients(q.to(type), k.to(type), v.to(type), grad.to(type), in);
    EXPECT_EQ(narrow.q.scalar_type(), type);
    EXPECT_LT(largest_difference(narrow.k.to(at::kFloat), exact.k), 0.1);
  }
}

TEST(VisiblePairs, IsUndefinedWhereEverythingIsVisible) {
  Visibility all;
  EXPECT_FALSE(visible_pairs(all, 4, 4, at::kCPU).defined());
  all.window = 4;
  EXPECT_FALSE(visible_pairs(all, 4, 4, at::kCPU).defined());
  all.window = 0;
  all.causal = true;
  EXPECT_FALSE(visible_pairs(all, 1, 9, at::kCPU).defined());
  EXPECT_TRUE(visible_pairs(all, 2, 9, at::kCPU).defined());
}

TEST(VisiblePairs, AlignsTheLastQueryWithTheLastKey) {
  Visibility causal;
  causal.causal = true;
  const Tensor expected = at::tensor({1, 1, 1, 0, 1, 1, 1, 1}).view({2, 4}).to(at::kBool);
  EXPECT_TRUE(visible_pairs(causal, 2, 4, at::kCPU).equal(expected));
}

}  // namespace
}  // namespace attnlab::dot_product_attention_test
