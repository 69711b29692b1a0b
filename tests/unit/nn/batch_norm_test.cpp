// Batch norm over rows against its equations and against LibTorch's.
#include "framework/nn/modules/batch_norm.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "tests/support/gradcheck.h"

namespace attnlab::batch_norm_test {
namespace {

class BatchNorms : public ::testing::Test {
 protected:
  void SetUp() override { at::manual_seed(5); }
};

/// A norm in double precision whose tensors are none of them at their starts.
std::shared_ptr<BatchNorm> norm_of(std::int64_t dim) {
  auto norm = std::make_shared<BatchNorm>(dim);
  norm->to(at::kDouble);
  const at::NoGradGuard no_gradients;
  norm->weight.normal_();
  norm->bias.normal_();
  norm->running_mean.normal_();
  norm->running_variance.uniform_(0.5, 2);
  return norm;
}

TEST_F(BatchNorms, AreLibTorchsInTrainingAndMoveTheRunningStatistics) {
  const Tensor x = at::randn({37, 5}, at::kDouble) * 3 + 2;
  const auto norm = norm_of(5);
  const Tensor mean = norm->running_mean.clone(), variance = norm->running_variance.clone();
  const Tensor expected =
      at::batch_norm(x, norm->weight, norm->bias, mean, variance, true, 0.1, 1e-5, false);
  EXPECT_TRUE(norm->forward(x).allclose(expected, 0, 1e-12));
  EXPECT_TRUE(norm->running_mean.allclose(mean, 0, 1e-12));
  EXPECT_TRUE(norm->running_variance.allclose(variance, 0, 1e-12));
}

TEST_F(BatchNorms, AreOfEachRowAloneInEvaluation) {
  const Tensor x = at::randn({6, 3}, at::kDouble);
  const auto norm = norm_of(3);
  norm->eval();
  const Tensor before = norm->running_mean.clone();
  const Tensor expected = (x - norm->running_mean) / (norm->running_variance + 1e-5).sqrt();
  const Tensor y = norm->forward(x);
  EXPECT_TRUE(y.allclose(expected * norm->weight + norm->bias, 0, 1e-12));
  EXPECT_TRUE(norm->forward(x.narrow(0, 4, 1)).allclose(y.narrow(0, 4, 1), 0, 1e-12));
  EXPECT_TRUE(norm->running_mean.equal(before));
}

TEST_F(BatchNorms, Of16BitsAreRoundedOnce) {
  // Far from zero, where what is left of 8 bits or 11 is little.
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    const Tensor x = (at::randn({300, 5}) * 2 + 30).to(dtype), more = at::randn({300, 5}).to(dtype);
    BatchNorm norm(5), exact(5);
    norm.to(dtype);
    const Tensor y = norm.forward(x, {.residual = more});
    const Tensor expected =
        exact.forward(x.to(at::kDouble), {.residual = more.to(at::kDouble)}).to(dtype);
    EXPECT_EQ(y.scalar_type(), dtype);
    EXPECT_TRUE(y.to(at::kFloat).allclose(expected.to(at::kFloat), 1.0 / 128, 1e-3));
    EXPECT_TRUE(norm.running_mean.to(at::kFloat).allclose(exact.running_mean, 1.0 / 128));
  }
}

TEST_F(BatchNorms, RectifyAndAddInTheSamePass) {
  const Tensor x = at::randn({50, 4}, at::kDouble), more = at::randn({50, 4}, at::kDouble);
  const auto norm = norm_of(4);
  const Tensor plain = norm->forward(x);
  EXPECT_TRUE(norm->forward(x, {.relu = true}).equal(plain.relu()));
  EXPECT_TRUE(norm->forward(x, {.relu = true, .residual = more}).equal(plain.relu() + more));
  EXPECT_TRUE(norm->forward(x, {.residual = more}).equal(plain + more));
}

TEST_F(BatchNorms, HaveRightGradientsOfBothOrders) {
  const Tensor x = at::randn({9, 3}, at::kDouble), more = at::randn({9, 3}, at::kDouble);
  for (const bool training : {true, false}) {
    for (const bool relu : {false, true}) {
      const auto norm = norm_of(3);
      norm->train(training);
      const auto f = [&](const std::vector<Tensor>& in) {
        return norm->forward(in[0], {relu, in[1]}).square();
      };
      EXPECT_LT(testing::gradient_error(f, {x, more}), 1e-6) << training << relu;
      EXPECT_LT(testing::second_gradient_error(f, {x, more}), 1e-5) << training << relu;
      EXPECT_LT(testing::leaf_gradient_error(
                    [&] {
                      return norm->forward(x, {relu, more});
                    },
                    {norm->weight, norm->bias}),
                1e-7)
          << training << relu;
    }
  }
}

TEST_F(BatchNorms, AreExactFarFromZeroInSinglePrecision) {
  const Tensor x = at::randn({1000, 2}, at::kDouble) * 0.01 + 100;
  BatchNorm norm(2);
  const Tensor single = x.to(at::kFloat);
  const Tensor exact = single.to(at::kDouble);
  const Tensor expected = (exact - exact.mean(0)) / (exact.var(0, false) + 1e-5).sqrt();
  EXPECT_TRUE(norm.forward(single).to(at::kDouble).allclose(expected, 0, 2e-3));
}

TEST_F(BatchNorms, ThreadsChangeNoBit) {
  const Tensor x = at::randn({5000, 7}), more = at::randn({5000, 7});
  std::vector<Tensor> first;
  for (const int threads : {1, 2, 5}) {
    at::set_num_threads(threads);
    BatchNorm norm(7);
    const Tensor leaf = x.clone().requires_grad_();
    const Tensor y = norm.forward(leaf, {true, more});
    y.sin().sum().backward();
    const std::vector<Tensor> found = {y.detach(), leaf.grad(), norm.weight.grad(),
                                       norm.running_variance};
    if (first.empty()) first = found;
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].equal(first[i]));
  }
  at::set_num_threads(1);
}

/// Both ways that a norm is computed: by its own loops, and composed as on other devices.
constexpr at::ScalarType kBoth[] = {at::kDouble, at::kBFloat16};

TEST_F(BatchNorms, TakeOneRowAsInEvaluationWhichHasNoVarianceOfItsOwn) {
  for (const at::ScalarType dtype : kBoth) {
    const auto norm = norm_of(3);
    norm->to(dtype);
    const Tensor mean = norm->running_mean.clone(), variance = norm->running_variance.clone();
    for (int batch = 0; batch < 50; ++batch) {
      const Tensor x = at::randn({1, 3}, dtype);
      norm->train();
      const Tensor y = norm->forward(x);
      norm->eval();
      EXPECT_TRUE(y.equal(norm->forward(x)));
      norm->train();
    }
    EXPECT_TRUE(norm->running_variance.equal(variance)) << "it went to 0";
    EXPECT_TRUE(norm->running_mean.equal(mean));
    EXPECT_EQ(norm->forward(at::empty({0, 3}, dtype)).size(0), 0);
    EXPECT_TRUE(norm->running_variance.equal(variance));
    EXPECT_TRUE(norm->running_mean.equal(mean));
    norm->forward(at::randn({2, 3}, dtype));
    EXPECT_FALSE(norm->running_variance.equal(variance)) << "two rows have one";
  }
}

TEST_F(BatchNorms, RefuseRowsOfAnotherWidth) {
  EXPECT_THROW(norm_of(3)->forward(at::randn({4, 2}, at::kDouble)), ShapeError);
}

}  // namespace
}  // namespace attnlab::batch_norm_test
