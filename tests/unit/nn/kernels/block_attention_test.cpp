// Attention of long sequences, block by block, against its definition and the explicit form.
#include "framework/nn/kernels/block_attention.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "framework/nn/kernels/cpu_attention.h"
#include "tests/support/gradcheck.h"
#include "tests/support/naive_attention.h"

namespace attnlab::block_attention_test {
namespace {

using testing::largest_difference;
using testing::naive_attention;
using testing::random_input;

constexpr double kEps = 0.5, kScale = 0.7;

struct Case {
  const char* name;
  std::int64_t queries, keys, dim, channels;
  PlaceRules rules = {};
  bool hides = false, unit = false, adds = false;  ///< adds: a bias and relative positions
};

// Less than a block, several of both, ends within tiles and panels, every rule, rows without keys.
const Case kCases[] = {
    {"less than a block", 5, 7, 3, 2},
    {"several blocks", 205, 531, 9, 20},
    {"whole blocks", 192, 512, 32, 32},
    {"long rows", 20, 40, 300, 290},
    {"few queries", 3, 700, 40, 40},
    {"causal", 300, 300, 16, 16, {.causal = true}},
    {"causal, more keys", 100, 600, 5, 4, {.causal = true}},
    {"causal, rows without keys", 400, 270, 5, 4, {.causal = true}},
    {"window", 300, 300, 8, 8, {.window = 20}},
    {"causal window", 613, 613, 8, 8, {.causal = true, .window = 100}},
    {"window of one", 120, 120, 8, 8, {.causal = true, .window = 1}},
    {"mask", 205, 531, 9, 20, {}, true},
    {"unit keys", 205, 531, 9, 20, {}, false, true},
    {"everything", 205, 531, 9, 20, {.causal = true, .window = 300}, true, true},
    {"bias and relative positions", 205, 531, 9, 20, {}, false, false, true},
    {"few queries, relative", 3, 700, 40, 8, {}, false, false, true},
    {"one key, relative", 200, 1, 5, 4, {}, false, false, true},
    {"everything but unit keys", 301, 270, 9, 20, {.causal = true}, true, false, true},
};

AttentionInput input_of(const Case& c) {
  AttentionInput in = random_input(2, 2, c.queries, c.keys, c.dim, c.channels);
  in.keys *= at::rand({c.keys, 1}, at::kDouble) * 2;
  in.keys.select(2, c.keys / 2).zero_();
  in.visible.causal = c.rules.causal, in.visible.window = c.rules.window;
  if (c.hides) {
    in.visible.pairs = at::rand({2, 1, c.queries, c.keys}) < 0.6;
    in.visible.pairs[0].select(1, 0).zero_();
    in.visible.key_valid = at::rand({2, c.keys}) < 0.8;
  }
  if (c.adds) {
    in.bias = at::randn({2, 1, c.queries, c.keys}, at::kDouble);
    in.relative.keys = at::randn({2, c.queries + c.keys - 1, c.dim}, at::kDouble);
  }
  return in;
}

HeadwiseProblem problem_of(const Case& c, const AttentionInput& in, at::ScalarType dtype) {
  HeadwiseProblem problem;
  problem.q = in.queries.to(dtype), problem.k = in.keys.to(dtype), problem.v = in.values.to(dtype);
  const auto over_pairs = [&](const Tensor& x) { return x.expand({2, 2, c.queries, c.keys}); };
  if (c.hides) {
    problem.pairs = over_pairs(in.visible.pairs);
    problem.valid = over_pairs(in.visible.key_valid.unsqueeze(1).unsqueeze(1));
  }
  if (c.adds) {
    problem.bias = over_pairs(in.bias.to(dtype));
    problem.relative_q = problem.q;
    problem.relative_k = in.relative.keys.to(dtype).unsqueeze(0).expand({2, -1, -1, -1});
  }
  problem.rules = c.rules;
  problem.scale = kScale;
  if (c.unit) problem.unit = kEps;
  problem.inverse = at::full({2, 2, c.keys, 1}, NAN, problem.k.options());
  return problem;
}

/// Gradients of queries, keys and values for `grad`, and the output; where there are bias and
/// relative positions, their gradients.
std::vector<Tensor> by_blocks(const HeadwiseProblem& problem, const Tensor& grad) {
  const auto empty = [](const Tensor& x, std::int64_t channels) {
    return at::full({x.size(0), x.size(1), x.size(2), channels}, NAN, x.options());
  };
  const Tensor out = empty(problem.q, problem.v.size(3));
  const Tensor rows = attend_blocks(problem, out);
  const Tensor dq = empty(problem.q, problem.q.size(3)), dk = empty(problem.k, problem.k.size(3));
  const Tensor dv = empty(problem.v, problem.v.size(3));
  HeadGradients to{dq, dk, dv};
  if (problem.bias.defined()) {
    to.bias = at::zeros(problem.bias.sizes(), problem.bias.options());
    to.relative_q = empty(problem.q, problem.q.size(3));
    to.relative_k = empty(problem.relative_k, problem.q.size(3));
  }
  differentiate_blocks(problem, rows, out, grad.to(problem.q.scalar_type()), to);
  if (!problem.bias.defined()) return {dq, dk, dv, out};
  return {dq + to.relative_q, dk, dv, out, to.bias.sum(1, true), to.relative_k.sum(0)};
}

/// The same by whole matrices in float64.
std::vector<Tensor> by_matrices(const Case& c, const AttentionInput& in, const Tensor& grad) {
  const Tensor q = in.queries.clone().requires_grad_(), k = in.keys.clone().requires_grad_();
  const Tensor v = in.values.clone().requires_grad_();
  const Tensor keys = c.unit ? k / k.norm(2, -1, true).clamp_min(kEps) : k;
  Tensor hidden = at::zeros({2, 2, c.queries, c.keys}, at::kBool);
  const Tensor place = at::arange(c.keys - c.queries, c.keys).unsqueeze(1) - at::arange(c.keys);
  if (c.rules.causal) hidden = hidden.logical_or(place < 0);
  if (c.rules.window > 0) hidden = hidden.logical_or(place.abs() >= c.rules.window);
  if (c.hides) {
    hidden = hidden.logical_or(in.visible.pairs.logical_not());
    hidden = hidden.logical_or(in.visible.key_valid.logical_not().unsqueeze(1).unsqueeze(1));
  }
  Tensor logits = at::matmul(q, keys.transpose(2, 3)) * kScale;
  Tensor bias, relative;
  if (c.adds) {
    bias = in.bias.clone().requires_grad_(), relative = in.relative.keys.clone().requires_grad_();
    const Tensor distance = at::arange(c.keys) + at::arange(c.queries - 1, -1, -1).unsqueeze(1);
    const Tensor by_distance = at::matmul(q, relative.transpose(1, 2)) * kScale;
    logits = logits + by_distance.gather(3, distance.expand({2, 2, c.queries, c.keys})) + bias;
  }
  const Tensor p = logits.masked_fill(hidden, -1e300).softmax(-1).masked_fill(hidden, 0);
  const Tensor y = at::matmul(p, v);
  if (!c.adds) {
    std::vector<Tensor> all = torch::autograd::grad({(y * grad).sum()}, {q, k, v});
    all.push_back(y.detach());
    return all;
  }
  const auto all = torch::autograd::grad({(y * grad).sum()}, {q, k, v, bias, relative});
  return {all[0], all[1], all[2], y.detach(), all[3], all[4]};
}

double difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double size = std::max(1.0, b[i].abs().max().item<double>());
    const double one = largest_difference(a[i], b[i]) / size;
    if (!(one <= worst)) worst = one;  // a NaN counts
  }
  return worst;
}

TEST(BlockAttention, EqualsTheDefinition) {
  at::manual_seed(1);
  for (Case c : kCases) {
    c.queries = std::min<std::int64_t>(c.queries, 110);  // loops of single numbers are slow
    c.keys = std::min<std::int64_t>(c.keys, 270);
    c.dim = std::min<std::int64_t>(c.dim, 9), c.channels = std::min<std::int64_t>(c.channels, 9);
    if (c.hides) c.queries = 30, c.keys = 40;
    const AttentionInput in = input_of(c);
    const Tensor out = at::empty({2, 2, c.queries, c.channels}, at::kDouble);
    attend_blocks(problem_of(c, in, at::kDouble), out);
    const Tensor expected =
        naive_attention(in, {.scale = kScale, .unit_keys = c.unit, .eps = kEps});
    EXPECT_LT(largest_difference(out, expected), 1e-13) << c.name;
  }
}

TEST(BlockAttention, HasTheOutputAndTheGradientsOfWholeMatrices) {
  at::manual_seed(2);
  for (const Case& c : kCases) {
    const AttentionInput in = input_of(c);
    const Tensor grad = at::randn({2, 2, c.queries, c.channels}, at::kDouble);
    const auto expected = by_matrices(c, in, grad);
    EXPECT_LT(difference(by_blocks(problem_of(c, in, at::kDouble), grad), expected), 1e-12)
        << c.name;
    EXPECT_LT(difference(by_blocks(problem_of(c, in, at::kFloat), grad), expected), 2e-5) << c.name;
  }
}

TEST(BlockAttention, RoundsTheFactorsOfItsProductsWhereAsked) {
  if (!has_rounded_heads()) GTEST_SKIP() << "this processor has no products of bfloat16";
  at::manual_seed(6);
  for (const Case& c : kCases) {
    if (c.keys == 1) continue;  // the weight is 1, and its gradient nothing but rounding
    const AttentionInput in = input_of(c);
    const Tensor grad = at::randn({2, 2, c.queries, c.channels}, at::kDouble);
    const auto exact = by_matrices(c, in, grad);
    HeadwiseProblem problem = problem_of(c, in, at::kFloat);
    problem.rounds = true;
    const auto rounded = by_blocks(problem, grad);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const double error = testing::relative_error(rounded[i], exact[i]);
      EXPECT_LT(error, testing::kRoundedAttention) << c.name << ", result " << i;
      EXPECT_GT(error, 1e-5) << c.name << ", result " << i << ": it was float32";
    }
  }
}

TEST(BlockAttention, RoundsNothingThatHasEightBits) {
  if (!has_rounded_heads()) GTEST_SKIP() << "this processor has no products of bfloat16";
  at::manual_seed(7);
  for (Case c : kCases) {
    if (c.adds) continue;
    c.channels = c.dim = 530;  // deeper than what is rounded at a time
    AttentionInput in = input_of(c);
    in.queries.zero_();  // every weight is e^0 until it is divided
    in.values = at::randint(-100, 100, in.values.sizes(), at::kDouble);
    HeadwiseProblem problem = problem_of(c, in, at::kFloat);
    const Tensor wide = at::full({2, 2, c.queries, c.channels}, NAN), narrow = wide.clone();
    attend_blocks(problem, wide);
    problem.rounds = true;
    attend_blocks(problem, narrow);
    EXPECT_LT(largest_difference(narrow, wide), 1e-4) << c.name;
  }
}

TEST(BlockAttention, GivesTheSameBitsEachTimeAndNearlyTheSameOnOtherThreads) {
  at::manual_seed(3);
  const Case c{"", 500, 700, 16, 16, {.causal = true}, false, true};
  const HeadwiseProblem problem = problem_of(c, input_of(c), at::kFloat);
  const Tensor grad = at::randn({2, 2, c.queries, c.channels});
  const int threads = at::get_num_threads();
  std::vector<Tensor> results[3];
  for (int i = 0; i < 3; ++i) {
    at::set_num_threads(i == 0 ? 1 : 11);  // shares of a head: more threads than heads
    results[i] = by_blocks(problem, grad);
  }
  at::set_num_threads(threads);
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    EXPECT_TRUE(results[1][i].equal(results[2][i])) << i;
  }
  EXPECT_LT(difference(results[0], results[1]), 1e-6);
}

TEST(BlockAttention, StandsLargeLogitsAndHandsOnWhatIsNotANumber) {
  at::manual_seed(4);
  const Case c{"", 100, 600, 8, 8};
  AttentionInput in = input_of(c);
  in.queries *= 1e4;
  const Tensor grad = at::randn({2, 2, c.queries, c.channels}, at::kDouble);
  EXPECT_LT(difference(by_blocks(problem_of(c, in, at::kDouble), grad), by_matrices(c, in, grad)),
            1e-9);
  for (const double bad : {double(NAN), double(INFINITY), -double(INFINITY)}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
      HeadwiseProblem problem = problem_of(c, in, dtype);
      problem.q[0][1][2][3] = bad;
      const Tensor y = by_blocks(problem, grad)[3];
      EXPECT_TRUE(y[0][1][2].isnan().all().item<bool>()) << bad;
      EXPECT_EQ(y.isnan().sum().item<std::int64_t>(), 8) << bad;
    }
  }
}

/// Bytes that the process holds at most from here on, beyond what it holds now.
class MemoryPeak {
 public:
  MemoryPeak() : before_(now()) { std::ofstream("/proc/self/clear_refs") << 5; }
  std::int64_t bytes() const { return of("VmHWM:") - before_; }

 private:
  static std::int64_t of(const std::string& what) {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
      std::int64_t kilobytes = 0;
      if (word == what && status >> kilobytes) return kilobytes * 1024;
    }
    return -1;
  }
  static std::int64_t now() { return of("VmRSS:"); }
  std::int64_t before_;
};

TEST(BlockAttention, HoldsMemoryLinearInTheLength) {
  at::manual_seed(5);
  const std::int64_t length = 16384;
  const auto leaf = [&](std::int64_t rows) { return at::randn({1, 4, rows, 16}).requires_grad_(); };
  const Tensor q = leaf(length), k = leaf(length), v = leaf(length);
  // A narrow window, so that it does not take long; a tensor of all pairs would be 268 MB and more.
  SoftmaxQuestion plain{.rules = {.causal = true, .window = 64}, .scale = 0.25}, masked = plain;
  masked.pairs = at::ones({length, length}, at::kBool);
  masked.key_valid = at::ones({1, length}, at::kBool);
  SoftmaxQuestion unit = plain, dropped = plain, biased = plain, relative = plain;
  unit.unit_keys = 1e-6, dropped.dropout = 0.1;
  biased.bias = at::randn({4, 1, length});
  relative.relative_queries = leaf(length), relative.relative_keys = leaf(2 * length - 1);
  for (const auto* asked : {&plain, &masked, &unit, &dropped, &biased, &relative}) {
    const MemoryPeak peak;
    const Tensor y = cpu_softmax_attention(q, k, v, *asked);
    torch::autograd::grad({y.sum()}, {q, k, v});
    EXPECT_LT(peak.bytes(), 150 * 1000 * 1000);
  }
  SoftmaxQuestion terms = plain, ruled = plain;
  terms.bias = at::randn({4, 1, length}).requires_grad_();
  terms.terms.cap = 5, terms.terms.signs = true;
  terms.terms.distance_bias = at::randn({1, 4, 2 * length - 1}).requires_grad_();
  terms.terms.query_sums = at::randn({1, 4, length}).requires_grad_();
  terms.terms.key_sums = at::randn({1, 4, length}).requires_grad_();
  terms.terms.sink = at::randn({4}).requires_grad_();
  ruled.bias = at::randn({4, length, 1}).requires_grad_();
  ruled.each = {&sigmoid_rule(), at::randn({1, 1, length, 1}), at::ones({1, 1, length, 1})};
  const std::pair<const SoftmaxQuestion*, std::vector<Tensor>> differentiated[] = {
      {&terms,
       {q, k, v, terms.bias, terms.terms.distance_bias, terms.terms.query_sums,
        terms.terms.key_sums, terms.terms.sink}},
      {&ruled, {q, k, v, ruled.bias}}};
  for (const auto& [asked, leaves] : differentiated) {
    const MemoryPeak peak;
    const Tensor y = cpu_softmax_attention(q, k, v, *asked);
    torch::autograd::grad({y.sum()}, leaves);
    EXPECT_LT(peak.bytes(), 150 * 1000 * 1000);
  }
}

}  // namespace
}  // namespace attnlab::block_attention_test
