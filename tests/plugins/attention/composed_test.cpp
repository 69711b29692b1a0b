// Composed attention: spelling out a named mechanism gives that mechanism, bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "tests/support/attended.h"
#include "tests/support/gradcheck.h"
#include "tests/support/kernel_choice.h"
#include "tests/support/message_of.h"
#include "tests/support/naive_attention.h"
#include "tests/support/plugins.h"

namespace attnlab::composed_test {
namespace {

using ::testing::HasSubstr;
using testing::KernelChoice;
using testing::largest_difference;
using testing::random_input;

/// A named mechanism, and how `composed` spells it.
struct Spelling {
  const char* name;
  const char* options;  ///< of the named one
  const char* parts;    ///< options of `composed`
};

constexpr const char* kUnitPair = "query: {map: sphere}, key: {map: sphere}";

const std::vector<Spelling>& spellings() {
  static const std::string hs = std::string("{") + kUnitPair + ", scale: {kind: learned}}";
  static const std::string plain_hs =
      std::string("{") + kUnitPair + ", scale: {kind: learned, parameter: plain, init: 3}}";
  static const std::string cosine =
      std::string("{") + kUnitPair + ", scale: {value: 1}, normaliser: {kind: power}}";
  static const std::vector<Spelling> all = {
      {"standard", "{}", "{}"},
      {"standard", "{scale_by: model_dim}", "{scale: {by: model_dim}}"},
      {"quest", "{}", "{key: {map: sphere}, scale: {value: 1}}"},
      {"quest", "{eps: 0.5}", "{key: {map: sphere, eps: 0.5}, scale: {value: 1}}"},
      {"qnorm", "{}", "{query: {map: sphere}, scale: {value: 1}}"},
      {"qknorm", "{}",
       "{query: {map: sphere, scales: head_channel}, key: {map: sphere, scales: head_channel}, "
       "scale: {value: 1}}"},
      {"qknorm", "{scales: channel, init: 2}",
       "{query: {map: sphere, scales: channel, init: 2}, key: {map: sphere, scales: channel, "
       "init: 2}, scale: {value: 1}}"},
      {"qknorm_hs", "{}", hs.c_str()},
      {"qknorm_hs", "{parameter: plain, init: 3}", plain_hs.c_str()},
      {"qknorm_ln", "{}", "{query: {map: layer_norm}, key: {map: layer_norm}}"},
      {"elliptical", "{}", "{metric: {kind: elliptical}}"},
      {"elliptical", "{average: median, causal_leak: true}",
       "{metric: {kind: elliptical, elliptical: {average: median, causal_leak: true}}}"},
      {"elliptical_quest", "{}",
       "{key: {map: sphere}, metric: {kind: elliptical}, scale: {value: 1}}"},
      {"sigmoid", "{}", "{normaliser: {kind: sigmoid}}"},
      {"sigmoid", "{scale_by: model_dim, bias: constant, constant: -1}",
       "{scale: {by: model_dim}, normaliser: {kind: sigmoid, sigmoid: {bias: constant, constant: "
       "-1}}}"},
      {"doubly_stochastic", "{max_iter: 8, eps: 1.4}",
       "{normaliser: {kind: sinkhorn, sinkhorn: {max_iter: 8, eps: 1.4}}}"},
      {"cosine", "{}", cosine.c_str()},
  };
  return all;
}

AttentionShape shape_of(const AttentionInput& in, std::int64_t layer = 0) {
  return testing::shape_of(in, layer, 2);
}

/// Two layers of one stack: elliptical attention has a metric in the second alone.
using Stack = std::vector<std::shared_ptr<Attention>>;

Stack stack_of(const char* name, const AttentionInput& in, const char* options) {
  Stack layers;
  for (const std::int64_t layer : {0, 1}) {
    layers.push_back(testing::make_attention(name, shape_of(in, layer), options));
    layers.back()->to(in.queries.scalar_type());
  }
  return layers;
}

/// Moves the parameters of `a` away from their starts, and copies them to `b`.
void vary(const Stack& a, const Stack& b) {
  const at::NoGradGuard no_gradients;
  for (std::size_t layer = 0; layer < a.size(); ++layer) {
    const std::vector<Tensor> from = a[layer]->parameters(), to = b[layer]->parameters();
    ASSERT_EQ(a[layer]->named_parameters().keys(), b[layer]->named_parameters().keys());
    for (std::size_t p = 0; p < from.size(); ++p) {
      ASSERT_EQ(from[p].sizes(), to[p].sizes());
      ASSERT_TRUE(at::equal(from[p], to[p])) << "the starts differ";
      from[p].add_(at::rand_like(from[p]));
      to[p].copy_(from[p]);
    }
  }
}

/// What a stack gives: both layers' outputs, then the gradients of inputs and parameters.
std::vector<Tensor> results(const Stack& layers, const AttentionInput& given) {
  AttentionInput in = given;
  std::vector<Tensor> leaves;
  for (Tensor* x : {&in.queries, &in.keys, &in.values}) {
    *x = x->detach().clone().requires_grad_();
    leaves.push_back(*x);
  }
  ForwardState state;
  std::vector<Tensor> all;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    for (const Tensor& parameter : layers[layer]->parameters()) leaves.push_back(parameter);
    AttentionContext context;
    context.layer = static_cast<std::int64_t>(layer);
    context.state = &state;
    AttentionInput here = in;
    if (layer > 0) here.values = in.values.flip(-1) * 0.7;  // other values than the layer before
    all.push_back(layers[layer]->forward(here, context));
  }
  const Tensor score = (all[0] * testing::probe_like(all[0])).sum() + all[1].sin().sum();
  for (const Tensor& gradient : torch::autograd::grad({score}, leaves)) all.push_back(gradient);
  return all;
}

/// Whether the mechanism takes an input of these rules, by its traits.
bool takes(const Attention& attention, const AttentionInput& in) {
  const AttentionTraits& has = attention.traits();
  return (has.bias || !in.bias.defined()) && (has.causal || !in.visible.causal) &&
         (has.window || in.visible.window == 0) && (has.pair_mask || !in.visible.pairs.defined()) &&
         (has.relative_positions || !in.relative.defined());
}

/// As wide values as keys, which the elliptical metric needs.
AttentionInput squared(AttentionInput in) {
  in.values = at::cat({in.values, in.values.narrow(3, 0, 1) * 0.5}, 3);
  return in;
}

/// Compares bits under every rule that the named mechanism takes; returns how many there were.
int compare(const Spelling& spelling, at::ScalarType dtype) {
  int compared = 0;
  for (const auto& [rule, input] : testing::one_input_for_each_rule()) {
    AttentionInput in = squared(input);
    for (Tensor* x : {&in.queries, &in.keys, &in.values, &in.bias, &in.relative.keys,
                      &in.relative.content_bias, &in.relative.position_bias}) {
      if (x->defined()) *x = x->to(dtype);
    }
    const Stack named = stack_of(spelling.name, in, spelling.options);
    if (!takes(*named[0], in)) continue;
    const Stack composed = stack_of("composed", in, spelling.parts);
    vary(named, composed);
    const std::vector<Tensor> expected = results(named, in), found = results(composed, in);
    EXPECT_EQ(expected.size(), found.size());
    if (expected.size() != found.size()) return compared;
    for (std::size_t n = 0; n < expected.size(); ++n) {
      EXPECT_TRUE(at::equal(expected[n], found[n]))
          << spelling.name << " " << spelling.options << ", " << rule << ", result " << n << ": "
          << largest_difference(expected[n], found[n]);
    }
    ++compared;
  }
  return compared;
}

Tensor attended(const char* options, const AttentionInput& in, AttentionTrace* trace = nullptr) {
  const auto attention = testing::make_attention("composed", shape_of(in), options);
  attention->to(in.queries.scalar_type());
  return testing::attended(*attention, in, trace);
}

constexpr const char* kQuestWithSinkhorn =
    "{key: {map: sphere}, scale: {value: 1}, "
    "normaliser: {kind: sinkhorn, sinkhorn: {max_iter: 21, eps: 2}}}";

TEST(ComposedAttention, HonoursEveryInputOfTheContract) {
  const AttentionInput in = random_input(1, 2, 3, 3, 4, 4);
  EXPECT_EQ(testing::make_attention("composed", shape_of(in), kQuestWithSinkhorn)->traits(),
            AttentionTraits::all_quadratic());
}

TEST(ComposedAttention, SpellingOutANamedMechanismEqualsItBitForBit) {
  at::manual_seed(1);
  const KernelChoice weights_one_by_one(AttentionKernel::explicit_form);
  for (const Spelling& spelling : spellings()) {
    EXPECT_GE(compare(spelling, at::kDouble), 5) << spelling.name;
  }
}

TEST(ComposedAttention, EqualsItBitForBitInSinglePrecisionByTheKernelOfChoice) {
  at::manual_seed(2);
  for (const Spelling& spelling : spellings()) {
    if (spelling.name == std::string("cosine")) continue;  // has a kernel of its own
    EXPECT_GE(compare(spelling, at::kFloat), 5) << spelling.name;
  }
}

TEST(ComposedAttention, QuestWithSinkhornIgnoresKeyNormAndHasRowsThatSumToOne) {
  at::manual_seed(3);
  const AttentionInput in = random_input(2, 2, 5, 5, 6, 3);
  AttentionTrace trace;
  trace.weights = true;
  const Tensor y = attended(kQuestWithSinkhorn, in, &trace);
  AttentionInput louder = in;
  louder.keys = in.keys * at::logspace(-3, 3, 5, 10.0, at::kDouble).view({1, 1, 5, 1});
  EXPECT_LT(largest_difference(y, attended(kQuestWithSinkhorn, louder)), 1e-11);
  // 21 half-steps end on the rows, which are then exact; the columns have nearly converged.
  const Tensor& weights = trace.layers[0].weights;
  const Tensor ones = at::ones({2, 2, 5}, at::kDouble);
  EXPECT_LT(largest_difference(weights.sum(-1), ones), 1e-10);
  EXPECT_LT(largest_difference(weights.sum(-2), ones), 1e-2);
  EXPECT_GT(largest_difference(y, attended("{key: {map: sphere}, scale: {value: 1}}", in)), 1e-3);
}

TEST(ComposedAttention, EllipticalSigmoidIsTheSigmoidOfLogitsUnderTheMetric) {
  at::manual_seed(4);
  const AttentionInput in = random_input(1, 2, 4, 4, 3, 3);
  const Stack layers =
      stack_of("composed", in, "{metric: {kind: elliptical}, normaliser: {kind: sigmoid}}");
  const Tensor second = results(layers, in)[1];
  const Tensor before = in.values, after = in.values.flip(-1) * 0.7;
  for (std::int64_t h = 0; h < 2; ++h) {
    double change[3] = {}, largest = 0;
    for (std::int64_t c = 0; c < 3; ++c) {
      for (std::int64_t j = 0; j < 4; ++j) {
        change[c] += std::abs((after[0][h][j][c] - before[0][h][j][c]).item<double>());
      }
      largest = std::max(largest, change[c]);
    }
    for (std::int64_t i = 0; i < 4; ++i) {
      double expected[3] = {};
      for (std::int64_t j = 0; j < 4; ++j) {
        const testing::Row q = testing::row(in.queries[0][h][i]);
        const testing::Row k = testing::row(in.keys[0][h][j]), v = testing::row(after[0][h][j]);
        double logit = -std::log(4.0);
        for (std::size_t c = 0; c < 3; ++c) {
          logit += q[c] * change[c] / largest * k[c] / std::sqrt(3.0);
        }
        for (std::size_t c = 0; c < 3; ++c) expected[c] += v[c] / (1 + std::exp(-logit));
      }
      for (std::int64_t c = 0; c < 3; ++c) {
        EXPECT_NEAR(second[0][h][i][c].item<double>(), expected[c], 1e-10);
      }
    }
  }
}

TEST(ComposedAttention, RefusesACausalRuleUnderSinkhornAlone) {
  AttentionInput in = random_input(1, 1, 3, 3, 4, 4);
  in.visible.causal = true;
  try {
    attended(kQuestWithSinkhorn, in);
    FAIL() << "a causal Sinkhorn was computed";
  } catch (const TraitError& error) {
    EXPECT_THAT(error.what(), HasSubstr("visible.causal"));
    EXPECT_THAT(error.what(), HasSubstr("sinkhorn"));
  }
  for (const char* kind : {"softmax", "sigmoid", "power"}) {
    const std::string options = std::string("{normaliser: {kind: ") + kind + "}}";
    EXPECT_NO_THROW(attended(options.c_str(), in)) << kind;
  }
}

TEST(ComposedAttention, RefusesOptionsThatContradictEachOther) {
  const AttentionInput in = random_input(1, 1, 3, 3, 4, 4);
  const auto message = [&](const char* options) {
    return testing::message_of<ConfigError>([&] { attended(options, in); });
  };
  EXPECT_THAT(message("{scale: {kind: learned, value: 2}}"),
              HasSubstr("belongs to a constant scale"));
  EXPECT_THAT(message("{scale: {kind: learned, init: 200}}"), HasSubstr("above max"));
  EXPECT_THAT(message("{key: {map: spheres}}"), HasSubstr("did you mean 'sphere'?"));
}

TEST(ComposedAttention, GradientsOfACombinationAreRight) {
  at::manual_seed(5);
  const AttentionInput in = random_input(2, 2, 3, 4, 4, 3);
  for (const char* options :
       {kQuestWithSinkhorn,
        "{query: {map: layer_norm, scales: channel}, key: {map: sphere, scales: head_channel}, "
        "scale: {kind: learned}, normaliser: {kind: sigmoid}}"}) {
    const auto attention = testing::make_attention("composed", shape_of(in), options);
    attention->to(at::kDouble);
    std::vector<Tensor> leaves = attention->parameters();
    for (const Tensor* x : {&in.queries, &in.keys, &in.values}) {
      leaves.push_back(x->detach().clone().requires_grad_());
    }
    AttentionInput changed = in;
    changed.values = leaves.back();
    changed.keys = leaves[leaves.size() - 2];
    changed.queries = leaves[leaves.size() - 3];
    const auto f = [&] { return testing::attended(*attention, changed); };
    EXPECT_LT(testing::leaf_gradient_error(f, leaves), 1e-6) << options;
  }
}

}  // namespace
}  // namespace attnlab::composed_test
