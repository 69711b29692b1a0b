// Linear maps of every size, with oneDNN's products where they are large enough, against float64.
#include "framework/nn/kernels/linear.h"

#include <gtest/gtest.h>

#include <cmath>

#include "framework/nn/kernels/large_product.h"
#include "framework/tensor/flop_counter.h"
#include "tests/support/like_double.h"

namespace attnlab::linear_test {
namespace {

Tensor plain(const std::vector<Tensor>& in) {
  return at::linear(in[0], in[1], in.size() > 2 ? in[2] : Tensor());
}
Tensor ours(const std::vector<Tensor>& in) {
  return attnlab::linear(in[0], in[1], in.size() > 2 ? in[2] : Tensor());
}

TEST(Linear, IsTheProductWithItsGradients) {
  at::manual_seed(1);
  // Below and above the size from which oneDNN serves.
  for (const std::vector<std::int64_t>& rows :
       {std::vector<std::int64_t>{3}, {2, 5}, {200}, {4, 50}, {2, 3, 40}}) {
    for (const auto& [in, out] : {std::pair{1, 1}, {7, 5}, {80, 96}, {128, 65}}) {
      std::vector<std::int64_t> sizes = rows;
      sizes.push_back(in);
      const Tensor x = at::randn(sizes), weight = at::randn({out, in}), bias = at::randn({out});
      testing::expect_like_double(ours, plain, {x, weight, bias}, 1e-5);
      testing::expect_like_double(ours, plain, {x, weight}, 1e-5);
    }
  }
}

// oneDNN's sgemm with alpha = 0 leaves what is not a number in place, by instruction set; ours
// has 1.
TEST(Linear, LargeProductsOverwriteWhatIsNoNumber) {
  if (!has_large_products()) GTEST_SKIP() << "built without oneDNN";
  for (const std::int64_t depth : {1, 3, 64}) {
    const Tensor a = at::randn({33, depth}), b = at::randn({depth, 17});
    const Tensor c = at::full({33, 17}, NAN), zero = at::full({33, 17}, NAN);
    large_product(dense_factor(a), dense_factor(b), c.data_ptr<float>(), 33, depth, 17);
    EXPECT_TRUE(at::allclose(c, at::mm(a, b), 1e-5, 1e-5)) << depth;
    large_product(dense_factor(at::zeros_like(a)), dense_factor(b), zero.data_ptr<float>(), 33,
                  depth, 17);
    EXPECT_TRUE(zero.eq(0).all().item<bool>()) << depth;
  }
}

TEST(Linear, GivesTheSameBitsEachTime) {
  at::manual_seed(9);
  for (const std::int64_t rows : {3, 700}) {
    testing::expect_the_same_bits_again(
        ours, {at::randn({rows, 128}), at::randn({65, 128}), at::randn({65})});
  }
}

TEST(Linear, AfterDataIsTheProductOfBoth) {
  at::manual_seed(4);
  for (const auto& [length, memory, in, out] :
       {std::tuple{40, 64, 128, 96}, {1, 300, 64, 64}, {3, 2, 5, 7}, {64, 1, 128, 65}}) {
    const Tensor before = at::randn({3, memory, in});
    const auto of = [&](const Tensor& data, const auto& map) {
      return [&map, data](const std::vector<Tensor>& inputs) {
        return map(data.to(inputs[0].dtype()), inputs);
      };
    };
    const auto plain_after = [](const Tensor& data, const std::vector<Tensor>& i) {
      return at::linear(at::cat({data, i[0]}, 1), i[1], i.size() > 2 ? i[2] : Tensor());
    };
    const auto ours_after = [](const Tensor& data, const std::vector<Tensor>& i) {
      return linear_after(data, i[0], i[1], i.size() > 2 ? i[2] : Tensor());
    };
    const Tensor x = at::randn({3, length, in}), weight = at::randn({out, in});
    testing::expect_like_double(of(before, ours_after), of(before, plain_after),
                                {x, weight, at::randn({out})}, 1e-5);
    testing::expect_like_double(of(before, ours_after), of(before, plain_after), {x, weight}, 1e-5);
  }
}

TEST(Linear, TakesWhatLiesInAnyOrder) {
  at::manual_seed(2);
  const Tensor x = at::randn({128, 200}).t(), weight = at::randn({128, 96}).t();
  const Tensor wanted = at::linear(x.to(at::kDouble), weight.to(at::kDouble));
  EXPECT_LT((attnlab::linear(x, weight, {}) - wanted).abs().max().item<double>(), 1e-4);
  const Tensor rows = at::randn({300, 128}).narrow(0, 50, 200);
  const Tensor part = at::randn({288, 128}).narrow(0, 96, 96);
  const Tensor expected = at::linear(rows.to(at::kDouble), part.to(at::kDouble));
  EXPECT_LT((attnlab::linear(rows, part, {}) - expected).abs().max().item<double>(), 1e-4);
}

TEST(Linear, GivesGradientsOnlyWhereTheyAreWanted) {
  const Tensor x = at::randn({200, 128}), bias = at::randn({96}).requires_grad_();
  const Tensor weight = at::randn({96, 128});
  attnlab::linear(x, weight, bias).sum().backward();
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(weight.grad().defined());
  EXPECT_LT((bias.grad() - 200).abs().max().item<double>(), 1e-3);
  EXPECT_FALSE(attnlab::linear(x, weight, {}).requires_grad());
}

TEST(Linear, GivesWhatMayBeWrittenTo) {
  at::manual_seed(3);
  const Tensor x = at::randn({2, 100, 128}), weight = at::randn({96, 128}).requires_grad_();
  attnlab::linear(x, weight, at::zeros({96})).relu_().sum().backward();
  const Tensor found = weight.grad().clone();
  weight.mutable_grad().zero_();
  at::linear(x, weight).relu().sum().backward();
  EXPECT_LT((found - weight.grad()).abs().max().item<double>(), 1e-3);
}

TEST(Linear, IsCountedOnce) {
  const Tensor x = at::randn({200, 128}).requires_grad_();
  const Tensor weight = at::randn({96, 128}).requires_grad_();
  FlopCounter counter;
  const Tensor y = attnlab::linear(x, weight, {});
  const std::int64_t forward = counter.total();
  y.sum().backward();
  EXPECT_EQ(counter.total(), 3 * forward);
  FlopCounter again;
  at::linear(x.detach(), weight.detach());
  EXPECT_EQ(again.total(), forward);
}

TEST(Linear, RefusesWhatDoesNotFitAsLibTorchDoes) {
  EXPECT_ANY_THROW(attnlab::linear(at::randn({200, 127}), at::randn({96, 128}), {}));
  EXPECT_ANY_THROW(attnlab::linear(at::randn({200, 128}), at::randn({96, 128}), at::randn({95})));
}

}  // namespace
}  // namespace attnlab::linear_test
