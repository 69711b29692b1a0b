// Logistic regression against Newton's method in float64, and against what holds at the optimum.
#include "framework/eval/logistic_regression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/support/message_of.h"

namespace attnlab::logistic_regression_test {
namespace {

using attnlab::testing::mentions;

constexpr std::int64_t kClasses = 3, kChannels = 2;

struct Problem {
  Tensor features, classes;  ///< [N, 2] float64, [N]
};

/// Three clouds that overlap.
Problem clouds(std::int64_t examples) {
  at::manual_seed(4);
  Problem problem;
  problem.classes = at::arange(examples, at::kLong).remainder(5).clamp_max(2);  // 1 : 1 : 3
  const Tensor centres = at::tensor({1., 0., -1., 1., 0.5, -1.}, at::kDouble).view({3, 2});
  problem.features =
      centres.index_select(0, problem.classes) + at::randn({examples, kChannels}, at::kDouble);
  return problem;
}

/// exp(z_k) / sum of the classes of an example.
std::vector<double> shares_of(const Tensor& weight, const Tensor& bias, const Tensor& x) {
  std::vector<double> shares;
  double sum = 0;
  for (std::int64_t k = 0; k < kClasses; ++k) {
    double logit = bias[k].item<double>();
    for (std::int64_t c = 0; c < kChannels; ++c) {
      logit += weight[k][c].item<double>() * x[c].item<double>();
    }
    shares.push_back(std::exp(logit));
    sum += shares.back();
  }
  for (double& share : shares) share /= sum;
  return shares;
}

/// Newton's method on all [3, 3] numbers, biases last.
Tensor newton(const Problem& problem, double penalty) {
  const std::int64_t inputs = kChannels + 1, all = kClasses * inputs;
  const auto n = problem.features.size(0);
  Tensor parameters = at::zeros({kClasses, inputs}, at::kDouble);
  for (int round = 0; round < 30; ++round) {
    std::vector<double> gradient(std::size_t(all), 0), curvature(std::size_t(all * all), 0);
    for (std::int64_t i = 0; i < n; ++i) {
      const Tensor x = at::cat({problem.features[i], at::ones({1}, at::kDouble)});
      const auto shares =
          shares_of(parameters.narrow(1, 0, kChannels), parameters.select(1, kChannels), x);
      const auto own = problem.classes[i].item<std::int64_t>();
      const auto* value = x.data_ptr<double>();
      for (std::int64_t k = 0; k < kClasses; ++k) {
        const double off = shares[std::size_t(k)] - (k == own ? 1 : 0);
        for (std::int64_t c = 0; c < inputs; ++c) {
          gradient[std::size_t(k * inputs + c)] += off * value[c] / double(n);
          for (std::int64_t l = 0; l < kClasses; ++l) {
            const double both =
                shares[std::size_t(k)] * ((k == l ? 1 : 0) - shares[std::size_t(l)]);
            for (std::int64_t d = 0; d < inputs; ++d) {
              curvature[std::size_t((k * inputs + c) * all + l * inputs + d)] +=
                  both * value[c] * value[d] / double(n);
            }
          }
        }
      }
    }
    const Tensor slope = at::tensor(gradient, at::kDouble).view({kClasses, inputs});
    slope.narrow(1, 0, kChannels).add_(parameters.narrow(1, 0, kChannels), penalty);
    const Tensor square = at::tensor(curvature, at::kDouble).view({all, all});
    for (std::int64_t at = 0; at < all; ++at) {
      // Biases may move together for nothing: a little keeps the matrix from being singular.
      square[at][at] += at % inputs < kChannels ? penalty : 1e-9;
    }
    parameters = parameters - at::linalg_solve(square, slope.reshape({all, 1})).view_as(parameters);
  }
  return parameters;
}

TEST(LogisticRegression, EndsWhereNewtonsMethodEnds) {
  const Problem problem = clouds(60);
  for (const double penalty : {1e-3, 0.1, 10.0}) {
    const LogisticFit fit = fit_logistic(problem.features, problem.classes, kClasses,
                                         {.penalty = penalty, .tolerance = 1e-10});
    const Tensor expected = newton(problem, penalty);
    EXPECT_LT((fit.weight - expected.narrow(1, 0, kChannels)).abs().max().item<double>(), 1e-6)
        << penalty;
    // Biases count up to what is added to all.
    const Tensor bias = expected.select(1, kChannels);
    EXPECT_LT(((fit.bias - fit.bias.mean()) - (bias - bias.mean())).abs().max().item<double>(),
              1e-6)
        << penalty;
    EXPECT_LE(fit.gradient, 1e-10);
  }
}

/// mean (share_k - [y = k]) = 0 of the biases, W = -(1 / penalty) mean (share - onehot) x, so that
/// its rows add up to 0; over more rows than are computed at once.
TEST(LogisticRegression, HasNoGradientWhereItEnds) {
  const Problem problem = clouds(9000);
  const double penalty = 0.02;
  const LogisticFit fit = fit_logistic(problem.features.to(at::kFloat), problem.classes, kClasses,
                                       {.penalty = penalty, .tolerance = 1e-9});
  const Tensor x = problem.features.to(at::kFloat).to(at::kDouble);
  const Tensor off = at::softmax(fit.logits(x), 1) - at::one_hot(problem.classes, kClasses);
  EXPECT_LT(off.mean(0).abs().max().item<double>(), 1e-8);
  const Tensor weight = at::matmul(off.t(), x) / (-penalty * 9000);
  EXPECT_LT((weight - fit.weight).abs().max().item<double>(), 1e-6);
  EXPECT_LT(fit.weight.sum(0).abs().max().item<double>(), 1e-6);
}

TEST(LogisticRegression, EndsAtTheSamePlaceWhereverItBegins) {
  const Problem problem = clouds(100);
  const auto fit = [&](double penalty, const LogisticFit* start) {
    return fit_logistic(problem.features, problem.classes, kClasses,
                        {.penalty = penalty, .tolerance = 1e-9}, start);
  };
  const LogisticFit far = fit(100, nullptr), from_far = fit(0.01, &far), own = fit(0.01, nullptr);
  EXPECT_LT((from_far.weight - own.weight).abs().max().item<double>(), 1e-6);
  EXPECT_NEAR(from_far.loss, own.loss, 1e-12);
  EXPECT_LT(far.weight.abs().max().item<double>(), own.weight.abs().max().item<double>() / 10);
  EXPECT_EQ(fit(0.01, &own).iterations, 0) << "it is there already";
}

TEST(LogisticRegression, HasNoBiasWhereNoneIsWanted) {
  const Problem problem = clouds(50);
  const LogisticFit fit = fit_logistic(problem.features, problem.classes, kClasses,
                                       {.penalty = 0.1, .bias = false, .tolerance = 1e-9});
  EXPECT_TRUE(fit.bias.eq(0).all().item<bool>());
  const Tensor off =
      at::softmax(fit.logits(problem.features), 1) - at::one_hot(problem.classes, kClasses);
  EXPECT_LT(
      (at::matmul(off.t(), problem.features) / 50 + 0.1 * fit.weight).abs().max().item<double>(),
      1e-8);
}

TEST(LogisticRegression, StopsAfterSoManyIterations) {
  const Problem problem = clouds(60);
  const LogisticFit fit = fit_logistic(problem.features, problem.classes, kClasses,
                                       {.penalty = 1e-4, .iterations = 2, .tolerance = 1e-12});
  EXPECT_EQ(fit.iterations, 2);
  EXPECT_GT(fit.gradient, 1e-12);
}

TEST(LogisticRegression, RefusesFeaturesAndClassesOfOtherLengths) {
  EXPECT_THAT(testing::message_of<ShapeError>([] {
                fit_logistic(at::ones({3, 2}), at::zeros({4}, at::kLong), 2, {.penalty = 1});
              }),
              mentions("[N, C]", "[N]"));
}

}  // namespace
}  // namespace attnlab::logistic_regression_test
