// Linear maps trained side by side against one map and one rate at a time, in float64 loops.
#include "framework/eval/linear_heads.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace attnlab::linear_heads_test {
namespace {

constexpr std::int64_t kExamples = 5, kChannels = 3, kClasses = 4, kInputs = kChannels + 1;

/// One map, its biases the last inputs'.
struct Naive {
  std::vector<double> weight, velocity = std::vector<double>(kClasses * kInputs, 0);

  explicit Naive(const Tensor& first) {
    for (std::int64_t k = 0; k < kClasses; ++k) {
      for (std::int64_t c = 0; c < kChannels; ++c) weight.push_back(first[k][c].item<double>());
      weight.push_back(0);
    }
  }

  double input(const Tensor& x, std::int64_t i, std::int64_t c) const {
    return c < kChannels ? x[i][c].item<double>() : 1;
  }

  void step(const Tensor& x, const Tensor& classes, double rate) {
    std::vector<double> gradient(weight.size(), 0);
    for (std::int64_t i = 0; i < kExamples; ++i) {
      std::vector<double> shares(kClasses, 0);
      double sum = 0;
      for (std::int64_t k = 0; k < kClasses; ++k) {
        double logit = 0;
        for (std::int64_t c = 0; c < kInputs; ++c) {
          logit += weight[std::size_t(k * kInputs + c)] * input(x, i, c);
        }
        shares[std::size_t(k)] = std::exp(logit);
        sum += shares[std::size_t(k)];
      }
      for (std::int64_t k = 0; k < kClasses; ++k) {
        const double right = classes[i].item<std::int64_t>() == k ? 1 : 0;
        for (std::int64_t c = 0; c < kInputs; ++c) {
          gradient[std::size_t(k * kInputs + c)] +=
              (shares[std::size_t(k)] / sum - right) * input(x, i, c) / double(kExamples);
        }
      }
    }
    for (std::size_t at = 0; at < weight.size(); ++at) {
      velocity[at] = 0.9 * velocity[at] + gradient[at];
      weight[at] -= rate * velocity[at];
    }
  }
};

TEST(LinearHeads, MoveAsEachDoesAlone) {
  at::manual_seed(3);
  const std::vector<double> rates = {0.01, 1.5, 0.2};
  LinearHeads heads(kChannels, kClasses, rates, Random(7), at::kCPU);
  ASSERT_TRUE(heads.weight()[0].equal(heads.weight()[2])) << "the same beginning";
  EXPECT_GT(heads.weight().abs().max().item<double>(), 0);
  EXPECT_LT(heads.weight().abs().max().item<double>(), 0.06) << "deviation 0.01";
  std::vector<Naive> naive(rates.size(), Naive(heads.weight()[0]));
  for (int step = 0; step < 4; ++step) {
    const Tensor x = at::randn({kExamples, kChannels});
    const Tensor classes = at::randint(0, kClasses, {kExamples}, at::kLong);
    const double factor = 1 - 0.2 * step;
    heads.step(x, classes, factor);
    for (std::size_t r = 0; r < rates.size(); ++r) naive[r].step(x, classes, rates[r] * factor);
  }
  for (std::size_t r = 0; r < rates.size(); ++r) {
    const auto rate = static_cast<std::int64_t>(r);
    for (std::int64_t k = 0; k < kClasses; ++k) {
      for (std::int64_t c = 0; c < kInputs; ++c) {
        const Tensor own = c < kChannels ? heads.weight()[rate][k][c] : heads.bias()[rate][k];
        EXPECT_NEAR(own.item<double>(), naive[r].weight[std::size_t(k * kInputs + c)], 1e-5)
            << r << " " << k << " " << c;
      }
    }
  }
}

TEST(LinearHeads, GiveLogitsOfEveryRate) {
  const LinearHeads heads(2, 3, {0.1, 0.2}, Random(1), at::kCPU);
  const Tensor x = at::ones({4, 2});
  const Tensor logits = heads.logits(x);
  ASSERT_EQ(logits.sizes(), (std::vector<std::int64_t>{4, 2, 3}));
  EXPECT_TRUE(logits.select(1, 1).allclose(at::matmul(x, heads.weight()[1].t())));
}

}  // namespace
}  // namespace attnlab::linear_heads_test
