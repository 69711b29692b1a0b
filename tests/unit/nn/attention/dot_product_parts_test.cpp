// Maps, metrics, normalisers and logit terms that classes give to dot-product attention.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "framework/nn/attention/attention_kernel.h"
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/tensor/by_distance.h"
#include "tests/support/attended.h"
#include "tests/support/kernel_choice.h"
#include "tests/support/message_of.h"
#include "tests/support/naive_attention.h"
#include "tests/unit/nn/attention/plain_attention.h"

namespace attnlab::dot_product_parts_test {
namespace {

using testing::attended;
using ::testing::HasSubstr;
using testing::KernelChoice;
using testing::largest_difference;
using testing::message_of;
using testing::naive_attention;
using testing::one_input_for_each_rule;
using testing::plain_attention;
using testing::random_input;
using testing::shape_of;
using testing::SigmoidAttention;
using testing::visible_sigmoid;

constexpr double kTolerance = 1e-10;

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
  Hooked attention(shape_of(in), {.scale = 0.3});
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
  Hooked attention(shape_of(in), {.scale = 0.3});
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
  Metered attention(shape_of(in), {.scale = 0.3});
  const Tensor y = attended(attention, in);
  EXPECT_EQ(attention.calls, 1);
  AttentionInput metered = in;
  metered.queries = in.queries * Metered::weights(6, 4);
  EXPECT_LT(largest_difference(y, attended(*plain_attention(in, {.scale = 0.3}), metered)),
            kTolerance);
}

// ---- normalisers

TEST(DotProductAttention, ANormaliserOfItsOwnReplacesTheSoftmax) {
  at::manual_seed(13);
  AttentionInput in = random_input(1, 2, 4, 4, 4, 4);
  in.visible.causal = true;
  SigmoidAttention attention(in);
  const Tensor logits = at::matmul(in.queries, in.keys.transpose(2, 3)) / 2;
  const Tensor expected = at::matmul(logits.sigmoid().tril(), in.values);
  EXPECT_LT(largest_difference(attended(attention, in), expected), kTolerance);
}

TEST(DotProductAttention, TheDefaultNormaliserIsTheMaskedSoftmax) {
  at::manual_seed(14);
  for (const auto& [name, in] : one_input_for_each_rule()) {
    const auto attention = plain_attention(in, {.normaliser = Normaliser::custom});
    EXPECT_LT(largest_difference(attended(*attention, in), naive_attention(in, {.scale = 0.5})),
              kTolerance)
        << name;
  }
}

TEST(DotProductAttention, PaddingQueriesGiveZerosAndANormaliserSeesNothingOfThem) {
  at::manual_seed(20);
  AttentionInput in = random_input(2, 2, 4, 4, 4, 4);
  in.visible.query_valid = at::ones({2, 4}, at::kBool);
  in.visible.query_valid[0][2] = false;
  SigmoidAttention attention(in);
  Tensor weights = at::matmul(in.queries, in.keys.transpose(2, 3)).div(2).sigmoid();
  weights[0].select(1, 2).zero_();
  AttentionTrace trace;
  trace.weights = true;
  const Tensor y = attended(attention, in, &trace);
  EXPECT_LT(largest_difference(y, at::matmul(weights, in.values)), kTolerance);
  EXPECT_LT(largest_difference(trace.layers.at(0).weights, weights), kTolerance);
  const Tensor softmax = attended(*plain_attention(in), in);
  EXPECT_EQ(softmax[0].select(1, 2).abs().max().item<double>(), 0);
  EXPECT_GT(softmax[1].select(1, 2).abs().max().item<double>(), 0);
}

TEST(DotProductAttention, ARuleThatIsNotGivenIsAnError) {
  const AttentionInput in = random_input(1, 2, 3, 5, 4, 3);
  const auto attention = plain_attention(in, {.normaliser = Normaliser::rule});
  EXPECT_THAT(message_of<ConfigError>([&] { attended(*attention, in); }), HasSubstr("row_weights"));
}

// ---- terms of logits

/// Softmax, or sigmoid weights by rule or by a normaliser, of logits with terms of its own: all
/// that are drawn once, of the lengths that it meets.
class Termed final : public DotProductAttention {
 public:
  Termed(const AttentionInput& in, Normaliser normaliser)
      : DotProductAttention(shape_of(in), {.scale = 0.5, .normaliser = normaliser, .terms = true}),
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
    return visible_sigmoid(logits, visible);
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
      const KernelChoice chosen(AttentionKernel::headwise);
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
    EXPECT_THAT(message_of<ShapeError>([&] { attended(attention, in); }), HasSubstr(text)) << text;
  }
  for (const Normaliser normaliser : {Normaliser::rule, Normaliser::custom}) {
    Termed attention(in, normaliser);
    attention.change = [](LogitTerms& own) { own.signs = true; };
    EXPECT_THAT(message_of<ConfigError>([&] { attended(attention, in); }),
                HasSubstr("take softmax"));
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
      const KernelChoice chosen(kernel);
      EXPECT_LT(largest_difference(attended(*plain_attention(in), in), expected), kTolerance)
          << name << ", " << name_of(kernel);
    }
    SigmoidAttention sigmoid(in);
    EXPECT_LT(largest_difference(attended(sigmoid, in), attended(sigmoid, by_pair)), kTolerance)
        << name;
  }
}

}  // namespace
}  // namespace attnlab::dot_product_parts_test
