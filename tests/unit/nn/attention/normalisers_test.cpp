// Sigmoid, Sinkhorn's and the power normaliser against plain loops.
#include "framework/nn/attention/normalisers.h"

#include <gtest/gtest.h>

#include "tests/support/gradcheck.h"
#include "tests/support/naive_weights.h"

namespace attnlab::normalisers_test {
namespace {

using testing::each_pair;
using testing::gradient_error;
using testing::Index;
using testing::largest_difference;
using testing::naive_sinkhorn;
using testing::second_gradient_error;

Tensor random_logits(std::int64_t rows = 6, std::int64_t columns = 7) {
  return at::randn({2, 2, rows, columns}, at::kDouble) * 2;
}

/// Masks for [2, 2, rows, columns], by name; the first is undefined.
std::vector<std::pair<const char*, Tensor>> masks(std::int64_t rows, std::int64_t columns) {
  Tensor keys = at::ones({2, 1, 1, columns}, at::kBool);
  keys[0][0][0][columns - 1] = false;
  keys[1][0][0][0] = false;
  const Tensor queries = (at::arange(rows) < rows - 1).view({1, 1, rows, 1});
  Tensor nothing = at::ones({2, 1, 1, 1}, at::kBool);
  nothing[1][0][0][0] = false;
  Tensor pairs = at::rand({2, 2, rows, columns}) < 0.6;
  pairs.select(2, 0).fill_(false);
  pairs.select(3, 1).fill_(false);
  return {{"all", {}},
          {"padding keys", keys},
          {"padding queries", queries},
          {"padding of both", keys.logical_and(queries)},
          {"an example that sees nothing", nothing},
          {"pairs, an empty row and an empty column", pairs},
          {"one matrix for all", at::rand({rows, columns}) < 0.7},
          {"one row for all", at::arange(columns) < columns - 2}};
}

Tensor full(const Tensor& visible, const Tensor& logits) {
  if (!visible.defined()) return at::ones(logits.sizes(), at::kBool);
  return visible.expand(logits.sizes()).contiguous();
}

SinkhornOptions sinkhorn(std::int64_t max_iter, double eps = 1, double tolerance = 0,
                         const std::string& total = "one") {
  SinkhornOptions options;
  options.max_iter = max_iter;
  options.eps = eps;
  options.tolerance = tolerance;
  options.total = total;
  return options;
}

TEST(VisibleCounts, CountTheKeysOfEachQueryUnderEveryMask) {
  at::manual_seed(1);
  const Tensor logits = random_logits();
  for (const auto& [name, visible] : masks(6, 7)) {
    const Tensor counts = visible_counts(visible, logits).expand({2, 2, 6, 1});
    const Tensor all = full(visible, logits);
    each_pair(counts, [&, name = name](Index b, Index h, Index i, Index j) {
      EXPECT_EQ(counts[b][h][i][j].item<double>(), testing::naive_count(all, b, h, i)) << name;
    });
  }
  EXPECT_EQ(visible_counts({}, logits.to(at::kBFloat16)).scalar_type(), at::kFloat);
}

TEST(VisibleCounts, OfAnInputAreThoseOfItsRules) {
  at::manual_seed(2);
  for (const auto& [name, in] : testing::one_input_for_each_rule()) {
    const Tensor all = testing::naive_visible(in);
    const Tensor counts = visible_counts(in).expand({in.batch(), in.heads(), in.query_count(), 1});
    each_pair(counts, [&, name = name](Index b, Index h, Index i, Index j) {
      EXPECT_EQ(counts[b][h][i][j].item<double>(), testing::naive_count(all, b, h, i)) << name;
    });
  }
}

TEST(SigmoidWeights, EqualTheirEquation) {
  at::manual_seed(3);
  for (const bool constant : {false, true}) {
    SigmoidOptions options;
    if (constant) options.bias = "constant", options.constant = -0.7;
    for (const auto& [name, in] : testing::one_input_for_each_rule()) {
      const Tensor logits = random_logits(in.query_count(), in.key_count());
      const Tensor all = testing::naive_visible(in);
      Tensor expected = at::zeros_like(logits);
      each_pair(logits, [&](Index b, Index h, Index i, Index j) {
        if (!all.accessor<bool, 4>()[b][h][i][j]) return;
        const double bias = constant ? -0.7 : -std::log(testing::naive_count(all, b, h, i));
        expected.accessor<double, 4>()[b][h][i][j] =
            1 / (1 + std::exp(-logits.accessor<double, 4>()[b][h][i][j] - bias));
      });
      const RowWeights rule = sigmoid_weights(in, options);
      EXPECT_LT(largest_difference(rule.of(logits, all.logical_not()), expected), 1e-14) << name;
    }
  }
}

TEST(PowerNormaliser, EqualsItsEquation) {
  at::manual_seed(5);
  const Tensor logits = random_logits();
  PowerNormaliser power({}, 2);
  EXPECT_EQ(power.m.sizes(), at::IntArrayRef({2}));
  EXPECT_EQ(power.m.max().item<double>(), 0.5);
  power.to(at::kDouble);
  power.m.data().copy_(at::tensor({0.3, -1.2}, at::kDouble));
  const auto l = logits.accessor<double, 4>();
  for (const auto& [name, visible] : masks(6, 7)) {
    const Tensor all = full(visible, logits);
    Tensor expected = at::zeros_like(logits);
    auto to = expected.accessor<double, 4>();
    each_pair(logits, [&](Index b, Index h, Index i, Index j) {
      const double exponent = 1 / (1 + std::exp(h == 0 ? -0.3 : 1.2));
      const double n = testing::naive_count(all, b, h, i);
      const bool seen = all.accessor<bool, 4>()[b][h][i][j];
      to[b][h][i][j] = seen ? l[b][h][i][j] / std::pow(n, exponent) : 0;
    });
    EXPECT_LT(largest_difference(power.forward(logits, visible), expected), 1e-10) << name;
  }
}

TEST(PowerNormaliser, GradientsOfLogitsAndExponentsAreRightTwice) {
  at::manual_seed(6);
  PowerNormaliser power({}, 2);
  const Tensor m = at::tensor({0.3, -1.2}, at::kDouble);
  for (const auto& [name, visible] : masks(3, 4)) {
    const auto f = [&, visible = visible](const std::vector<Tensor>& x) {
      power.m = x[1];
      return power.forward(x[0], visible);
    };
    EXPECT_LT(gradient_error(f, {random_logits(3, 4), m}), 1e-7) << name;
    EXPECT_LT(second_gradient_error(f, {random_logits(3, 4), m}), 1e-6) << name;
  }
}

TEST(SinkhornWeights, EqualTheLoopsForEveryNumberOfHalfSteps) {
  at::manual_seed(7);
  const Tensor logits = random_logits();
  for (const std::int64_t steps : {1, 2, 3, 4, 5, 8, 9}) {
    for (const auto& [name, visible] : masks(6, 7)) {
      for (const char* total : {"one", "inverse_n"}) {
        const SinkhornOptions options = sinkhorn(steps, 0.7, 0, total);
        EXPECT_LT(largest_difference(sinkhorn_weights(logits, visible, options),
                                     naive_sinkhorn(logits, full(visible, logits), options)),
                  1e-10)
            << steps << " half-steps, " << name << ", " << total;
      }
    }
  }
}

TEST(SinkhornWeights, EqualTheLoopsForLongMatrices) {
  at::manual_seed(8);
  for (const auto& [rows, columns] : {std::pair(150, 5), std::pair(3, 140), std::pair(65, 64)}) {
    const Tensor logits = random_logits(rows, columns);
    for (const std::int64_t steps : {3, 4}) {
      const SinkhornOptions options = sinkhorn(steps, 1, 1e-6);
      EXPECT_LT(largest_difference(sinkhorn_weights(logits, {}, options),
                                   naive_sinkhorn(logits, full({}, logits), options)),
                1e-10);
    }
  }
}

// A key that nobody likes: its column sums to e^-400 at first, which no scaling can hold.
Tensor far_logits(std::int64_t rows = 6, std::int64_t columns = 7) {
  const Tensor logits = random_logits(rows, columns);
  logits.select(3, 2).sub_(400);
  return logits;
}

TEST(SinkhornWeights, EqualTheLoopsBeyondTheRangeOfScalings) {
  at::manual_seed(9);
  const Tensor logits = far_logits();
  for (const std::int64_t steps : {2, 3, 8}) {
    for (const auto& [name, visible] : masks(6, 7)) {
      const SinkhornOptions options = sinkhorn(steps);
      EXPECT_LT(largest_difference(sinkhorn_weights(logits, visible, options),
                                   naive_sinkhorn(logits, full(visible, logits), options)),
                1e-10)
          << steps << " half-steps, " << name;
    }
  }
}

TEST(SinkhornWeights, OneRowStepIsSoftmax) {
  at::manual_seed(10);
  const Tensor logits = random_logits();
  EXPECT_LT(largest_difference(sinkhorn_weights(logits, {}, sinkhorn(1)), logits.softmax(-1)),
            1e-15);
}

TEST(SinkhornWeights, RowsSumToOneAndColumnsToTheirShareToTheToleranceAskedFor) {
  at::manual_seed(11);
  for (const auto& [rows, columns] : {std::pair(6, 6), std::pair(4, 8), std::pair(9, 3)}) {
    const Tensor logits = random_logits(rows, columns);
    for (const double tolerance : {1e-3, 1e-6, 1e-9}) {
      const Tensor p = sinkhorn_weights(logits, {}, sinkhorn(9999, 1, tolerance));
      EXPECT_LT((p.sum(-1) - 1).abs().max().item<double>(), 1e-12);
      // The last row step moved the logarithms by less than the tolerance: so far are columns off.
      const double share = static_cast<double>(rows) / columns, heads = 4;
      const double error = (p.sum(-2) - share).abs().max().item<double>();
      EXPECT_LT(error, 2 * heads * share * tolerance);
      EXPECT_GT(error, 0);
    }
  }
}

TEST(SinkhornWeights, TheSideThatCameLastIsExact) {
  at::manual_seed(12);
  const Tensor logits = random_logits(5, 8);
  for (const std::int64_t steps : {4, 5}) {
    for (const char* total : {"one", "inverse_n"}) {
      const Tensor p = sinkhorn_weights(logits, {}, sinkhorn(steps, 1, 0, total));
      const double row = total == std::string("one") ? 1 : 1 / 5.0;
      const double rows_off = (p.sum(-1) / row - 1).abs().max().item<double>();
      const double columns_off = (p.sum(-2) / (row * 5 / 8) - 1).abs().max().item<double>();
      EXPECT_LT(steps == 5 ? rows_off : columns_off, 1e-12);
      EXPECT_GT(steps == 5 ? columns_off : rows_off, 1e-6);
    }
  }
}

TEST(SinkhornWeights, StopWhereARowStepMovesLessThanTheTolerance) {
  at::manual_seed(13);
  for (const Tensor& logits : {random_logits(), far_logits()}) {
    const Tensor all = full({}, logits);
    EXPECT_LT(
        largest_difference(sinkhorn_weights(logits, {}, sinkhorn(9, 1, 1e9)), logits.softmax(-1)),
        1e-14);
    for (const double tolerance : {1.0, 0.1, 1e-2, 1e-4}) {
      const SinkhornOptions options = sinkhorn(100, 0.9, tolerance);
      const Tensor p = sinkhorn_weights(logits, {}, options);
      EXPECT_LT(largest_difference(p, naive_sinkhorn(logits, all, options)), 1e-10) << tolerance;
      EXPECT_GT(largest_difference(p, sinkhorn_weights(logits, {}, sinkhorn(100, 0.9))), 1e-9);
    }
  }
}

TEST(SinkhornWeights, GradientsAreRightForEveryNumberOfHalfSteps) {
  at::manual_seed(14);
  for (const std::int64_t steps : {1, 2, 3, 4, 5, 6, 7}) {
    for (const auto& [name, visible] : masks(3, 4)) {
      const auto f = [&, visible = visible](const std::vector<Tensor>& x) {
        return sinkhorn_weights(x[0], visible, sinkhorn(steps, 0.8));
      };
      EXPECT_LT(gradient_error(f, {random_logits(3, 4)}), 1e-7) << steps << ", " << name;
      EXPECT_LT(gradient_error(f, {far_logits(3, 4)}), 1e-7) << steps << ", far, " << name;
    }
  }
}

TEST(SinkhornWeights, GradientsOfLongMatricesAreRight) {
  at::manual_seed(15);
  for (const std::int64_t steps : {3, 4}) {
    const auto f = [&](const std::vector<Tensor>& x) {
      return sinkhorn_weights(x[0], {}, sinkhorn(steps));
    };
    EXPECT_LT(gradient_error(f, {at::randn({1, 1, 70, 3}, at::kDouble)}), 1e-7);
  }
}

TEST(SinkhornWeights, GradientsAreRightWhereTheToleranceStops) {
  at::manual_seed(16);
  const auto f = [&](const std::vector<Tensor>& x) {
    return sinkhorn_weights(x[0], {}, sinkhorn(100, 1, 0.05));
  };
  EXPECT_LT(gradient_error(f, {random_logits(4, 5)}, 1e-6), 1e-7);
  EXPECT_LT(second_gradient_error(f, {random_logits(3, 3)}, 1e-6), 1e-6);
}

TEST(SinkhornWeights, GradientsOfGradientsAreRight) {
  at::manual_seed(17);
  for (const std::int64_t steps : {2, 3, 4}) {
    for (const auto& [name, visible] : masks(2, 3)) {
      const auto f = [&, visible = visible](const std::vector<Tensor>& x) {
        return sinkhorn_weights(x[0], visible, sinkhorn(steps, 0.8));
      };
      EXPECT_LT(second_gradient_error(f, {random_logits(2, 3)}), 1e-6) << steps << ", " << name;
      EXPECT_LT(second_gradient_error(f, {far_logits(2, 3)}), 1e-6) << steps << ", far, " << name;
    }
  }
}

TEST(SinkhornWeights, SinglePrecisionIsNearDouble) {
  at::manual_seed(18);
  for (const Tensor& logits : {random_logits(40, 50), far_logits(40, 50) * 0.05}) {
    for (const std::int64_t steps : {3, 20}) {
      const Tensor wide = logits.clone().requires_grad_();
      const Tensor narrow = logits.to(at::kFloat).requires_grad_();
      const Tensor p = sinkhorn_weights(wide, {}, sinkhorn(steps));
      const Tensor q = sinkhorn_weights(narrow, {}, sinkhorn(steps));
      EXPECT_LT(largest_difference(p, q), 1e-5);
      (p * testing::probe_like(p)).sum().backward();
      (q * testing::probe_like(p)).sum().backward();
      EXPECT_LT(largest_difference(wide.grad(), narrow.grad()), 1e-5);
    }
  }
}

TEST(Normalisers, StayFiniteWithHugeLogitsAndOneKey) {
  PowerNormaliser power({}, 2);
  at::manual_seed(19);
  const std::vector<std::function<Tensor(const Tensor&, const Tensor&)>> all = {
      [](const Tensor& l, const Tensor& v) { return sinkhorn_weights(l, v, {}); },
      [](const Tensor& l, const Tensor& v) { return sinkhorn_weights(l, v, sinkhorn(8)); },
      [&](const Tensor& l, const Tensor& v) { return power.forward(l, v); }};
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    for (const std::int64_t length : {1, 2, 9}) {
      const Tensor values = at::randn({2, 2, length, length}) * 1e4;
      for (const Tensor& visible : {Tensor(), at::ones({length, length}, at::kBool).tril(-1)}) {
        for (std::size_t n = 0; n < all.size(); ++n) {
          const Tensor logits = values.to(dtype).requires_grad_();
          const Tensor weights = all[n](logits, visible);
          weights.sin().sum().backward();
          EXPECT_EQ(weights.scalar_type(), dtype);
          EXPECT_TRUE(weights.isfinite().all().item<bool>()) << n << ", length " << length;
          EXPECT_TRUE(logits.grad().isfinite().all().item<bool>()) << n << ", length " << length;
        }
      }
    }
  }
}

TEST(Normalisers, BFloat16IsNearDouble) {
  at::manual_seed(20);
  PowerNormaliser power({}, 2);
  const Tensor narrow = at::randn({2, 2, 60, 70}).to(at::kBFloat16);
  const Tensor wide = narrow.to(at::kDouble);
  const auto off = [](const Tensor& a, const Tensor& b) {
    return ((a.to(at::kDouble) - b).abs() / (b.abs() + 1e-12)).max().item<double>();
  };
  EXPECT_LT(off(sinkhorn_weights(narrow, {}, {}), sinkhorn_weights(wide, {}, {})), 0.005);
  EXPECT_LT(off(power.forward(narrow, {}), power.forward(wide, {})), 0.005);
}

}  // namespace
}  // namespace attnlab::normalisers_test
