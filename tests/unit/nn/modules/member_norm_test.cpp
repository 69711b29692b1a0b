// Layer normalisation of members against what each member computes alone.
#include "framework/nn/modules/member_norm.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "tests/support/data_files.h"
#include "tests/support/gradcheck.h"
#include "tests/support/like_double.h"
#include "tests/support/naive_attention.h"

namespace attnlab::member_norm_test {
namespace {

using attnlab::testing::mentions;
using testing::largest_difference;
using testing::message_of;

constexpr std::int64_t kMembers = 3;
constexpr double kEps = 1e-5;

/// x, weight and bias.
std::vector<Tensor> leaves_of(at::IntArrayRef sizes, at::ScalarType dtype) {
  const auto leaf = [&](at::IntArrayRef shape) {
    return (at::randn(shape, at::TensorOptions().dtype(dtype)) * 2 + 1).requires_grad_();
  };
  return {leaf(sizes), leaf({kMembers * sizes.back()}), leaf({kMembers * sizes.back()})};
}

/// Each member's own normalisation, in float64.
Tensor one_by_one(const std::vector<Tensor>& given) {
  std::vector<std::vector<Tensor>> parts;
  for (const Tensor& t : given) parts.push_back(t.to(at::kDouble).chunk(kMembers));
  std::vector<Tensor> all;
  for (std::size_t m = 0; m < std::size_t(kMembers); ++m) {
    all.push_back(at::layer_norm(parts[0][m], {given[0].size(-1)}, parts[1][m], parts[2][m], kEps));
  }
  return at::cat(all);
}

TEST(MemberNorm, IsEachMembersOwnNormalisation) {
  at::manual_seed(1);
  const std::vector<std::vector<std::int64_t>> shapes = {{6, 5, 20},    {3, 1},  {9, 7},
                                                         {6, 2, 2, 33}, {3, 16}, {3, 40, 128}};
  for (const auto& sizes : shapes) {
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
      const double tolerance = dtype == at::kFloat ? 2e-5 : 1e-11;
      const auto leaves = leaves_of(sizes, dtype);
      const Tensor y = member_layer_norm(leaves[0], leaves[1], leaves[2], kEps, kMembers);
      const Tensor expected = one_by_one(leaves);
      EXPECT_EQ(y.scalar_type(), dtype);
      EXPECT_LT(largest_difference(y, expected), tolerance) << y.sizes();
      const Tensor probe = testing::probe_like(expected);
      const auto found = torch::autograd::grad({(y.to(at::kDouble) * probe).sum()}, leaves);
      const auto wanted = torch::autograd::grad({(expected * probe).sum()}, leaves);
      for (std::size_t n = 0; n < found.size(); ++n) {
        const double size = std::max(1.0, wanted[n].abs().max().item<double>());
        EXPECT_LT(largest_difference(found[n], wanted[n]) / size, 3 * tolerance)
            << y.sizes() << ", gradient " << n;
      }
    }
  }
}

TEST(MemberNorm, TakesInputsThatLieInAnyOrder) {
  at::manual_seed(2);
  auto leaves = leaves_of({6, 5, 20}, at::kFloat);
  leaves[0] = at::randn({6, 20, 5}).transpose(1, 2);
  EXPECT_LT(largest_difference(member_layer_norm(leaves[0], leaves[1], leaves[2], kEps, kMembers),
                               one_by_one(leaves)),
            2e-5);
}

TEST(MemberNorm, IsDifferentiableTwiceInSinglePrecision) {
  at::manual_seed(3);
  const auto second = [](const std::vector<Tensor>& leaves, const Tensor& y) {
    const Tensor probe = testing::probe_like(y.detach());
    const auto first = torch::autograd::grad({(y * probe).sum()}, leaves, {}, true, true);
    Tensor sum = at::zeros({}, y.options());
    for (const Tensor& g : first) sum = sum + (g * testing::probe_like(g.detach())).sum();
    return torch::autograd::grad({sum}, {leaves[0], leaves[1]});
  };
  const auto leaves = leaves_of({6, 4, 9}, at::kFloat);
  std::vector<Tensor> wide;
  for (const Tensor& leaf : leaves) {
    wide.push_back(leaf.detach().to(at::kDouble).requires_grad_());
  }
  const auto found =
      second(leaves, member_layer_norm(leaves[0], leaves[1], leaves[2], kEps, kMembers));
  const auto expected = second(wide, one_by_one(wide));
  for (std::size_t n = 0; n < found.size(); ++n) {
    const double size = std::max(1.0, expected[n].abs().max().item<double>());
    EXPECT_LT(largest_difference(found[n], expected[n]) / size, 1e-4) << n;
  }
}

TEST(MemberNorm, OfOneModelIsLayerNormWithOrWithoutBias) {
  at::manual_seed(4);
  for (const std::int64_t rows : {1, 5, 256, 257, 600}) {
    for (const std::int64_t dim : {1, 3, 16, 33, 128}) {
      const Tensor x = at::randn({rows, dim}) * 2 + 1, weight = at::randn({dim});
      const Tensor bias = at::randn({dim});
      const double tolerance = dim == 1 ? 1e-3 : 2e-4;  // alone, a number is its own mean
      testing::expect_like_double(
          [](const std::vector<Tensor>& in) {
            return member_layer_norm(in[0], in[1], in[2], kEps, 1);
          },
          [&](const std::vector<Tensor>& in) {
            return at::layer_norm(in[0], {dim}, in[1], in[2], kEps);
          },
          {x, weight, bias}, tolerance);
      testing::expect_like_double(
          [](const std::vector<Tensor>& in) {
            return member_layer_norm(in[0], in[1], {}, kEps, 1);
          },
          [&](const std::vector<Tensor>& in) {
            return at::layer_norm(in[0], {dim}, in[1], {}, kEps);
          },
          {x, weight}, tolerance);
    }
  }
}

/// x / root mean square, each member's own, in float64 where the input is.
Tensor rms_by_members(const std::vector<Tensor>& in, std::int64_t members) {
  const Tensor rows = in[0].reshape({members, -1, in[0].size(-1)});
  const Tensor mean = (rows * rows).sum(-1, true) / double(in[0].size(-1));
  return (rows / (mean + kEps).sqrt() * in[1].reshape({members, 1, -1})).view(in[0].sizes());
}

TEST(MemberNorm, OfRmsTakesNoMeanAway) {
  at::manual_seed(14);
  for (const std::int64_t members : {1, 3}) {
    for (const std::int64_t dim : {3, 7, 16, 40}) {
      const Tensor x = at::randn({3, 90, dim}) * 2 + 1, weight = at::randn({members * dim});
      testing::expect_like_double(
          [&](const std::vector<Tensor>& in) {
            return member_layer_norm(in[0], in[1], {}, kEps, members, NormKind::rms);
          },
          [&](const std::vector<Tensor>& in) { return rms_by_members(in, members); }, {x, weight},
          3e-4);
    }
  }
  // Elsewhere it is composed of operations.
  const Tensor x = at::randn({6, 5}, at::kDouble), weight = at::randn({15}, at::kDouble);
  EXPECT_LT(largest_difference(member_layer_norm(x, weight, {}, kEps, 3, NormKind::rms),
                               rms_by_members({x, weight}, 3)),
            1e-12);
}

TEST(MemberNorm, OfRmsAddsFirstInTheSamePass) {
  at::manual_seed(15);
  const Tensor x = at::randn({2, 150, 20}), y = at::randn({2, 150, 20}), weight = at::randn({20});
  const auto weighed = [](const SumAndNorm& both) { return both.sum * 0.3 + both.norm; };
  testing::expect_like_double(
      [&](const std::vector<Tensor>& in) {
        return weighed(add_layer_norm(in[0], in[1], in[2], {}, kEps, NormKind::rms));
      },
      [&](const std::vector<Tensor>& in) {
        const Tensor sum = in[0] + in[1];
        return weighed({sum, rms_by_members({sum, in[2]}, 1)});
      },
      {x, y, weight}, 3e-4);
}

// PyTorch has -1.34149 and +1.34178 of the first, and by instruction set.
TEST(MemberNorm, FarFromZeroIsTheMirrorImageOfItself) {
  for (const std::int64_t dim : {2, 4, 7, 16, 33, 128}) {
    // Sums and their parts are whole numbers below 2^24, so that nothing is rounded.
    const Tensor away = 2 * at::arange(dim, at::kFloat) - float(dim - 1);
    const Tensor expected = away / std::sqrt(double(dim * dim - 1) / 3 + kEps);
    for (const float middle : {0.F, 1000.F, 10001.F, -65000.F}) {
      const Tensor y = member_layer_norm(middle + away, at::ones({dim}), {}, kEps, 1);
      EXPECT_TRUE(y.equal(-y.flip(0))) << dim << " around " << middle << ": " << y;
      EXPECT_TRUE(at::allclose(y, expected, 1e-6, 0)) << dim << " around " << middle << ": " << y;
    }
  }
}

TEST(MemberNorm, TakesRowsThatDoNotLieDense) {
  at::manual_seed(6);
  const auto plain = [](const std::vector<Tensor>& in) {
    return at::layer_norm(in[0], {16}, in[1], {}, kEps);
  };
  const auto ours = [](const std::vector<Tensor>& in) {
    return member_layer_norm(in[0], in[1], {}, kEps, 1);
  };
  testing::expect_like_double(ours, plain, {at::randn({16, 20}).t(), at::randn({16})}, 2e-4);
}

TEST(MemberNorm, AddsFirstInTheSamePass) {
  at::manual_seed(5);
  const auto weighed = [](const SumAndNorm& both) { return both.sum * 0.3 + both.norm; };
  for (const std::int64_t dim : {3, 32, 50}) {
    const Tensor x = at::randn({2, 300, dim}), y = at::randn({2, 300, dim});
    const Tensor weight = at::randn({dim}), bias = at::randn({dim});
    const auto plain = [&](const std::vector<Tensor>& in) {
      const Tensor sum = in[0] + in[1];
      return SumAndNorm{sum, at::layer_norm(sum, {dim}, in[2], in[3], kEps)};
    };
    const auto ours = [](const std::vector<Tensor>& in) {
      return add_layer_norm(in[0], in[1], in[2], in[3], kEps);
    };
    // Both results, one alone, the other alone.
    testing::expect_like_double([&](const auto& in) { return weighed(ours(in)); },
                                [&](const auto& in) { return weighed(plain(in)); },
                                {x, y, weight, bias}, 3e-4);
    testing::expect_like_double([&](const auto& in) { return ours(in).norm; },
                                [&](const auto& in) { return plain(in).norm; },
                                {x, y, weight, bias}, 3e-4);
    const Tensor leaf = x.detach().requires_grad_();
    ours({leaf, y, weight, bias}).sum.sum().backward();
    EXPECT_TRUE(leaf.grad().equal(at::ones_like(x)));
  }
}

TEST(MemberNorm, HasTheSameNumbersForAnyNumberOfThreads) {
  const Tensor x = at::randn({5000, 32}), weight = at::randn({32}), bias = at::randn({32});
  std::vector<std::vector<Tensor>> found;
  for (const int threads : {1, 2}) {
    const int before = at::get_num_threads();
    at::set_num_threads(threads);
    const std::vector<Tensor> leaves = {x.detach().requires_grad_(),
                                        weight.detach().requires_grad_(),
                                        bias.detach().requires_grad_()};
    const Tensor y = member_layer_norm(leaves[0], leaves[1], leaves[2], kEps, 1);
    found.push_back(torch::autograd::grad({y.square().sum()}, leaves));
    found.back().push_back(y);
    at::set_num_threads(before);
  }
  for (std::size_t i = 0; i < found[0].size(); ++i) EXPECT_TRUE(found[0][i].equal(found[1][i]));
}

TEST(MemberNorm, RefusesParametersOfAnotherNumberOfMembers) {
  EXPECT_THAT(message_of<ShapeError>([] {
                member_layer_norm(at::randn({6, 4}), at::ones({8}), at::ones({8}), kEps, kMembers);
              }),
              mentions("layer norm", "3 members", "[12]"));
}

}  // namespace
}  // namespace attnlab::member_norm_test
