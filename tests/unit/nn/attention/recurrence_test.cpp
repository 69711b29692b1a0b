// Recurrences in chunks against a token after the other.
#include "framework/nn/attention/recurrence.h"

#include <gtest/gtest.h>

#include "tests/support/gradcheck.h"
#include "tests/support/ordered_input.h"

namespace attnlab::recurrence_test {
namespace {

using testing::largest_difference;
using testing::naive_recurrence;

enum class Decay { none, head, channel };
constexpr Decay kDecays[] = {Decay::none, Decay::head, Decay::channel};

struct Case {
  Recurrence given;
  Tensor betas;
  std::string name;
};

/// Two heads, keys shorter than 1.
Case random_case(std::int64_t batch, std::int64_t queries, std::int64_t keys, std::int64_t dim,
                 Decay decay) {
  const auto normal = [&](std::int64_t length, std::int64_t channels) {
    return at::randn({batch, 2, length, channels}, at::kDouble);
  };
  Case one;
  one.given.queries = normal(queries, dim);
  one.given.keys = normal(keys, dim);
  one.given.keys = one.given.keys / (one.given.keys.norm(2, -1, true) + 0.1);
  one.given.values = normal(keys, 3);
  one.betas = normal(keys, 1).sigmoid();
  if (decay == Decay::head) one.given.log_decays = -at::softplus(normal(keys, 1) - 2);
  if (decay == Decay::channel) one.given.log_decays = -at::softplus(normal(keys, dim) - 2);
  one.name = std::to_string(queries) + " queries, " + std::to_string(keys) + " keys, decay " +
             std::to_string(static_cast<int>(decay));
  return one;
}

Tensor as_float(const Tensor& x) { return x.defined() ? x.to(at::kFloat) : x; }

void expect_as_token_by_token(const Case& c) {
  EXPECT_LT(largest_difference(gated_linear(c.given), naive_recurrence(c.given)), 1e-10) << c.name;
  EXPECT_LT(
      largest_difference(gated_delta_rule(c.given, c.betas), naive_recurrence(c.given, c.betas)),
      1e-10)
      << c.name;
}

TEST(Recurrence, EqualsTokenByTokenForLengthsAroundThoseOfChunks) {
  at::manual_seed(1);
  for (const Decay decay : kDecays) {
    for (const std::int64_t length : {1, 2, 5, 64, 65, 130}) {
      for (const bool absent : {false, true}) {
        Case c = random_case(length > 5 ? 1 : 2, length, length, 4, decay);
        if (absent) c.given.key_valid = at::rand({c.given.keys.size(0), length}) < 0.6;
        expect_as_token_by_token(c);
      }
    }
  }
}

TEST(Recurrence, TheLastQueryStandsAtTheLastKey) {
  at::manual_seed(2);
  for (const Decay decay : kDecays) {
    for (const auto& [queries, keys] : {std::pair(3, 70), std::pair(70, 140), std::pair(140, 70),
                                        std::pair(1, 9), std::pair(9, 1), std::pair(4, 0)}) {
      expect_as_token_by_token(random_case(1, queries, keys, 3, decay));
    }
  }
}

TEST(Recurrence, OneChannelIsEnough) {
  at::manual_seed(3);
  for (const Decay decay : kDecays) expect_as_token_by_token(random_case(1, 70, 70, 1, decay));
}

TEST(Recurrence, WithoutPresentKeysThereAreZeros) {
  at::manual_seed(4);
  for (const Decay decay : kDecays) {
    Case c = random_case(2, 6, 6, 4, decay);
    c.given.key_valid = at::zeros({2, 6}, at::kBool);
    EXPECT_EQ(gated_linear(c.given).abs().max().item<double>(), 0);
    EXPECT_EQ(gated_delta_rule(c.given, c.betas).abs().max().item<double>(), 0);
  }
}

TEST(Recurrence, OneDecayForAllExamplesServesEach) {
  at::manual_seed(5);
  Case c = random_case(2, 70, 70, 4, Decay::head);
  c.given.log_decays = c.given.log_decays.narrow(0, 0, 1);
  Case apart = c;
  apart.given.log_decays = c.given.log_decays.expand({2, 2, 70, 1}).contiguous();
  EXPECT_LT(largest_difference(gated_linear(c.given), naive_recurrence(apart.given)), 1e-10);
}

TEST(Recurrence, SmallDecaysBesideHugeOnesKeepTheirDigits) {
  at::manual_seed(6);
  for (const Decay decay : {Decay::head, Decay::channel}) {
    Case c = random_case(1, 130, 130, 4, decay);
    // A tenth of the tokens forgets all; of the others, differences of sums of log-decays in
    // float32 would be off by thousandths.
    c.given.log_decays = at::where(at::rand_like(c.given.log_decays) < 0.1,
                                   at::full_like(c.given.log_decays, -1e4), c.given.log_decays);
    Recurrence narrow = c.given;
    for (Tensor Recurrence::*x :
         {&Recurrence::queries, &Recurrence::keys, &Recurrence::values, &Recurrence::log_decays}) {
      narrow.*x = as_float(c.given.*x);
    }
    EXPECT_LT(largest_difference(gated_linear(narrow), naive_recurrence(c.given)), 2e-5);
    EXPECT_LT(largest_difference(gated_delta_rule(narrow, as_float(c.betas)),
                                 naive_recurrence(c.given, c.betas)),
              2e-5);
  }
}

TEST(Recurrence, TheDeltaRuleWritesAValueInTheEarlierOnesPlace) {
  Case c = random_case(1, 2, 2, 4, Decay::none);
  c.given.keys.zero_();
  c.given.keys.select(3, 1).fill_(1);  // one key, twice
  c.given.queries = c.given.keys;
  c.betas.fill_(1);
  EXPECT_LT(largest_difference(gated_delta_rule(c.given, c.betas), c.given.values), 1e-12);
  // Half a step leads half the way.
  c.betas.fill_(0.5);
  const Tensor first = c.given.values.narrow(2, 0, 1), second = c.given.values.narrow(2, 1, 1);
  EXPECT_LT(largest_difference(gated_delta_rule(c.given, c.betas),
                               at::cat({first / 2, first / 4 + second / 2}, 2)),
            1e-12);
}

/// The recurrences as functions of tensors that may have any values.
struct Free {
  bool delta;
  Tensor operator()(const std::vector<Tensor>& x) const {
    const Recurrence given{.queries = x[0],
                           .keys = x[1],
                           .values = x[2],
                           .log_decays = -at::softplus(x[3]),
                           .key_valid = {}};
    return delta ? gated_delta_rule(given, x[4].sigmoid()) : gated_linear(given);
  }
};

std::vector<Tensor> free_tensors(std::int64_t length, Decay decay, bool delta) {
  const auto normal = [&](std::int64_t channels) {
    return at::randn({1, 1, length, channels}, at::kDouble);
  };
  std::vector<Tensor> all = {normal(2), normal(2) / 3, normal(2),
                             normal(decay == Decay::channel ? 2 : 1)};
  if (delta) all.push_back(normal(1));
  return all;
}

TEST(Recurrence, GradientsAreRightTwice) {
  at::manual_seed(7);
  for (const bool delta : {false, true}) {
    for (const Decay decay : {Decay::head, Decay::channel}) {
      const std::vector<Tensor> x = free_tensors(5, decay, delta);
      EXPECT_LT(testing::gradient_error(Free{delta}, x), 1e-7);
      EXPECT_LT(testing::second_gradient_error(Free{delta}, x), 1e-6);
    }
  }
}

TEST(Recurrence, GradientsAreRightTwiceAcrossChunks) {
  at::manual_seed(8);
  for (const bool delta : {false, true}) {
    for (const Decay decay : {Decay::head, Decay::channel}) {
      const std::vector<Tensor> x = free_tensors(130, decay, delta);
      std::vector<Tensor> directions, steps;
      for (const Tensor& each : x) {
        directions.push_back(at::randn_like(each) / 4);
        steps.push_back(at::zeros({1}, at::kDouble));
      }
      // Along one random direction of each tensor; the sum keeps the incoming gradient small.
      const auto f = [&](const std::vector<Tensor>& step) {
        std::vector<Tensor> moved;
        for (std::size_t n = 0; n < x.size(); ++n) {
          moved.push_back(x[n] + step[n] * directions[n]);
        }
        return (Free{delta}(moved)*testing::probe_like(x[2])).sum(2);
      };
      EXPECT_LT(testing::gradient_error(f, steps), 1e-6);
      EXPECT_LT(testing::second_gradient_error(f, steps), 1e-5);
    }
  }
}

TEST(Recurrence, DirectionsOfQueriesAndKeysHaveLengthOneAndFiniteGradientsAtZero) {
  at::manual_seed(9);
  const Tensor x = at::cat({at::randn({3, 4}, at::kDouble), at::full({1, 4}, 1e4, at::kDouble),
                            at::zeros({1, 4}, at::kDouble)})
                       .requires_grad_();
  const Tensor y = silu_direction(x);
  EXPECT_LT((y.narrow(0, 0, 4).norm(2, -1) - 1).abs().max().item<double>(), 1e-3);
  EXPECT_GT(largest_difference(y[0].detach(), (x[0] / x[0].norm()).detach()), 1e-2);
  y.sum().backward();
  EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
  EXPECT_LT(testing::gradient_error([](const auto& v) { return silu_direction(v[0]); },
                                    {x.detach().narrow(0, 0, 3)}),
            1e-7);
}

/// Tokens [first, first + count) of a case with as many queries as keys.
Recurrence tokens_of(const Case& c, std::int64_t first, std::int64_t count) {
  Recurrence some = c.given;
  for (Tensor* x : {&some.queries, &some.keys, &some.values, &some.log_decays}) {
    if (x->defined()) *x = x->narrow(2, first, count);
  }
  return some;
}

TEST(Recurrence, GoesOnFromAState) {
  at::manual_seed(8);
  for (const Decay decay : kDecays) {
    const Case c = random_case(2, 140, 140, 4, decay);
    const Tensor linear = gated_linear(c.given), delta = gated_delta_rule(c.given, c.betas);
    Tensor of_linear, of_delta;
    std::vector<Tensor> linear_parts, delta_parts;
    for (const auto& [first, count] :
         {std::pair{0, 3}, std::pair{3, 1}, std::pair{4, 64}, std::pair{68, 72}}) {
      Recurrence some = tokens_of(c, first, count);
      some.state = &of_linear;
      linear_parts.push_back(gated_linear(some));
      some.state = &of_delta;
      delta_parts.push_back(gated_delta_rule(some, c.betas.narrow(2, first, count)));
    }
    EXPECT_EQ(of_linear.sizes(), at::IntArrayRef({2, 2, 4, 3}));
    EXPECT_LT(largest_difference(at::cat(linear_parts, 2), linear), 1e-10) << c.name;
    EXPECT_LT(largest_difference(at::cat(delta_parts, 2), delta), 1e-10) << c.name;
  }
}

TEST(Recurrence, AStateBehindAllTokensIsThatOfTheSameTokensAtOnce) {
  at::manual_seed(9);
  const Case c = random_case(1, 70, 70, 4, Decay::channel);
  Tensor at_once, in_parts;
  Recurrence all = c.given;
  all.state = &at_once;
  gated_delta_rule(all, c.betas);
  for (const auto& [first, count] : {std::pair{0, 64}, std::pair{64, 6}}) {
    Recurrence some = tokens_of(c, first, count);
    some.state = &in_parts;
    gated_delta_rule(some, c.betas.narrow(2, first, count));
  }
  EXPECT_LT(largest_difference(in_parts, at_once), 1e-10);
}

}  // namespace
}  // namespace attnlab::recurrence_test
