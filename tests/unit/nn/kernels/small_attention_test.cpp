// The headwise kernel on heads of every size: loops of our own for small ones, a library's products
// for large ones, dropout in both.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <iterator>
#include <string>

#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/kernels/cpu_attention.h"
#include "framework/nn/kernels/small_attention.h"
#include "tests/support/data_files.h"
#include "tests/support/gradcheck.h"
#include "tests/support/kernel_choice.h"
#include "tests/support/naive_attention.h"
#include "tests/support/product_precision.h"

namespace attnlab::small_attention_test {
namespace {

using testing::gradient_error;
using testing::KernelChoice;
using testing::largest_difference;
using testing::naive_attention;
using testing::random_input;
using testing::second_gradient_error;

constexpr double kEps = 0.5;  // some keys lie below it

/// B, H, Lq, Lk, D, Dv.
struct Sizes {
  std::int64_t batch, heads, queries, keys, dim, channels;
};

// One query, whole vectors, parts of vectors, every remainder of the loops, one of everything.
constexpr Sizes kSmall[] = {{3, 2, 1, 21, 20, 20},  {2, 2, 10, 10, 32, 32}, {2, 1, 5, 7, 3, 2},
                            {1, 3, 30, 30, 16, 16}, {1, 1, 17, 33, 20, 5},  {1, 2, 1, 1, 1, 1},
                            {1, 1, 3, 16, 4, 17},   {1, 2, 4, 2, 33, 16},   {2, 2, 6, 9, 5, 8},
                            {1, 1, 13, 15, 31, 40}, {2, 3, 1, 40, 39, 18},  {1, 2, 1, 9, 16, 3},
                            {1, 1, 1, 16, 6, 64}};
// One at a time, and in groups of heads: few queries of many keys, and many channels.
constexpr Sizes kLarge[] = {
    {1, 2, 300, 290, 24, 20}, {2, 3, 4, 600, 40, 40}, {1, 3, 20, 30, 300, 4}};

std::string name_of(const Sizes& s) {
  return std::to_string(s.queries) + " x " + std::to_string(s.keys) + " x " +
         std::to_string(s.dim) + ", " + std::to_string(s.channels);
}

struct Given {
  AttentionInput input;
  double dropout = 0;
  bool unit = false;
};

/// Random input whose keys are of all lengths, one of them zero; where `hides`, the first query of
/// an example sees nothing.
Given given(const Sizes& s, bool hides, bool unit, double dropout = 0) {
  Given g{random_input(s.batch, s.heads, s.queries, s.keys, s.dim, s.channels), dropout, unit};
  g.input.keys *= at::rand({s.keys, 1}, at::kDouble) * 2;
  g.input.keys.select(2, s.keys / 2).zero_();
  if (hides) {
    g.input.visible.pairs = at::rand({s.batch, 1, s.queries, s.keys}) < 0.6;
    g.input.visible.pairs[0].select(1, 0).zero_();
  }
  return g;
}

Given cast(Given g, at::ScalarType dtype) {
  for (Tensor* x : {&g.input.queries, &g.input.keys, &g.input.values, &g.input.relative.keys}) {
    if (x->defined()) *x = x->to(dtype);
  }
  return g;
}

class Attention final : public DotProductAttention {
 public:
  explicit Attention(const Given& g)
      : DotProductAttention({.heads = g.input.heads(),
                             .head_dim = g.input.queries.size(3),
                             .value_dim = g.input.values.size(3),
                             .dropout = g.dropout},
                            {.scale = 0.7, .unit_keys = g.unit ? UnitKeys(kEps) : UnitKeys()}) {}
};

/// In training, with the random numbers of one seed.
Tensor attended(const Given& g, AttentionKernel kernel) {
  const KernelChoice chosen(kernel);
  Attention attention(g);
  AttentionContext context;
  at::manual_seed(17);
  return attention.forward(g.input, context);
}

/// Gradients of queries, keys and values, the output, and the output without gradients.
std::vector<Tensor> everything(Given g, AttentionKernel kernel) {
  const Tensor alone = attended(g, kernel);
  for (Tensor* x : {&g.input.queries, &g.input.keys, &g.input.values}) {
    *x = x->detach().clone().requires_grad_();
  }
  const Tensor y = attended(g, kernel);
  std::vector<Tensor> all = torch::autograd::grad({(y * testing::probe_like(y)).sum()},
                                                  {g.input.queries, g.input.keys, g.input.values});
  all.push_back(y);
  all.push_back(alone);
  return all;
}

/// The largest difference in any number, relative to 1 where numbers are small.
double difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double size = std::max(1.0, b[i].detach().abs().max().item<double>());
    const double one = largest_difference(a[i], b[i]) / size;
    if (!(one <= worst)) worst = one;  // a NaN counts
  }
  return worst;
}

HeadwiseProblem problem_of(const Given& g) {
  const AttentionInput& in = g.input;
  HeadwiseProblem problem;
  problem.q = in.queries, problem.k = in.keys, problem.v = in.values;
  if (in.visible.pairs.defined()) {
    problem.pairs =
        in.visible.pairs.expand({in.batch(), in.heads(), in.query_count(), in.key_count()});
  }
  problem.scale = 0.7;
  if (g.unit) problem.unit = kEps;
  problem.inverse = at::empty({in.batch(), in.heads(), in.key_count(), 1}, in.keys.options());
  return problem;
}

TEST(SmallAttention, IsTakenBySize) {
  for (const Sizes& s : kSmall) {
    EXPECT_TRUE(heads_are_small(problem_of(given(s, false, false)))) << name_of(s);
  }
  for (const Sizes& s : kLarge) {
    EXPECT_FALSE(heads_are_small(problem_of(given(s, false, false)))) << name_of(s);
  }
}

/// `everything` by the headwise kernel, with rounded factors.
std::vector<Tensor> everything_rounded(const Given& g) {
  const testing::ProductPrecision narrow(Precision::bfloat16);
  return everything(cast(g, at::kFloat), AttentionKernel::headwise);
}

Tensor in_8_bits(const Tensor& x) { return x.to(at::kFloat).to(at::kBFloat16).to(at::kDouble); }

/// What the headwise kernel is to compute of float32 with rounded factors, in float64: gradients of
/// queries, keys and values, and the output.
std::vector<Tensor> rounded_by_definition(const Given& g, const PlaceRules& rules) {
  const AttentionInput& in = g.input;
  const Tensor q = in_8_bits(in.queries), v = in_8_bits(in.values);
  const Tensor given_k = in.keys.detach().clone().requires_grad_();
  const Tensor k = g.unit ? given_k / given_k.norm(2, -1, true).clamp_min(kEps) : given_k;
  Tensor hidden = at::zeros({in.query_count(), in.key_count()}, at::kBool);
  for (std::int64_t i = 0; i < in.query_count(); ++i) {
    const KeyRange seen = rules.seen(i, in.query_count(), in.key_count());
    hidden[i].narrow(0, 0, seen.begin).fill_(true);
    hidden[i].narrow(0, seen.end, in.key_count() - seen.end).fill_(true);
  }
  if (in.visible.pairs.defined()) hidden = hidden.logical_or(in.visible.pairs.logical_not());
  const Tensor logits = at::matmul(q, in_8_bits(k.detach() * 0.7).transpose(2, 3));
  const Tensor p = logits.masked_fill(hidden, -1e300).softmax(-1).masked_fill(hidden, 0);
  const Tensor y = at::matmul(in_8_bits(p), v);
  const Tensor dy = in_8_bits(testing::probe_like(y));
  const Tensor dp = at::matmul(dy, v.transpose(2, 3));
  const Tensor dl = in_8_bits(p * (dp - (dp * p).sum(-1, true)) * 0.7);
  const Tensor dk = at::matmul(dl.transpose(2, 3), q);
  return {at::matmul(dl, in_8_bits(k.detach())),
          torch::autograd::grad({(k * dk).sum()}, {given_k})[0],
          at::matmul(in_8_bits(p).transpose(2, 3), dy), y};
}

// More than 512 numbers deep along rows and along columns; odd first queries of a block of keys.
constexpr Sizes kDeep[] = {{1, 2, 20, 701, 40, 33},
                           {1, 2, 701, 50, 33, 40},
                           {1, 1, 30, 53, 9, 8},
                           {1, 1, 53, 30, 9, 8},
                           {1, 1, 61, 61, 7, 5}};
constexpr PlaceRules kRules[] = {{}, {.causal = true}, {.window = 7}, {true, 20}};

TEST(SmallAttention, RoundsTheFactorsOfItsProductsAndNothingElse) {
  if (!has_rounded_heads()) GTEST_SKIP() << "this processor has no products of bfloat16";
  at::manual_seed(8);
  std::vector<Sizes> all(std::begin(kSmall), std::end(kSmall));
  all.insert(all.end(), std::begin(kDeep), std::end(kDeep));
  for (const Sizes& s : all) {
    if (s.queries == 1) continue;  // loops without products
    for (const bool hides : {false, true}) {
      for (const bool unit : {false, true}) {
        for (const PlaceRules& rules : kRules) {
          Given g = given(s, hides, unit);
          ASSERT_TRUE(heads_are_small(problem_of(cast(g, at::kFloat)))) << name_of(s);
          g.input.visible.causal = rules.causal, g.input.visible.window = rules.window;
          const auto expected = rounded_by_definition(g, rules), found = everything_rounded(g);
          for (std::size_t i = 0; i < expected.size(); ++i) {
            // A number that lies between two of 8 bits may be rounded the other way.
            EXPECT_LT(testing::relative_error(found[i], expected[i]), 1e-3)
                << name_of(s) << ", result " << i << (hides ? ", hides" : "")
                << (unit ? ", unit" : "") << (rules.causal ? ", causal" : "") << ", window "
                << rules.window;
          }
        }
      }
    }
  }
}

TEST(SmallAttention, RoundedHeadsStandDropoutRelativePositionsAndOneQuery) {
  if (!has_rounded_heads()) GTEST_SKIP() << "this processor has no products of bfloat16";
  at::manual_seed(9);
  for (const Sizes& s : kSmall) {
    if (s.keys == 1) continue;  // the weight is 1, and its gradient nothing but rounding
    for (const double dropout : {0.0, 0.3}) {
      for (const bool relative : {false, true}) {
        Given g = given(s, false, false, dropout);
        if (relative) g.input.relative.keys = at::randn({s.heads, s.queries + s.keys - 1, s.dim});
        const auto exact = everything(cast(g, at::kDouble), AttentionKernel::headwise);
        const auto found = everything_rounded(g);
        for (std::size_t i = 0; i < exact.size(); ++i) {
          EXPECT_LT(testing::relative_error(found[i], exact[i]), testing::kRoundedAttention)
              << name_of(s) << ", result " << i << ", " << dropout
              << (relative ? ", relative" : "");
        }
        // Loops of a single query have no products; with relative positions it goes by blocks.
        const double of_output = testing::relative_error(found[3], exact[3]);
        EXPECT_EQ(of_output > 1e-5, s.queries > 1 || relative) << name_of(s) << ": " << of_output;
      }
    }
  }
}

TEST(SmallAttention, BackwardHasTheRoundingOfForward) {
  if (!has_rounded_heads()) GTEST_SKIP() << "this processor has no products of bfloat16";
  at::manual_seed(10);
  const Tensor q = at::randn({1, 1, 20, 16}).requires_grad_();
  const auto gradient = [&](Precision forward, Precision backward) {
    Tensor y;
    {
      const testing::ProductPrecision first(forward);
      y = cpu_softmax_attention(q, q, q, {});
    }
    const testing::ProductPrecision then(backward);
    return torch::autograd::grad({(y * testing::probe_like(y)).sum()}, {q})[0];
  };
  const Precision narrow = Precision::bfloat16, wide = Precision::float32;
  EXPECT_TRUE(gradient(narrow, wide).equal(gradient(narrow, narrow)));
  EXPECT_TRUE(gradient(wide, narrow).equal(gradient(wide, wide)));
  EXPECT_FALSE(gradient(wide, wide).equal(gradient(narrow, narrow)));
}

TEST(SmallAttention, EqualsTheDefinition) {
  at::manual_seed(1);
  for (const Sizes& s : kSmall) {
    for (const bool hides : {false, true}) {
      for (const bool unit : {false, true}) {
        const Given g = given(s, hides, unit);
        const Tensor expected =
            naive_attention(g.input, {.scale = 0.7, .unit_keys = unit, .eps = kEps});
        const Tensor y = attended(g, AttentionKernel::headwise);
        EXPECT_LT(largest_difference(y, expected), 1e-13) << name_of(s);
        const Tensor single = attended(cast(g, at::kFloat), AttentionKernel::headwise);
        EXPECT_EQ(single.scalar_type(), at::kFloat);
        EXPECT_LT(largest_difference(single, expected), 5e-6) << name_of(s);
      }
    }
  }
}

TEST(SmallAttention, HasTheGradientsOfTheExplicitForm) {
  at::manual_seed(2);
  for (const Sizes& s : kSmall) {
    for (const bool hides : {false, true}) {
      for (const bool unit : {false, true}) {
        const Given g = given(s, hides, unit);
        const auto expected = everything(g, AttentionKernel::explicit_form);
        EXPECT_LT(difference(everything(g, AttentionKernel::headwise), expected), 1e-13)
            << name_of(s);
        const auto single = everything(cast(g, at::kFloat), AttentionKernel::headwise);
        EXPECT_LT(difference(single, expected), 1e-5) << name_of(s);
      }
    }
  }
}

/// As a token is written behind a long text. Without gradients threads share the keys.
TEST(SmallAttention, AQueryOfManyKeysHasTheSameNumbersOnAnyNumberOfThreads) {
  at::manual_seed(11);
  const int before = at::get_num_threads();
  for (const std::int64_t keys : {kKeysOfPart + 1, 2 * kKeysOfPart, 2 * kKeysOfPart + 801}) {
    for (const bool hides : {false, true}) {
      for (const bool unit : {false, true}) {
        const Given g = given({2, 1, 1, keys, 19, 18}, hides, unit);
        const auto expected = everything(g, AttentionKernel::explicit_form);
        EXPECT_LT(difference(everything(g, AttentionKernel::headwise), expected), 1e-13);
        const Given single = cast(g, at::kFloat);
        const auto found = everything(single, AttentionKernel::headwise);
        EXPECT_LT(difference(found, expected), 1e-5);
        EXPECT_TRUE(found[3].equal(found[4])) << keys << ": with and without gradients";
        for (const int threads : {1, 2, 3}) {
          at::set_num_threads(threads);
          EXPECT_TRUE(attended(single, AttentionKernel::headwise).equal(found[4])) << threads;
        }
        at::set_num_threads(before);
      }
    }
  }
}

TEST(SmallAttention, TheLibrarysProductsGiveTheSameForLargeHeads) {
  at::manual_seed(3);
  for (const Sizes& s : kLarge) {
    const Given g = given(s, true, true);
    const auto expected = everything(g, AttentionKernel::headwise);
    EXPECT_LT(difference(expected, everything(g, AttentionKernel::explicit_form)), 1e-12);
    const HeadwiseProblem problem = problem_of(g);
    const Tensor weights = room_for_small_weights(problem);
    const Tensor out = at::empty_like(expected[3]);
    attend_small_heads(problem, weights, out);
    const Tensor dq = at::empty_like(problem.q), dk = at::empty_like(problem.k);
    const Tensor dv = at::empty_like(problem.v);
    differentiate_small_heads(problem, weights, testing::probe_like(out), {dq, dk, dv});
    EXPECT_LT(difference({dq, dk, dv, out}, expected), 1e-12) << name_of(s);
  }
}

TEST(SmallAttention, ReadsAnyLayout) {
  at::manual_seed(4);
  const Sizes s{2, 3, 6, 11, 19, 18};
  const Given plain = given(s, true, true);
  const auto expected = everything(plain, AttentionKernel::headwise);
  const auto by_token = [](const Tensor& x) {
    return x.transpose(1, 2).contiguous().transpose(1, 2);
  };
  const auto channels_apart = [](const Tensor& x) {
    return x.transpose(2, 3).contiguous().transpose(2, 3);
  };
  const auto every_second_row = [](const Tensor& x) {
    Tensor wide = at::full({x.size(0), x.size(1), 2 * x.size(2), x.size(3)}, NAN, x.options());
    Tensor rows = wide.slice(2, 0, 2 * x.size(2), 2);
    rows.copy_(x);
    return rows;
  };
  const std::function<Tensor(const Tensor&)> layouts[] = {by_token, channels_apart,
                                                          every_second_row};
  for (const auto& layout : layouts) {
    HeadwiseProblem problem = problem_of(plain);
    problem.q = layout(problem.q), problem.v = layout(problem.v);
    problem.k = by_token(problem.k);
    const Tensor weights = room_for_small_weights(problem);
    const Tensor out = by_token(at::full_like(expected[3], NAN));
    attend_small_heads(problem, weights, out);
    const Tensor dq = by_token(at::full_like(problem.q, NAN));
    const Tensor dk = by_token(at::full_like(problem.k, NAN));
    const Tensor dv = by_token(at::full_like(problem.v, NAN));
    differentiate_small_heads(problem, weights, layout(testing::probe_like(out)), {dq, dk, dv});
    EXPECT_LT(difference({dq, dk, dv, out}, expected), 1e-13);
  }
}

TEST(SmallAttention, WritesNothingBeyondItsRows) {
  at::manual_seed(5);
  const Given g = given({2, 2, 5, 6, 7, 9}, false, true);
  HeadwiseProblem problem = problem_of(g);
  Tensor around = at::full({2, 2, 5, 30}, 5, at::kDouble);
  attend_small_heads(problem, {}, around.narrow(3, 8, 9));
  EXPECT_TRUE(around.narrow(3, 0, 8).eq(5).all().item<bool>());
  EXPECT_TRUE(around.narrow(3, 17, 13).eq(5).all().item<bool>());
  EXPECT_LT(largest_difference(around.narrow(3, 8, 9), attended(g, AttentionKernel::explicit_form)),
            1e-13);
}

TEST(SmallAttention, StandsLargeLogitsAndHandsOnWhatIsNotANumber) {
  at::manual_seed(6);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    Given g = cast(given({1, 2, 4, 21, 8, 8}, false, false), dtype);
    g.input.queries *= 1e4;
    EXPECT_LT(difference(everything(g, AttentionKernel::headwise),
                         everything(g, AttentionKernel::explicit_form)),
              1e-5);
    for (const double bad : {double(NAN), double(INFINITY)}) {
      Given broken = g;
      broken.input.queries = g.input.queries.clone();
      broken.input.queries[0][1][2][3] = bad;
      const Tensor y = attended(broken, AttentionKernel::headwise);
      EXPECT_TRUE(y[0][1][2].isnan().all().item<bool>()) << bad;
      EXPECT_EQ(y.isnan().sum().item<std::int64_t>(), 8) << bad;
    }
  }
}

TEST(SmallAttention, DoesNotDependOnThreads) {
  at::manual_seed(7);
  const Given g = cast(given({40, 4, 20, 21, 16, 16}, true, true, 0.2), at::kFloat);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = everything(g, AttentionKernel::headwise);
  at::set_num_threads(3);
  const auto three = everything(g, AttentionKernel::headwise);
  at::set_num_threads(threads);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(one[i].equal(three[i])) << i;
}

TEST(HeadwiseDropout, DropsTheWeightsThatTheExplicitFormDrops) {
  at::manual_seed(8);
  std::vector<Sizes> all(std::begin(kSmall), std::end(kSmall));
  all.insert(all.end(), std::begin(kLarge), std::end(kLarge));
  all.push_back({1, 1, 701, 731, 4, 3});  // in blocks of queries
  for (const Sizes& s : all) {
    for (const bool hides : {false, true}) {
      const Given g = given(s, hides, hides, 0.3);
      const auto expected = everything(g, AttentionKernel::explicit_form);
      EXPECT_LT(difference(everything(g, AttentionKernel::headwise), expected), 1e-12)
          << name_of(s);
      const auto single = everything(cast(g, at::kFloat), AttentionKernel::headwise);
      EXPECT_LT(difference(single, expected), 2e-5) << name_of(s);
    }
  }
}

TEST(HeadwiseDropout, DrawsAsOftenAsTheExplicitForm) {
  const Given g = given({2, 2, 5, 6, 7, 9}, false, true, 0.5);
  attended(g, AttentionKernel::explicit_form);
  const Tensor next = at::rand({4});
  attended(g, AttentionKernel::headwise);
  EXPECT_TRUE(next.equal(at::rand({4})));
  attended(g, AttentionKernel::automatic);
  EXPECT_TRUE(next.equal(at::rand({4})));
  Given none = g;
  none.dropout = 0;
  attended(none, AttentionKernel::headwise);
  at::manual_seed(17);
  EXPECT_FALSE(next.equal(at::rand({4})));
}

TEST(HeadwiseDropout, IsDifferentiableTwice) {
  at::manual_seed(9);
  for (const bool unit : {false, true}) {
    const Given g = given({1, 2, 4, 5, 3, 3}, true, unit, 0.4);
    const auto f = [&](const std::vector<Tensor>& x) {
      Given changed = g;
      changed.input.queries = x[0], changed.input.keys = x[1], changed.input.values = x[2];
      return attended(changed, AttentionKernel::headwise);
    };
    const std::vector<Tensor> leaves = {g.input.queries, g.input.keys, g.input.values};
    EXPECT_LT(gradient_error(f, leaves), 1e-7);
    EXPECT_LT(second_gradient_error(f, leaves), 1e-6);
  }
}

TEST(HeadwiseDropout, IsOffInEvaluation) {
  const Given g = given({1, 2, 4, 5, 3, 3}, false, false, 0.4);
  Attention attention(g);
  attention.eval();
  AttentionContext context;
  EXPECT_LT(largest_difference(attention.forward(g.input, context),
                               naive_attention(g.input, {.scale = 0.7})),
            1e-13);
}

TEST(HeadwiseDropout, IsRefusedByKernelsThatCannot) {
  const Given g = given({1, 2, 4, 5, 3, 3}, false, false, 0.4);
  for (const AttentionKernel kernel : {AttentionKernel::fused, AttentionKernel::own}) {
    const std::string said = testing::message_of<ConfigError>([&] { attended(g, kernel); });
    EXPECT_NE(said.find("weights are dropped out"), std::string::npos) << said;
    EXPECT_NE(said.find("explicit"), std::string::npos) << said;
  }
}

TEST(SmallAttention, ServesNumbersOf16BitsWidened) {
  const Given g = given({1, 2, 4, 5, 3, 3}, false, false);
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    const Given narrow = cast(g, dtype);
    EXPECT_TRUE(
        attended(narrow, AttentionKernel::headwise)
            .equal(attended(cast(narrow, at::kFloat), AttentionKernel::headwise).to(dtype)));
  }
}

}  // namespace
}  // namespace attnlab::small_attention_test
