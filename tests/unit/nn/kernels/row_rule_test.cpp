// A rule for rows as a plugin writes one, softplus, in the kernel, against plain operations.
#include "framework/nn/kernels/row_rule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "framework/nn/kernels/cpu_attention.h"
#include "tests/support/like_double.h"
#include "tests/support/naive_attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/unit/nn/kernels/row_rule_test.cpp"
#include "framework/nn/kernels/row_rule-inl.h"
// (Above: before other vectors.)
#include <hwy/contrib/math/math-inl.h>

namespace attnlab::row_rule_test {
RowRule& softplus_rule();
}  // namespace attnlab::row_rule_test

HWY_BEFORE_NAMESPACE();
namespace attnlab::HWY_NAMESPACE {

struct Softplus {
  /// log(1 + e^l)
  template <class T>
  static HWY_INLINE Vec<T> value(Vec<T> l) {
    const Vec<T> e = exponential(hn::Neg(hn::Abs(l)));
    const Vec<T> above = hn::IfThenZeroElse(hn::Lt(l, zeros<T>()), l);
    return hn::Add(above, hn::Log1p(Tag<T>(), e));
  }
  template <class T>
  static HWY_INLINE Vec<T> slope(Vec<T> l, Vec<T> /*value*/) {
    const Vec<T> one = all(T(1)), e = exponential(hn::Neg(hn::Abs(l)));
    const Vec<T> above = hn::Div(one, hn::Add(one, e));
    return hn::IfThenElse(hn::Lt(l, zeros<T>()), hn::Mul(e, above), above);
  }
};
const RowRulePart softplus(row_rule_test::softplus_rule(), kRowRuleSet<Softplus>);

}  // namespace attnlab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnlab::row_rule_test {

RowRule& softplus_rule() {
  static RowRule rule{[](const Tensor& l) { return at::softplus(l); }};
  return rule;
}

namespace {

template <class T>
const RowLoops<T>& loops_of(const RowRuleSet& set) {
  if constexpr (std::is_same_v<T, float>) {
    return set.floats;
  } else {
    return set.doubles;
  }
}

template <class T>
void expect_rows_right(double tolerance) {
  const auto& loops = loops_of<T>(softplus_rule().best());
  for (std::int64_t count = 1; count <= 40; ++count) {
    std::vector<T> row, grad;
    for (std::int64_t j = 0; j <= count; ++j) {
      row.push_back(T(std::sin(double(j)) * 12)), grad.push_back(T(std::cos(double(j))));
    }
    const std::vector<T> l = row, dw = grad;
    std::vector<T> weights = row;
    loops.weigh(weights.data(), count, T(0.5));
    loops.differentiate(row.data(), grad.data(), count, T(0.5));
    for (std::size_t j = 0; j < std::size_t(count); ++j) {
      const double x = double(l[j]), e = std::exp(-std::abs(x));
      const double value = std::max(x, 0.0) + std::log1p(e);
      const double slope = x < 0 ? e / (1 + e) : 1 / (1 + e);
      EXPECT_NEAR(double(weights[j]), value / 2, tolerance * (1 + value));
      EXPECT_NEAR(double(row[j]), double(weights[j]), tolerance * (1 + value));
      EXPECT_NEAR(double(grad[j]), slope / 2 * double(dw[j]), tolerance);
    }
    EXPECT_EQ(row.back(), l.back()) << "what lies behind a row is another's";
    EXPECT_EQ(grad.back(), dw.back());
  }
}

TEST(RowRule, WeighsRowsOfEveryLength) {
  expect_rows_right<float>(5e-7);
  expect_rows_right<double>(1e-14);
}

TEST(RowRule, IsCompiledForEachInstructionSetAndTheBestIsTaken) {
  const RowRule& rule = softplus_rule();
  EXPECT_FALSE(rule.sets.empty());
  const std::int64_t best = rule.best().set;
  EXPECT_NE(best & kernel_sets(), 0);
  for (const RowRuleSet* one : rule.sets) {
    if ((one->set & kernel_sets()) != 0) {
      EXPECT_LE(best, one->set);
    }
  }
  // All others give the same up to rounding.
  for (const RowRuleSet* one : rule.sets) {
    if ((one->set & kernel_sets()) == 0) continue;
    double row[7] = {-3, -2, -1, 0, 1, 2, 3}, same[7] = {-3, -2, -1, 0, 1, 2, 3};
    one->doubles.weigh(row, 7, 1);
    rule.best().doubles.weigh(same, 7, 1);
    for (int j = 0; j < 7; ++j) EXPECT_NEAR(row[j], same[j], 1e-15);
  }
}

TEST(RowRule, OfNoInstructionSetIsAnError) {
  const RowRule empty{[](const Tensor& l) { return l; }};
  try {
    empty.best();
    FAIL() << "nothing was thrown";
  } catch (const PluginError& error) {
    EXPECT_NE(std::string(error.what()).find("RowRulePart"), std::string::npos) << error.what();
  }
}

TEST(RowRule, WeighsInTheKernelAsByOperations) {
  at::manual_seed(1);
  const std::int64_t queries = 130, keys = 301;
  const Tensor seen = at::rand({2, 1, queries, keys}) < 0.7;
  const Tensor shift = at::randn({1, 2, queries, 1}, at::kDouble);
  const Tensor factor = at::rand({2, 1, 1, 1}, at::kDouble) + 0.5;
  const auto kernel = [&](const std::vector<Tensor>& x) {
    const at::ScalarType dtype = x[0].scalar_type();
    SoftmaxQuestion asked{.pairs = seen, .scale = 0.4};
    asked.each = {&softplus_rule(), shift.to(dtype), factor.to(dtype)};
    return cpu_softmax_attention(x[0], x[1], x[2], asked);
  };
  const auto plain = [&](const std::vector<Tensor>& x) {
    const Tensor logits = at::matmul(x[0], x[1].transpose(2, 3)) * 0.4 + shift;
    return at::matmul((1 + logits.exp()).log() * factor * seen, x[2]);
  };
  testing::expect_like_double(
      kernel, plain,
      {at::randn({2, 2, queries, 8}), at::randn({2, 2, keys, 8}), at::randn({2, 2, keys, 6})},
      5e-5);
  const Tensor q = at::randn({2, 2, queries, 8}, at::kDouble);
  const Tensor k = at::randn({2, 2, keys, 8}, at::kDouble);
  const Tensor v = at::randn({2, 2, keys, 6}, at::kDouble);
  EXPECT_LT(testing::largest_difference(kernel({q, k, v}), plain({q, k, v})), 1e-10);
}

}  // namespace
}  // namespace attnlab::row_rule_test
#endif
