// Sparse convolution against dense convolution, read where voxels are.
#include "framework/nn/points/sparse_convolution.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "tests/plugins/points/clouds.h"
#include "tests/support/gradcheck.h"

namespace attnlab::sparse_convolution_test {
namespace {

using testing::Cloud;
using testing::random_cloud;

/// Dense convolution of each cloud, at the occupied voxels.
Tensor dense(const Cloud& cloud, const Tensor& x, const Tensor& weight, std::int64_t side) {
  const Tensor batch = cloud.keys.bitwise_right_shift(48);
  const Tensor at =
      ((batch * side + cloud.grid.select(1, 0)) * side + cloud.grid.select(1, 1)) * side +
      cloud.grid.select(1, 2);
  const std::int64_t clouds = cloud.offsets.size(0) - 1;
  const Tensor volume = at::zeros({clouds * side * side * side, x.size(1)}, x.options())
                            .index_copy(0, at, x)
                            .view({clouds, side, side, side, x.size(1)})
                            .permute({0, 4, 1, 2, 3});
  const Tensor y =
      at::conv3d(volume, weight.permute({0, 4, 1, 2, 3}), {}, 1, (weight.size(1) - 1) / 2);
  return y.permute({0, 2, 3, 4, 1}).reshape({-1, weight.size(0)}).index_select(0, at);
}

class Convolution : public ::testing::TestWithParam<std::array<std::int64_t, 3>> {};

TEST_P(Convolution, IsDenseConvolutionAtOccupiedVoxels) {
  const auto [size, in, out] = GetParam();
  at::manual_seed(1);
  const Cloud cloud = random_cloud({300, 1, 0, 150}, 9);
  const KernelMap map = kernel_map(cloud.keys, size);
  Tensor x = at::randn({cloud.keys.size(0), in}, at::kDouble).requires_grad_();
  Tensor weight = at::randn({out, size, size, size, in}, at::kDouble).requires_grad_();
  const Tensor y = sparse_convolution(x, weight, map), expected = dense(cloud, x, weight, 9);
  EXPECT_TRUE(at::allclose(y, expected, 1e-10, 1e-10));
  const Tensor dy = at::randn_like(y);
  const auto ours = torch::autograd::grad({y}, {x, weight}, {dy});
  const auto theirs = torch::autograd::grad({expected}, {x, weight}, {dy});
  EXPECT_TRUE(at::allclose(ours[0], theirs[0], 1e-10, 1e-10));
  EXPECT_TRUE(at::allclose(ours[1], theirs[1], 1e-10, 1e-10));
  const Tensor single = sparse_convolution(x.to(at::kFloat), weight.to(at::kFloat), map);
  EXPECT_TRUE(at::allclose(single.to(at::kDouble), expected, 1e-4, 1e-4));
}

TEST_P(Convolution, OfBfloat16IsRoundedOnce) {
  const auto [size, in, out] = GetParam();
  at::manual_seed(1);
  const Cloud cloud = random_cloud({300, 1, 0, 150}, 9);
  const KernelMap map = kernel_map(cloud.keys, size);
  const Tensor x = at::randn({cloud.keys.size(0), in}).to(at::kBFloat16),
               weight = at::randn({out, size, size, size, in}).to(at::kBFloat16);
  const Tensor narrow = sparse_convolution(x, weight, map);
  EXPECT_EQ(narrow.scalar_type(), at::kBFloat16);
  const Tensor exact = dense(cloud, x.to(at::kDouble), weight.to(at::kDouble), 9);
  EXPECT_TRUE(at::allclose(narrow.to(at::kDouble), exact, 1.0 / 256, 1e-4));
}

INSTANTIATE_TEST_SUITE_P(Sizes, Convolution,
                         ::testing::Values(std::array<std::int64_t, 3>{3, 1, 1},
                                           std::array<std::int64_t, 3>{3, 7, 5},
                                           std::array<std::int64_t, 3>{3, 32, 40},
                                           std::array<std::int64_t, 3>{5, 4, 33},
                                           std::array<std::int64_t, 3>{1, 3, 2}));

TEST(SparseConvolution, HasItsGradients) {
  at::manual_seed(2);
  const Cloud cloud = random_cloud({20}, 4);
  const KernelMap map = kernel_map(cloud.keys, 3);
  const Tensor x = at::randn({cloud.keys.size(0), 2}, at::kDouble);
  const Tensor weight = at::randn({3, 3, 3, 3, 2}, at::kDouble);
  const auto f = [&](const std::vector<Tensor>& in) {
    return sparse_convolution(in[0], in[1], map).sin();
  };
  EXPECT_LT(testing::gradient_error(f, {x, weight}), 1e-7);
  EXPECT_LT(testing::second_gradient_error(f, {x, weight}), 1e-6);
}

TEST(SparseConvolution, SeesNothingBeyondAnEndOfTheGridOrAnotherCloud) {
  // Next to each other as numbers, not in space.
  const Tensor grid =
      at::tensor({0, 0, 65535, 0, 1, 0, 0, 65535, 5, 1, 0, 5, 65535, 3, 3, 0, 3, 3}, at::kLong)
          .view({6, 3});
  const Tensor keys = voxel_keys(grid, at::tensor({0, 5, 6}, at::kLong));
  EXPECT_EQ(kernel_map(keys, 3).pairs(), 6) << "each meets itself alone";
  EXPECT_EQ(kernel_map(keys, 5).pairs(), 6);
}

TEST(SparseConvolution, GivesTheSameBitsWhateverTheThreads) {
  at::manual_seed(3);
  const Cloud cloud = random_cloud({6000}, 30);
  const KernelMap map = kernel_map(cloud.keys, 3);
  Tensor x = at::randn({cloud.keys.size(0), 32}).requires_grad_();
  Tensor weight = at::randn({32, 3, 3, 3, 32}).requires_grad_();
  const int threads = at::get_num_threads();
  std::vector<Tensor> first;
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    const KernelMap here = kernel_map(cloud.keys, 3);
    EXPECT_TRUE(here.inputs.equal(map.inputs));
    const Tensor y = sparse_convolution(x, weight, here);
    auto all = torch::autograd::grad({y.square().sum()}, {x, weight});
    all.push_back(y);
    if (first.empty()) first = all;
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(all[i].equal(first[i])) << count;
  }
  at::set_num_threads(threads);
}

TEST(SparseConvolution, OfNothingIsNothing) {
  const KernelMap map = kernel_map(at::empty({0}, at::kLong), 3);
  Tensor weight = at::ones({2, 3, 3, 3, 4}).requires_grad_();
  const Tensor y = sparse_convolution(at::zeros({0, 4}), weight, map);
  EXPECT_EQ(y.sizes(), (std::vector<std::int64_t>{0, 2}));
  EXPECT_TRUE(torch::autograd::grad({y.sum()}, {weight})[0].eq(0).all().item<bool>());
}

TEST(SparseConvolution, RefusesKeysThatDoNotRise) {
  EXPECT_THROW(kernel_map(at::tensor({3, 3}, at::kLong), 3), ShapeError);
  EXPECT_THROW(kernel_map(at::tensor({3, 4}, at::kLong), 4), ShapeError);
  const KernelMap map = kernel_map(at::tensor({3, 4}, at::kLong), 3);
  EXPECT_THROW(sparse_convolution(at::zeros({2, 4}), at::zeros({2, 3, 3, 3, 5}), map), ShapeError);
}

}  // namespace
}  // namespace attnlab::sparse_convolution_test
