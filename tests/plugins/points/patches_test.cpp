// Patches and the norm of rows.
#include "framework/nn/points/patches.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "framework/nn/points/row_norm.h"
#include "tests/support/gradcheck.h"

namespace attnlab::patches_test {
namespace {

TEST(Patches, BorrowForTheLastShortGroup) {
  // Seven voxels in groups of three, and two by themselves.
  const Tensor order = at::tensor({4, 0, 6, 2, 5, 1, 3, 8, 7}, at::kLong);
  const Patches patches = patches_of(order, at::tensor({0, 7, 9}, at::kLong), 3);
  EXPECT_EQ(patches.count, 4);
  EXPECT_TRUE(
      patches.slots.source.equal(at::tensor({4, 0, 6, 2, 5, 1, 3, 5, 1, 8, 7, -1}, at::kLong)));
  EXPECT_TRUE(patches.places.source.equal(at::tensor({1, 5, 3, 6, 0, 4, 2, 10, 9}, at::kLong)));
  EXPECT_TRUE(patches.valid.equal(patches.slots.source.ge(0).view({4, 3})));
}

TEST(Patches, OfShortCloudsAreAsLongAsTheLongest) {
  const Patches patches = patches_of(at::arange(5), at::tensor({0, 2, 2, 5}, at::kLong), 1024);
  EXPECT_EQ(patches.size, 3);
  EXPECT_TRUE(patches.slots.source.equal(at::tensor({0, 1, -1, 2, 3, 4}, at::kLong)));
  EXPECT_FALSE(patches_of(at::arange(4), at::tensor({0, 4}, at::kLong), 2).valid.defined());
  EXPECT_EQ(patches_of(at::empty({0}, at::kLong), at::tensor({0, 0}, at::kLong), 4).count, 0);
}

TEST(RowNorm, IsLibTorchsBatchNorm) {
  at::manual_seed(1);
  RowNorm norm(5, 1e-3, 0.01);
  norm.to(at::kDouble);
  const Tensor x = at::randn({1200, 5}, at::kDouble) * 3 + 1;
  const Tensor mean = at::zeros({5}, at::kDouble), variance = at::ones({5}, at::kDouble);
  const Tensor expected =
      at::batch_norm(x, norm.weight, norm.bias, mean, variance, true, 0.01, 1e-3, false);
  EXPECT_TRUE(at::allclose(norm.forward(x), expected, 0, 1e-10));
  EXPECT_TRUE(at::allclose(norm.running_mean, mean, 0, 1e-12));
  EXPECT_TRUE(at::allclose(norm.running_var, variance, 0, 1e-12));
  norm.eval();
  EXPECT_TRUE(at::allclose(
      norm.forward(x),
      at::batch_norm(x, norm.weight, norm.bias, mean, variance, false, 0.01, 1e-3, false), 0,
      1e-10));
}

TEST(RowNorm, Of16BitsIsRoundedOnce) {
  at::manual_seed(4);
  // Far from zero, where what is left of 8 bits or 11 is little.
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    const Tensor x = (at::randn({300, 5}) * 2 + 30).to(dtype);
    RowNorm norm(5), exact(5);
    norm.to(dtype);
    EXPECT_TRUE(norm.forward(x).equal(exact.forward(x.to(at::kFloat)).to(dtype)));
    EXPECT_TRUE(norm.running_mean.equal(exact.running_mean.to(dtype)));
    EXPECT_TRUE(norm.running_var.equal(exact.running_var.to(dtype)));
  }
}

TEST(RowNorm, HasItsGradients) {
  at::manual_seed(2);
  RowNorm norm(2, 1e-3);
  norm.to(at::kDouble);
  norm.weight.detach().uniform_(0.5, 2);
  Tensor x = at::randn({4, 2}, at::kDouble).requires_grad_();
  const auto f = [&] { return norm.forward(x).sin(); };
  EXPECT_LT(testing::leaf_gradient_error(f, {x, norm.weight, norm.bias}), 1e-7);
  const auto g = [&](const std::vector<Tensor>& in) { return norm.forward(in[0]).sin(); };
  EXPECT_LT(testing::second_gradient_error(g, {x.detach()}), 1e-6);
}

TEST(RowNorm, TakesOneRowAsInEvaluation) {
  RowNorm norm(3);
  const Tensor x = at::randn({1, 3}), one = norm.forward(x);
  EXPECT_EQ(norm.forward(at::zeros({0, 3})).size(0), 0);
  EXPECT_TRUE(norm.running_var.equal(at::ones({3}))) << "there was no variance to follow";
  EXPECT_TRUE(norm.running_mean.equal(at::zeros({3})));
  norm.eval();
  EXPECT_TRUE(one.equal(norm.forward(x)));
}

TEST(RowNorm, GivesTheSameBitsWhateverTheThreads) {
  at::manual_seed(3);
  const Tensor x = at::randn({20000, 16});
  const int threads = at::get_num_threads();
  Tensor first;
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    RowNorm norm(16);
    Tensor leaf = x.clone().requires_grad_();
    const Tensor y = norm.forward(leaf);
    const Tensor all = at::cat({y, torch::autograd::grad({y.square().sum()}, {leaf})[0]});
    if (!first.defined()) first = all;
    EXPECT_TRUE(all.equal(first));
  }
  at::set_num_threads(threads);
}

}  // namespace
}  // namespace attnlab::patches_test
