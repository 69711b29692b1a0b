// Terms of logits, and weights by a rule, in the kernel that goes block by block: against loops
// over pairs and against plain operations in float64.
#include "framework/nn/kernels/logit_terms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "framework/nn/kernels/cpu_attention.h"
#include "tests/support/like_double.h"
#include "tests/support/naive_attention.h"

namespace attnlab::logit_terms_test {
namespace {

using testing::largest_difference;
using testing::value_and_gradients;

constexpr std::int64_t kBatch = 2, kHeads = 2, kDim = 5, kChannels = 4;
constexpr double kScale = 0.7, kEps = 0.5, kCap = 1.5, kDropout = 0.3;
constexpr std::int64_t kSeed = 11;

enum class Bias { none, pairs, keys, queries, heads, one };

struct Case {
  const char* name;
  std::int64_t queries, keys;
  Bias bias = Bias::none;
  bool cap = false, distance = false, sums = false, sink = false, signs = false;
  bool relative = false, hides = false, unit = false, drops = false;
  bool shares = false;  ///< one table and one pair of sums for all examples, one sink for all heads
  PlaceRules rules = {};
  RowRule& (*rule)() = nullptr;
};

// Each term alone and all together, less than a block, several, ends within tiles and vectors.
const Case kCases[] = {
    {.name = "bias by pair", .queries = 30, .keys = 40, .bias = Bias::pairs},
    {.name = "bias by key", .queries = 205, .keys = 531, .bias = Bias::keys},
    {.name = "bias by key, one query", .queries = 1, .keys = 700, .bias = Bias::keys},
    {.name = "bias by query", .queries = 205, .keys = 531, .bias = Bias::queries, .sink = true},
    {.name = "bias by head", .queries = 30, .keys = 40, .bias = Bias::heads, .sink = true},
    {.name = "one bias", .queries = 30, .keys = 40, .bias = Bias::one, .sink = true},
    {.name = "cap", .queries = 205, .keys = 531, .cap = true},
    {.name = "cap and relative positions",
     .queries = 101,
     .keys = 70,
     .cap = true,
     .relative = true},
    {.name = "distance", .queries = 205, .keys = 531, .distance = true},
    {.name = "distance, one query", .queries = 1, .keys = 700, .distance = true},
    {.name = "distance, one key", .queries = 200, .keys = 1, .distance = true, .sink = true},
    {.name = "distance for all", .queries = 40, .keys = 30, .distance = true, .shares = true},
    {.name = "sums", .queries = 300, .keys = 300, .sums = true, .rules = {.causal = true}},
    {.name = "sums for all", .queries = 20, .keys = 50, .sums = true, .shares = true},
    {.name = "sink", .queries = 205, .keys = 531, .sink = true},
    {.name = "sink of one query", .queries = 1, .keys = 33, .sink = true, .shares = true},
    {.name = "sink, rows without keys",
     .queries = 400,
     .keys = 270,
     .sink = true,
     .rules = {.causal = true}},
    {.name = "signs", .queries = 205, .keys = 531, .signs = true},
    {.name = "signs, rows without keys", .queries = 50, .keys = 40, .signs = true, .hides = true},
    {.name = "unit keys",
     .queries = 110,
     .keys = 270,
     .bias = Bias::keys,
     .cap = true,
     .sink = true,
     .unit = true},
    {.name = "everything",
     .queries = 205,
     .keys = 531,
     .bias = Bias::pairs,
     .cap = true,
     .distance = true,
     .sums = true,
     .sink = true,
     .signs = true,
     .relative = true,
     .hides = true,
     .drops = true,
     .rules = {.causal = true, .window = 300}},
    {.name = "everything but signs, a short bias",
     .queries = 97,
     .keys = 259,
     .bias = Bias::keys,
     .cap = true,
     .distance = true,
     .sums = true,
     .sink = true,
     .hides = true,
     .drops = true,
     .shares = true},
    {.name = "rule", .queries = 205, .keys = 531, .rule = sigmoid_rule},
    {.name = "rule, one query", .queries = 1, .keys = 700, .rule = sigmoid_rule},
    {.name = "rule, unit keys", .queries = 30, .keys = 40, .unit = true, .rule = sigmoid_rule},
    {.name = "rule, rows without keys",
     .queries = 400,
     .keys = 270,
     .rules = {.causal = true},
     .rule = sigmoid_rule},
    {.name = "rule and everything",
     .queries = 205,
     .keys = 531,
     .bias = Bias::keys,
     .cap = true,
     .distance = true,
     .sums = true,
     .relative = true,
     .hides = true,
     .drops = true,
     .rules = {.causal = true, .window = 300},
     .rule = sigmoid_rule},
    {.name = "rule and a bias by pair",
     .queries = 110,
     .keys = 60,
     .bias = Bias::pairs,
     .drops = true,
     .rule = sigmoid_rule},
};

std::vector<std::int64_t> bias_sizes(const Case& c) {
  switch (c.bias) {
    case Bias::pairs:
      return {kBatch, 1, c.queries, c.keys};
    case Bias::keys:
      return {kHeads, 1, c.keys};
    case Bias::queries:
      return {kBatch, 1, c.queries, 1};
    case Bias::heads:
      return {1, kHeads, 1, 1};
    default:
      return {1};
  }
}

/// A case with its tensors, float64: queries, keys, values, then those of the terms that it has.
struct Posed {
  Case c;
  std::vector<Tensor> inputs;
  int bias = -1, table = -1, at_queries = -1, at_keys = -1, sink = -1, relative = -1;
  AttentionInput in;               ///< gives shapes and who sees whom
  Tensor shift = {}, factor = {};  ///< of the rule

  explicit Posed(const Case& given) : c(given) {
    at::manual_seed(5);
    const auto drawn = [](at::IntArrayRef sizes) { return at::randn(sizes, at::kDouble); };
    in = testing::random_input(kBatch, kHeads, c.queries, c.keys, kDim, kChannels);
    if (c.unit) in.keys *= at::rand({c.keys, 1}, at::kDouble) * 2;
    in.visible.causal = c.rules.causal, in.visible.window = c.rules.window;
    if (c.hides) {
      in.visible.pairs = at::rand({kBatch, 1, c.queries, c.keys}) < 0.6;
      in.visible.pairs[0].select(1, 0).zero_();
      in.visible.key_valid = at::rand({kBatch, c.keys}) < 0.8;
    }
    inputs = {in.queries, in.keys, in.values};
    const auto add = [&](const Tensor& x) {
      inputs.push_back(x);
      return static_cast<int>(inputs.size()) - 1;
    };
    const std::int64_t examples = c.shares ? 1 : kBatch;
    if (c.bias != Bias::none) bias = add(drawn(bias_sizes(c)));
    if (c.distance) table = add(drawn({examples, kHeads, c.queries + c.keys - 1}));
    if (c.sums) {
      at_queries = add(drawn({examples, kHeads, c.queries}));
      at_keys = add(drawn({examples, kHeads, c.keys}));
    }
    if (c.sink) sink = add(drawn({c.shares ? 1 : kHeads}));
    if (c.relative) {
      relative = add(drawn({1, kHeads, c.queries + c.keys - 1, kDim}) * 0.5);
      in.relative.keys = inputs.back()[0];
    }
    if (c.rule == nullptr) return;
    shift = drawn({1, kHeads, c.queries, 1});
    factor = drawn({kBatch, 1, c.queries, 1}).abs();
  }

  /// One of the tensors given, or undefined.
  static Tensor of(const std::vector<Tensor>& x, int place) {
    return place < 0 ? Tensor() : x[static_cast<std::size_t>(place)];
  }
};

Tensor by_kernel(const Posed& s, const std::vector<Tensor>& x) {
  const at::ScalarType dtype = x[0].scalar_type();
  SoftmaxQuestion asked{.pairs = s.in.visible.pairs,
                        .key_valid = s.in.visible.key_valid,
                        .rules = s.c.rules,
                        .scale = kScale,
                        .bias = Posed::of(x, s.bias)};
  if (s.c.unit) asked.unit_keys = kEps;
  if (s.c.drops) asked.dropout = kDropout;
  if (s.c.relative) asked.relative_queries = x[0];
  asked.relative_keys = Posed::of(x, s.relative);
  asked.terms.cap = s.c.cap ? kCap : 0;
  asked.terms.signs = s.c.signs;
  asked.terms.distance_bias = Posed::of(x, s.table);
  asked.terms.query_sums = Posed::of(x, s.at_queries);
  asked.terms.key_sums = Posed::of(x, s.at_keys);
  asked.terms.sink = Posed::of(x, s.sink);
  if (s.c.rule != nullptr) {
    asked.each = {&s.c.rule(), s.shift.to(dtype), s.factor.to(dtype)};
  }
  at::manual_seed(kSeed);
  return cpu_softmax_attention(x[0], x[1], x[2], asked);
}

/// What dropout multiplies the weights by, [B, H, Lq, Lk] float64.
Tensor drop_factors(const Case& c) {
  at::manual_seed(kSeed);
  const DropoutMask mask = draw_dropout(kDropout);
  Tensor factors = at::empty({kBatch, kHeads, c.queries, c.keys}, at::kDouble);
  dropout_factors(factors.data_ptr<double>(), 0, factors.numel(), mask);
  return factors;
}

/// The complete logit of a pair.
double naive_logit(const Posed& s, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
  const testing::NaiveSettings settings{.scale = kScale, .unit_keys = s.c.unit, .eps = kEps};
  double l = testing::naive_logit(s.in, settings, b, h, i, j);
  if (s.c.cap) l = kCap * std::tanh(l / kCap);
  const auto number = [&](int place, std::int64_t last) {
    return testing::at_pair(s.inputs[static_cast<std::size_t>(place)], 0, b, h, last);
  };
  if (s.bias >= 0) l += testing::at_pair(s.inputs[static_cast<std::size_t>(s.bias)], b, h, i, j);
  if (s.table >= 0) l += number(s.table, s.c.queries - 1 - i + j);
  if (s.at_queries >= 0) l += number(s.at_queries, i) - number(s.at_keys, j);
  return l;
}

/// Weights of one row, before dropout.
testing::Row naive_weights(const Posed& s, std::int64_t b, std::int64_t h, std::int64_t i) {
  testing::Row weights(static_cast<std::size_t>(s.c.keys), 0);
  const auto sees = [&](std::size_t j) {
    return testing::sees(s.in, b, h, i, static_cast<std::int64_t>(j));
  };
  testing::Row logits = weights;
  for (std::size_t j = 0; j < logits.size(); ++j) {
    if (sees(j)) logits[j] = naive_logit(s, b, h, i, static_cast<std::int64_t>(j));
  }
  if (s.c.rule != nullptr) {
    const double a = testing::at_pair(s.shift, b, h, i, 0);
    const double c = testing::at_pair(s.factor, b, h, i, 0);
    for (std::size_t j = 0; j < logits.size(); ++j) {
      if (sees(j)) weights[j] = c / (1 + std::exp(-logits[j] - a));
    }
    return weights;
  }
  double sum = 0;
  if (s.sink >= 0) {
    const Tensor& sink = s.inputs[static_cast<std::size_t>(s.sink)];
    sum = std::exp(testing::at_pair(sink, 0, 0, 0, h));
  }
  const auto sign_of = [](double logit) {  // none within 1e-5 of 0
    return std::abs(logit) < 1e-5 ? 0.0 : logit < 0 ? -1.0 : 1.0;
  };
  const auto size_of_logit = [&](double logit) {
    return std::exp(s.c.signs ? sign_of(logit) * logit : logit);
  };
  for (std::size_t j = 0; j < logits.size(); ++j) {
    if (sees(j)) sum += size_of_logit(logits[j]);
  }
  for (std::size_t j = 0; j < logits.size(); ++j) {
    if (!sees(j)) continue;
    weights[j] = size_of_logit(logits[j]) / sum;
    if (s.c.signs) weights[j] *= sign_of(logits[j]);
  }
  return weights;
}

Tensor by_loops(const Posed& s) {
  const Tensor factors = s.c.drops ? drop_factors(s.c) : Tensor();
  Tensor out = at::zeros({kBatch, kHeads, s.c.queries, kChannels}, at::kDouble);
  auto to = out.accessor<double, 4>();
  for (std::int64_t b = 0; b < kBatch; ++b) {
    for (std::int64_t h = 0; h < kHeads; ++h) {
      for (std::int64_t i = 0; i < s.c.queries; ++i) {
        const testing::Row weights = naive_weights(s, b, h, i);
        for (std::int64_t j = 0; j < s.c.keys; ++j) {
          double w = weights[static_cast<std::size_t>(j)];
          if (s.c.drops) w *= testing::at_pair(factors, b, h, i, j);
          const testing::Row value = testing::row(s.in.values, {b, h, j});
          for (std::int64_t c = 0; c < kChannels; ++c) {
            to[b][h][i][c] += w * value[static_cast<std::size_t>(c)];
          }
        }
      }
    }
  }
  return out;
}

/// The same by operations, so that autograd has gradients to compare with.
Tensor by_operations(const Posed& s, const std::vector<Tensor>& x) {
  const Case& c = s.c;
  const Tensor keys = c.unit ? x[1] / x[1].norm(2, -1, true).clamp_min(kEps) : x[1];
  const Tensor place =  // of (i, j) in a table of distances
      (at::arange(c.keys) + at::arange(c.queries - 1, -1, -1).unsqueeze(1))
          .expand({kBatch, kHeads, c.queries, c.keys});
  Tensor logits = at::matmul(x[0], keys.transpose(2, 3)) * kScale;
  if (c.relative) {
    const Tensor r = Posed::of(x, s.relative);
    logits = logits + (at::matmul(x[0], r.transpose(2, 3)) * kScale).gather(3, place);
  }
  if (c.cap) logits = (logits / kCap).tanh() * kCap;
  if (s.bias >= 0) logits = logits + Posed::of(x, s.bias);
  if (c.distance) {
    const Tensor table = Posed::of(x, s.table);
    logits = logits +
             table.unsqueeze(2).expand({kBatch, kHeads, c.queries, table.size(2)}).gather(3, place);
  }
  if (c.sums) {
    logits =
        logits + (Posed::of(x, s.at_queries).unsqueeze(3) - Posed::of(x, s.at_keys).unsqueeze(2));
  }
  Tensor seen = at::ones({kBatch, kHeads, c.queries, c.keys}, at::kBool);
  const Tensor behind = at::arange(c.keys - c.queries, c.keys).unsqueeze(1) - at::arange(c.keys);
  if (c.rules.causal) seen = seen.logical_and(behind >= 0);
  if (c.rules.window > 0) seen = seen.logical_and(behind.abs() < c.rules.window);
  if (c.hides) {
    seen = seen.logical_and(s.in.visible.pairs)
               .logical_and(s.in.visible.key_valid.unsqueeze(1).unsqueeze(1));
  }
  Tensor weights;
  if (c.rule != nullptr) {
    weights = (seen * s.factor) / (1 + (-logits - s.shift).exp());
  } else {
    const Tensor signs = logits.detach().sign() * (logits.detach().abs() >= 1e-5);
    const Tensor sizes = (c.signs ? logits * signs : logits).exp() * seen;
    Tensor sum = sizes.sum(3, true);
    if (c.sink) sum = sum + Posed::of(x, s.sink).view({1, -1, 1, 1}).exp();
    weights = sizes / sum.masked_fill(sum == 0, 1);
    if (c.signs) weights = weights * signs;
  }
  if (c.drops) weights = weights * drop_factors(c);
  return at::matmul(weights, x[2]);
}

std::vector<Tensor> leaves_of(const std::vector<Tensor>& inputs, at::ScalarType dtype) {
  std::vector<Tensor> leaves;
  for (const Tensor& x : inputs) leaves.push_back(x.to(dtype).clone().requires_grad_());
  return leaves;
}

double size_of(const Tensor& x) { return std::max(1.0, x.abs().max().item<double>()); }

TEST(LogitTerms, EqualTheirEquationByLoops) {
  for (const Case& c : kCases) {
    const Posed posed(c);
    const Tensor expected = by_loops(posed);
    std::vector<Tensor> narrow;
    for (const Tensor& x : posed.inputs) narrow.push_back(x.to(at::kFloat));
    EXPECT_LT(largest_difference(by_kernel(posed, posed.inputs), expected),
              1e-12 * size_of(expected))
        << c.name;
    EXPECT_LT(largest_difference(by_kernel(posed, narrow), expected), 1e-5 * size_of(expected))
        << c.name;
    EXPECT_LT(largest_difference(by_operations(posed, posed.inputs), expected),
              1e-12 * size_of(expected))
        << c.name << ": what gradients are compared with";
  }
}

TEST(LogitTerms, HaveTheGradientsOfPlainOperationsTwice) {
  for (const Case& c : kCases) {
    const Posed posed(c);
    const auto kernel = [&](const std::vector<Tensor>& x) { return by_kernel(posed, x); };
    const auto plain = [&](const std::vector<Tensor>& x) { return by_operations(posed, x); };
    const auto found = value_and_gradients(kernel, leaves_of(posed.inputs, at::kDouble));
    const auto wanted = value_and_gradients(plain, leaves_of(posed.inputs, at::kDouble));
    ASSERT_EQ(found.size(), wanted.size()) << c.name;
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i].defined(), wanted[i].defined()) << c.name << ", result " << i;
      if (!found[i].defined()) continue;
      EXPECT_LT(largest_difference(found[i], wanted[i]), 1e-10 * size_of(wanted[i]))
          << c.name << ", result " << i;
    }
  }
}

TEST(LogitTerms, HaveTheseGradientsInFloatToo) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const Posed posed(c);
    std::vector<Tensor> narrow;
    for (const Tensor& x : posed.inputs) narrow.push_back(x.to(at::kFloat));
    testing::expect_like_double(
        [&](const std::vector<Tensor>& x) { return by_kernel(posed, x); },
        [&](const std::vector<Tensor>& x) { return by_operations(posed, x); }, narrow, 1e-4);
  }
}

TEST(LogitTerms, GiveGradientsToWhatTakesOneAlone) {
  const Posed posed(kCases[21]);  // everything but signs
  ASSERT_STREQ(posed.c.name, "everything but signs, a short bias");
  const auto plain = leaves_of(posed.inputs, at::kDouble);
  const Tensor y = by_operations(posed, plain);
  const auto wanted = torch::autograd::grad({(y * testing::probe_like(y)).sum()}, plain);
  for (std::size_t i = 0; i < posed.inputs.size(); ++i) {
    std::vector<Tensor> inputs = posed.inputs;
    inputs[i] = inputs[i].clone().requires_grad_();
    const Tensor out = by_kernel(posed, inputs);
    const Tensor sum = (out * testing::probe_like(out)).sum();
    for (const bool again : {false, true}) {
      const Tensor grad = torch::autograd::grad({sum}, {inputs[i]}, {}, true, again)[0];
      EXPECT_LT(largest_difference(grad, wanted[i]), 1e-10 * size_of(wanted[i]))
          << i << ", with a graph: " << again;
    }
  }
}

TEST(LogitTerms, StandWeightsFarApartAndHandOnWhatIsNotANumber) {
  Case c = kCases[19];  // unit keys, a cap, a bias by key and a sink
  c.unit = false;
  Posed posed(c);
  posed.inputs[0] *= 1e4;
  posed.in.queries = posed.inputs[0];
  EXPECT_LT(largest_difference(by_kernel(posed, posed.inputs), by_loops(posed)), 1e-12);
  posed.inputs[0][1][0][3].fill_(NAN);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    std::vector<Tensor> x;
    for (const Tensor& one : posed.inputs) x.push_back(one.to(dtype));
    const Tensor out = by_kernel(posed, x);
    EXPECT_TRUE(out[1][0][3].isnan().all().item<bool>());
    EXPECT_EQ(out.isnan().sum().item<std::int64_t>(), kChannels);
  }
}

TEST(LogitTerms, ACapIsRightForLogitsOfEverySize) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const double tolerance = dtype == at::kFloat ? 5e-7 : 2e-15;
    for (const double sign : {1.0, -1.0}) {
      for (const double size : {1e-6, 1e-3, 0.3, 0.624, 0.626, 1.0, 5.0, 1e4}) {
        // The weight of the first of two keys is the logistic function of its logit.
        const Tensor q = at::full({1, 1, 1, 1}, sign, dtype);
        const Tensor k = at::tensor({size, 0.0}, at::kDouble).to(dtype).view({1, 1, 2, 1});
        const Tensor v = at::tensor({1.0, 0.0}, at::kDouble).to(dtype).view({1, 1, 2, 1});
        SoftmaxQuestion asked;
        asked.terms.cap = 1;
        const double found = cpu_softmax_attention(q, k, v, asked).item<double>();
        const double logit = std::tanh(sign * k[0][0][0][0].item<double>());
        EXPECT_NEAR(found, 1 / (1 + std::exp(-logit)), tolerance) << sign * size;
      }
    }
    // A bias that takes away what capped logits are: all weights are equal.
    const Tensor logits = at::cat({at::logspace(-6, 2, 500, 10.0, at::kDouble),
                                   at::linspace(0.5, 0.75, 300, at::kDouble)})
                              .to(dtype);
    const Tensor wide = logits.to(at::kDouble), values = wide.tanh().to(dtype);
    SoftmaxQuestion asked;
    asked.terms.cap = 2;
    asked.bias = (-2 * (wide / 2).tanh()).to(dtype);
    const Tensor mean =
        cpu_softmax_attention(at::ones({1, 1, 1, 1}, dtype), logits.view({1, 1, -1, 1}),
                              values.view({1, 1, -1, 1}), asked);
    EXPECT_NEAR(mean.item<double>(), values.to(at::kDouble).mean().item<double>(), 20 * tolerance);
  }
}

TEST(LogitTerms, ASignedLogitOfZeroHasNoWeight) {
  const Tensor q = at::zeros({1, 1, 4, 3}), k = at::randn({1, 1, 9, 3}), v = at::ones({1, 1, 9, 2});
  SoftmaxQuestion asked;
  asked.terms.signs = true;
  EXPECT_EQ(cpu_softmax_attention(q, k, v, asked).abs().max().item<double>(), 0);
}

TEST(LogitTerms, AddedHoldsAllThatIsAdded) {
  at::manual_seed(3);
  LogitTerms terms;
  EXPECT_FALSE(terms.adds());
  EXPECT_FALSE(terms.added(4).defined());
  terms.bias = at::randn({2, 1, 3, 4}, at::kDouble);
  terms.distance_bias = at::randn({1, 2, 6}, at::kDouble);
  terms.query_sums = at::randn({2, 2, 3}, at::kDouble);
  terms.key_sums = at::randn({2, 2, 4}, at::kDouble);
  const Tensor all = terms.added(4);
  ASSERT_EQ(all.sizes(), at::IntArrayRef({2, 2, 3, 4}));
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t h = 0; h < 2; ++h) {
      for (std::int64_t i = 0; i < 3; ++i) {
        for (std::int64_t j = 0; j < 4; ++j) {
          const double expected = testing::at_pair(terms.bias, b, 0, i, j) +
                                  testing::at_pair(terms.distance_bias, 0, 0, h, 2 - i + j) +
                                  testing::at_pair(terms.query_sums, 0, b, h, i) -
                                  testing::at_pair(terms.key_sums, 0, b, h, j);
          EXPECT_NEAR(all[b][h][i][j].item<double>(), expected, 1e-14);
        }
      }
    }
  }
}

}  // namespace
}  // namespace attnlab::logit_terms_test
