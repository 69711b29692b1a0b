// The kernel of an MLP against the same operations in float64.
#include "framework/nn/kernels/mlp.h"

#include "framework/nn/kernels/large_product.h"
#include "tests/support/like_double.h"

namespace attnlab::mlp_test {
namespace {

Tensor bias_of(const std::vector<Tensor>& in, std::size_t i) {
  return in.size() > 3 ? in[i] : Tensor();
}

/// x, U, D and the biases, where there are any.
Tensor plain(const std::vector<Tensor>& in, Activation activation) {
  const Tensor h = at::linear(in[0], in[1], bias_of(in, 3));
  return at::linear(activation == Activation::gelu ? at::gelu(h) : at::relu(h), in[2],
                    bias_of(in, 4));
}

/// The kernel, or the operations where attnlab was built without oneDNN's headers, as layers
/// choose.
Tensor ours(const std::vector<Tensor>& in, Activation activation) {
  const Tensor up_bias = bias_of(in, 3), down_bias = bias_of(in, 4);
  const MlpWeights weights{in[1], up_bias, in[2], down_bias};
  EXPECT_EQ(mlp_takes(in[0], weights), has_large_products());
  return mlp_takes(in[0], weights) ? mlp(in[0], weights, activation) : plain(in, activation);
}

TEST(MlpKernel, IsItsOperationsWithTheirGradients) {
  at::manual_seed(1);
  for (const Activation activation : {Activation::gelu, Activation::relu}) {
    for (const std::vector<std::int64_t>& sizes :
         {std::vector<std::int64_t>{300, 64}, {2, 700, 40}}) {
      const std::int64_t in = sizes.back();
      const Tensor x = at::randn(sizes), up = at::randn({96, in}) * 0.2;
      const Tensor down = at::randn({48, 96}) * 0.2;
      const auto of = [&](const auto& form) {
        return [&form, activation](const std::vector<Tensor>& i) { return form(i, activation); };
      };
      testing::expect_like_double(of(ours), of(plain), {x, up, down}, 1e-5);
      testing::expect_like_double(of(ours), of(plain),
                                  {x, up, down, at::randn({96}), at::randn({48})}, 1e-5);
    }
  }
}

TEST(MlpKernel, GivesTheSameBitsEachTime) {
  at::manual_seed(9);
  testing::expect_the_same_bits_again(
      [](const std::vector<Tensor>& in) { return ours(in, Activation::gelu); },
      {at::randn({700, 64}), at::randn({96, 64}), at::randn({48, 96}), at::randn({96}),
       at::randn({48})});
}

TEST(MlpKernel, GivesTheSameWithoutGradients) {
  at::manual_seed(2);
  const std::vector<Tensor> in = {at::randn({300, 64}), at::randn({96, 64}), at::randn({48, 96})};
  std::vector<Tensor> leaves;
  for (const Tensor& x : in) leaves.push_back(x.detach().requires_grad_());
  for (const Activation activation : {Activation::gelu, Activation::relu}) {
    EXPECT_TRUE(ours(in, activation).equal(ours(leaves, activation)));
  }
}

TEST(MlpKernel, LeavesSmallAndOtherTypesToOperations) {
  const Tensor none, up = at::randn({96, 64}), down = at::randn({48, 96});
  EXPECT_FALSE(mlp_takes(at::randn({3, 64}), {up, none, down, none}));
  EXPECT_FALSE(mlp_takes(at::randn({300, 64}, at::kDouble), {up, none, down, none}));
  EXPECT_FALSE(mlp_takes(at::randn({300, 64}), {up.to(at::kDouble), none, down, none}));
}

}  // namespace
}  // namespace attnlab::mlp_test
