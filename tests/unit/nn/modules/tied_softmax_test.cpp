// The tied softmax against the full softmax that it factorises, and the likelihood in chunks.
#include "framework/nn/modules/tied_softmax.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/nn/modules/linear_nll.h"
#include "tests/support/data_files.h"
#include "tests/support/gradcheck.h"

namespace attnlab::tied_softmax_test {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

constexpr std::int64_t kVocabulary = 12, kDim = 4;

std::shared_ptr<TiedSoftmax> softmax(const std::vector<std::int64_t>& cutoffs, bool bias = true) {
  at::manual_seed(5);
  const auto made =
      std::make_shared<TiedSoftmax>(TiedSoftmaxOptions{kVocabulary, kDim, cutoffs, bias});
  made->to(at::kDouble);
  const at::NoGradGuard no_gradients;
  for (Tensor& parameter : made->parameters()) parameter.normal_();
  return made;
}

/// log p of every token by the definition: [N, V].
Tensor factorised(const TiedSoftmax& s, const Tensor& hidden, std::vector<std::int64_t> ends) {
  ends.push_back(kVocabulary);
  const auto logits = [&](std::int64_t from, std::int64_t to) {
    return at::matmul(hidden, s.weight.narrow(0, from, to - from).t()) +
           s.bias.narrow(0, from, to - from);
  };
  const Tensor clusters = at::matmul(hidden, s.cluster_weight.t()) + s.cluster_bias;
  const Tensor head = at::cat({logits(0, ends[0]), clusters}, 1).exp();
  const Tensor shares = head / head.sum(1, true);
  std::vector<Tensor> all = {shares.narrow(1, 0, ends[0])};
  for (std::size_t i = 1; i < ends.size(); ++i) {
    const Tensor tail = logits(ends[i - 1], ends[i]).exp();
    all.push_back(tail / tail.sum(1, true) *
                  shares.narrow(1, ends[0] + static_cast<std::int64_t>(i) - 1, 1));
  }
  return at::cat(all, 1).log();
}

TEST(TiedSoftmax, AdaptiveIsTheSoftmaxThatItFactorises) {
  for (const std::vector<std::int64_t>& cutoffs :
       {std::vector<std::int64_t>{5}, std::vector<std::int64_t>{3, 4, 9}}) {
    const auto s = softmax(cutoffs);
    const Tensor hidden = at::randn({2, 9, kDim}, at::kDouble).requires_grad_();
    Tensor targets = at::randint(kVocabulary, {2, 9}, at::kLong);
    targets[0][4] = -1, targets[1][0] = -7;
    const Tensor counted = targets.ge(0);
    const auto expected = [&] {
      return -factorised(*s, hidden.flatten(0, 1), cutoffs)
                  .gather(1, targets.clamp_min(0).view({-1, 1}))
                  .view({2, 9}) *
             counted;
    };
    const Tensor nll = s->nll(hidden, targets);
    EXPECT_TRUE(at::allclose(nll, expected(), 0, 1e-12));
    EXPECT_TRUE(at::allclose(s->log_probabilities(hidden[0]), factorised(*s, hidden[0], cutoffs), 0,
                             1e-12));
    std::vector<Tensor> leaves = s->parameters();
    leaves.push_back(hidden);
    const Tensor probe = testing::probe_like(nll);
    const auto found = torch::autograd::grad({(nll * probe).sum()}, leaves);
    const auto wanted = torch::autograd::grad({(expected() * probe).sum()}, leaves);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      EXPECT_TRUE(at::allclose(found[i], wanted[i], 0, 1e-11)) << i;
    }
  }
}

// oneDNN's log-softmax answers more than 0 there, by instruction set.
TEST(TiedSoftmax, WhereAllProbabilityLiesOnOneTokenTheLossIsZeroAndNotLess) {
  for (const std::int64_t tokens : {1, 2, 7, 16, 17, 100}) {
    for (const float behind : {30.F, 100.F, 1e4F}) {
      const Tensor weight = at::full({tokens, 1}, -behind);
      weight[tokens - 1] = 0;
      const Tensor nll =
          linear_nll(at::ones({3, 1}), weight, {}, at::full({3}, tokens - 1, at::kLong));
      EXPECT_TRUE(nll.eq(0).all().item<bool>()) << tokens << " tokens, " << behind << ": " << nll;
    }
  }
}

TEST(TiedSoftmax, PlainIsLogSoftmax) {
  const auto s = softmax({}, false);
  EXPECT_EQ(s->parameters().size(), 1U);
  const Tensor hidden = at::randn({1, 6, kDim}, at::kDouble);
  const Tensor targets = at::randint(kVocabulary, {1, 6}, at::kLong);
  const Tensor all = at::matmul(hidden[0], s->weight.t()).log_softmax(1);
  EXPECT_TRUE(at::allclose(s->log_probabilities(hidden[0]), all, 0, 1e-12));
  EXPECT_TRUE(at::allclose(s->nll(hidden, targets)[0],
                           -all.gather(1, targets.view({-1, 1})).squeeze(1), 0, 1e-12));
  EXPECT_TRUE(s->embed(targets)[0].equal(s->weight.index_select(0, targets[0])));
}

TEST(TiedSoftmax, LeavesOutCutoffsBeyondTheVocabulary) {
  EXPECT_FALSE(softmax({12, 40})->cluster_weight.defined());
  EXPECT_EQ(softmax({5, 11, 12, 40})->cluster_weight.size(0), 2);
  EXPECT_THAT(message_of<ShapeError>([] { softmax({5, 5}); }), HasSubstr("must rise"));
}

TEST(TiedSoftmax, GivesZerosWhereNothingCounts) {
  const auto s = softmax({5});
  const Tensor hidden = at::randn({1, 3, kDim}, at::kDouble).requires_grad_();
  const Tensor nll = s->nll(hidden, at::full({1, 3}, -1, at::kLong));
  EXPECT_TRUE(nll.eq(0).all().item<bool>());
  nll.sum().backward();
  EXPECT_TRUE(hidden.grad().eq(0).all().item<bool>());
}

/// Large enough for several chunks.
TEST(LinearNll, InChunksIsAsAtOnce) {
  at::manual_seed(2);
  const std::int64_t rows = 300, classes = 20000;
  ASSERT_GT(rows * classes * 4, 16 << 20);
  for (const bool with_bias : {true, false}) {
    Tensor x = at::randn({rows, 8}).requires_grad_(), w = at::randn({classes, 8}).requires_grad_();
    Tensor b = with_bias ? at::randn({classes}).requires_grad_() : Tensor();
    const Tensor targets = at::randint(classes, {rows}, at::kLong);
    const Tensor nll = linear_nll(x, w, b, targets);
    const Tensor at_once =
        -at::linear(x, w, b).log_softmax(1).gather(1, targets.view({-1, 1})).squeeze(1);
    EXPECT_TRUE(at::allclose(nll, at_once, 1e-5, 1e-5));
    {
      const at::NoGradGuard no_gradients;
      EXPECT_TRUE(at::allclose(linear_nll(x, w, b, targets), at_once, 1e-5, 1e-5));
    }
    std::vector<Tensor> leaves = {x, w};
    if (with_bias) leaves.push_back(b);
    const Tensor probe = testing::probe_like(nll);
    const auto found = torch::autograd::grad({(nll * probe).sum()}, leaves, {}, true, true);
    const auto wanted = torch::autograd::grad({(at_once * probe).sum()}, leaves, {}, true, true);
    const auto plain = torch::autograd::grad({(nll * probe).sum()}, leaves);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      EXPECT_TRUE(at::allclose(plain[i], wanted[i], 1e-3, 1e-4)) << i;
      EXPECT_TRUE(at::allclose(found[i], wanted[i], 1e-3, 1e-4)) << i << ", with a graph";
    }
    const auto second = torch::autograd::grad({found[0].square().sum()}, {x});
    const auto expected = torch::autograd::grad({wanted[0].square().sum()}, {x});
    EXPECT_TRUE(at::allclose(second[0], expected[0], 1e-3, 1e-3));
  }
}

}  // namespace
}  // namespace attnlab::tied_softmax_test
