// Dropout by hashes: its distribution, its gradient, its dependence on the seed alone.
#include "framework/nn/kernels/dropout.h"

#include <ATen/Context.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <utility>
#include <vector>

#include "tests/support/data_files.h"

namespace attnlab::dropout_test {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

/// 1 where a number of ones(sizes) was kept.
Tensor kept(at::IntArrayRef sizes, double p, std::uint64_t seed) {
  at::manual_seed(seed);
  return dropout(at::ones(sizes), p).ne(0).to(at::kDouble);
}

TEST(Dropout, DropsTheShareThatItIsTold) {
  for (const double p : {0.01, 0.1, 0.5, 0.9}) {
    const std::int64_t count = 1'000'003;
    const double share = 1 - kept({count}, p, 1).mean().item<double>();
    EXPECT_NEAR(share, p, 5 * std::sqrt(p * (1 - p) / double(count))) << p;
  }
}

TEST(Dropout, KeepsTheMeanAndChangesNothingElse) {
  at::manual_seed(2);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const Tensor x = at::randn({37, 1001}, dtype);
    const Tensor y = dropout(x, 0.25);
    const Tensor same = (y - x / 0.75).abs() <= 1e-6 * x.abs();
    EXPECT_TRUE(same.logical_or(y == 0).all().item<bool>());
  }
}

// Neighbours, rows, chunks and successive calls: no two masks have anything to do with each other.
TEST(Dropout, DropsIndependently) {
  const std::int64_t n = 1 << 20;
  const double p = 0.3, bound = 5 / std::sqrt(double(n));
  at::manual_seed(3);
  const auto centred = [&](const Tensor& y) {
    return (y.ne(0).to(at::kDouble) - (1 - p)) / std::sqrt(p * (1 - p));
  };
  const Tensor a = centred(dropout(at::ones({n}), p)), b = centred(dropout(at::ones({n}), p));
  EXPECT_LT(std::abs((a * b).mean().item<double>()), bound);
  for (const std::int64_t lag : {1, 2, 3, 8, 16, 30, 64, 128, 256, 1024, 16384, 32768}) {
    const double correlation =
        (a.narrow(0, 0, n - lag) * a.narrow(0, lag, n - lag)).mean().item<double>();
    EXPECT_LT(std::abs(correlation), bound * 1.05) << lag;
  }
  // Counts in blocks of 64 vary as binomial ones do.
  const Tensor blocks = (a * std::sqrt(p * (1 - p)) + (1 - p)).view({-1, 64}).sum(1);
  EXPECT_NEAR(blocks.var().item<double>() / (64 * p * (1 - p)), 1, 5 * std::sqrt(2.0 * 64 / n));
}

TEST(Dropout, FollowsTheSeedAndNotTheThreads) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const Tensor one = kept({300, 401}, 0.2, 7);
  at::set_num_threads(3);
  const Tensor three = kept({300, 401}, 0.2, 7);
  at::set_num_threads(threads);
  EXPECT_TRUE(one.equal(three));
  EXPECT_FALSE(one.equal(kept({300, 401}, 0.2, 8)));
}

TEST(Dropout, DropsGradientsWithTheSameMask) {
  at::manual_seed(4);
  const Tensor x = at::randn({50, 70}, at::kDouble).set_requires_grad(true);
  const Tensor y = dropout(x, 0.4);
  const Tensor weight = at::randn({70, 50}, at::kDouble).t();  // a gradient that lies transposed
  (y * weight).sum().backward();
  const Tensor mask = y.detach().ne(0).to(at::kDouble) / 0.6;
  EXPECT_TRUE(x.grad().allclose(weight * mask, 1e-12, 1e-12));
}

TEST(Dropout, HasSecondDerivatives) {
  at::manual_seed(5);
  const Tensor x = at::randn({200}, at::kDouble).set_requires_grad(true);
  const Tensor y = dropout(x, 0.5);
  const Tensor first =
      torch::autograd::grad({y.pow(3).sum()}, {x}, {}, /*retain_graph=*/true, true)[0];
  const Tensor second = torch::autograd::grad({first.sum()}, {x})[0];
  const Tensor mask = y.detach().ne(0).to(at::kDouble) * 2;
  EXPECT_TRUE(second.allclose(6 * x.detach() * mask.pow(3), 1e-10, 1e-10));
}

TEST(Dropout, LeavesStridedInputsAndTheirShapeAlone) {
  at::manual_seed(6);
  const Tensor base = at::randn({4, 6, 5});
  const Tensor before = base.clone();
  const Tensor y = dropout(base.transpose(0, 2), 0.5);
  EXPECT_EQ(y.sizes(), (std::vector<std::int64_t>{5, 6, 4}));
  EXPECT_TRUE(base.equal(before));
  const Tensor x = base.transpose(0, 2);
  EXPECT_TRUE((y == 0).logical_or((y - 2 * x).abs() < 1e-6).all().item<bool>());
}

// What kernels that fold dropout in rely on: pieces of any place and length, over chunks of 16384.
TEST(Dropout, DropsAPieceAsItDropsTheWhole) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const Tensor x = at::randn({50'000}, dtype);
    at::manual_seed(8);
    const Tensor whole = dropout(x, 0.3);
    at::manual_seed(8);
    const DropoutMask mask = draw_dropout(0.3);
    AT_DISPATCH_FLOATING_TYPES(dtype, "pieces", [&] {
      for (const auto& [first, count] : std::vector<std::pair<std::int64_t, std::int64_t>>{
               {0, 50'000}, {0, 1}, {16'383, 2}, {16'384, 16'384}, {12'345, 37'000}, {7, 0}}) {
        Tensor piece = at::full({count + 1}, 9, dtype), factors = piece.clone();
        drop_piece(x.data_ptr<scalar_t>() + first, piece.data_ptr<scalar_t>(), first, count, mask);
        dropout_factors(factors.data_ptr<scalar_t>(), first, count, mask);
        const Tensor expected = whole.narrow(0, first, count);
        EXPECT_TRUE(piece.narrow(0, 0, count).equal(expected)) << first << ", " << count;
        EXPECT_TRUE((x.narrow(0, first, count) * factors.narrow(0, 0, count)).equal(expected));
        EXPECT_EQ(piece[count].item<double>(), 9) << "beyond the piece";
        EXPECT_EQ(factors[count].item<double>(), 9) << "beyond the piece";
      }
    });
  }
}

TEST(Dropout, DrawsNothingForProbabilityZero) {
  at::manual_seed(9);
  const Tensor expected = at::rand({3});
  at::manual_seed(9);
  EXPECT_EQ(draw_dropout(0).p, 0);
  EXPECT_TRUE(at::rand({3}).equal(expected));
}

TEST(Dropout, DoesNothingWithProbabilityZeroAndRefusesWhatIsNone) {
  const Tensor x = at::randn({5});
  EXPECT_TRUE(dropout(x, 0).is_same(x));
  for (const double p : {-0.1, 1.0, std::nan("")}) {
    EXPECT_THAT(message_of<ShapeError>([&] { dropout(x, p); }), HasSubstr("[0, 1)"));
    EXPECT_THAT(message_of<ShapeError>([&] { draw_dropout(p); }), HasSubstr("[0, 1)"));
  }
}

}  // namespace
}  // namespace attnlab::dropout_test
