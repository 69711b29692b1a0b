// Products in bfloat16 and float16: factors and results are rounded, nothing else is. The processor
// need not have them.
#include "framework/nn/kernels/precision.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>

#include "framework/nn/kernels/gelu.h"
#include "framework/nn/kernels/large_product.h"
#include "framework/nn/kernels/linear.h"
#include "framework/nn/kernels/mlp.h"
#include "framework/nn/modules/linear_nll.h"
#include "framework/nn/modules/member_norm.h"
#include "framework/nn/modules/members.h"
#include "tests/support/product_precision.h"

namespace attnlab::precision_test {
namespace {

class InBfloat16 : public ::testing::Test {
 protected:
  InBfloat16() { at::manual_seed(1); }

 private:
  testing::ProductPrecision narrow_{Precision::bfloat16};
};

Tensor rounded(const Tensor& x) { return x.to(at::kBFloat16).to(x.scalar_type()); }

double distance(const Tensor& a, const Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

/// Half a unit in the last of 8 bits.
constexpr double kRounding = 1.0 / 256;

TEST_F(InBfloat16, FactorsAndResultAreRoundedAndNothingElse) {
  // Small ones, and those that the processor's own units compute where it has them.
  for (const std::int64_t rows : {4, 140}) {
    const Tensor a = at::randn({3, rows, 300}), b = at::randn({300, 50});
    const Tensor found = product(a, b);
    EXPECT_EQ(found.scalar_type(), at::kFloat);
    const Tensor exact = at::matmul(rounded(a).to(at::kDouble), rounded(b).to(at::kDouble));
    // Half a unit of the last of 8 bits. With sums in bfloat16 300 terms would be off by more.
    EXPECT_LT(((found - exact).abs() / (exact.abs() + 1e-2)).max().item<double>(), 1.01 / 256);
    EXPECT_GT(distance(found, at::matmul(a, b)), 1e-4) << "it was float32";
  }
  use_product_precision(Precision::float32);
  const Tensor a = at::randn({40, 70}), b = at::randn({70, 50});
  EXPECT_TRUE(product(a, b).equal(at::matmul(a, b)));
  EXPECT_FALSE(rounds_products(a));
}

TEST_F(InBfloat16, OtherDtypesAreLeftAlone) {
  const Tensor a = at::randn({4, 6}, at::kDouble), b = at::randn({6, 5}, at::kDouble);
  EXPECT_TRUE(product(a, b).equal(at::matmul(a, b)));
  EXPECT_TRUE(attnlab::linear(a, b.t(), {}).equal(at::linear(a, b.t())));
}

TEST_F(InBfloat16, LinearMapsAddTheirBiasInFloat32) {
  // Small ones, and those that oneDNN would serve.
  for (const std::int64_t rows : {3, 300}) {
    const Tensor x = at::randn({rows, 64}), weight = at::randn({96, 64});
    const Tensor bias = at::full({96}, 1000.F + 1.F / 64);
    const Tensor y = attnlab::linear(x, weight, bias);
    EXPECT_LT(distance(y - bias, at::linear(x, weight)), 0.01);  // a rounded bias is off by 4
  }
}

TEST_F(InBfloat16, GradientsAreFloat32AndNear) {
  const auto gradients = [](Precision precision, const std::vector<Tensor>& values) {
    use_product_precision(precision);
    std::vector<Tensor> in;
    for (const Tensor& value : values) in.push_back(value.detach().requires_grad_());
    const Tensor y = attnlab::linear(at::gelu(attnlab::linear(in[0], in[1], in[2])), in[3], {});
    y.mul(in[4]).sum().backward();
    std::vector<Tensor> out;
    for (std::size_t i = 0; i < 4; ++i) out.push_back(in[i].grad());
    return out;
  };
  const std::vector<Tensor> in = {at::randn({200, 64}), at::randn({128, 64}) / 8, at::randn({128}),
                                  at::randn({64, 128}) / 11, at::randn({200, 64})};
  const auto narrow = gradients(Precision::bfloat16, in), wide = gradients(Precision::float32, in);
  for (std::size_t i = 0; i < narrow.size(); ++i) {
    EXPECT_EQ(narrow[i].scalar_type(), at::kFloat);
    EXPECT_LT(distance(narrow[i], wide[i]), 2 * kRounding) << i;
    EXPECT_FALSE(narrow[i].equal(wide[i])) << i;
  }
}

/// What mlp() is made of, as operations one by one.
Tensor composed_mlp(const Tensor& x, const MlpWeights& w, Activation activation) {
  const Tensor h = product(x, w.up.t()) + w.up_bias;
  const Tensor g = activation == Activation::gelu ? at::gelu(h) : at::relu(h);
  return product(g, w.down.t()) + w.down_bias;
}

TEST_F(InBfloat16, AnMlpRoundsWhatItsPartsRound) {
  if (!has_bfloat16_products(at::kCPU)) GTEST_SKIP() << "the processor has no such products";
  for (const Activation activation : {Activation::gelu, Activation::relu}) {
    std::vector<std::vector<Tensor>> found;
    for (const bool whole : {true, false}) {
      at::manual_seed(3);
      std::vector<Tensor> in = {at::randn({300, 64}), at::randn({256, 64}) / 8, at::randn({256}),
                                at::randn({64, 256}) / 16, at::randn({64})};
      for (Tensor& t : in) t.requires_grad_();
      const MlpWeights weights{in[1], in[2], in[3], in[4]};
      ASSERT_TRUE(mlp_takes(in[0], weights));
      const Tensor y =
          whole ? mlp(in[0], weights, activation) : composed_mlp(in[0], weights, activation);
      if (whole) {
        const at::NoGradGuard none;
        EXPECT_TRUE(mlp(in[0], weights, activation).equal(y)) << "without gradients";
      }
      const Tensor dy = at::randn({300, 64});
      auto first = torch::autograd::grad({y}, in, {dy}, true, true);
      Tensor sum;
      for (const Tensor& g : first) sum = sum.defined() ? sum + g.square().sum() : g.square().sum();
      const auto second = torch::autograd::grad({sum}, in, {}, true, false, true);
      // The passes without a graph are the kernel's own.
      const Tensor other =
          whole ? mlp(in[0], weights, activation) : composed_mlp(in[0], weights, activation);
      std::vector<Tensor> all = torch::autograd::grad({other}, in, {dy});
      all.push_back(other.detach());
      for (const Tensor& g : first) all.push_back(g.detach());
      for (const Tensor& g : second) all.push_back(g.defined() ? g : at::zeros({1}));
      found.push_back(all);
    }
    for (std::size_t i = 0; i < found[0].size(); ++i) {
      EXPECT_EQ(found[0][i].scalar_type(), at::kFloat);
      if (found[1][i].norm().item<double>() == 0) continue;
      // From 11 on second gradients, whose sums in other orders are rounded several times.
      EXPECT_LT(distance(found[0][i], found[1][i]), i < 11 ? 1e-3 : 2 * kRounding) << i;
    }
  }
}

TEST_F(InBfloat16, ALinearMapRoundsWhatAProductRounds) {
  std::vector<std::vector<Tensor>> found;
  for (const bool whole : {true, false}) {
    at::manual_seed(4);
    std::vector<Tensor> in = {at::randn({3, 100, 64}), at::randn({256, 64}) / 8, at::randn({256})};
    for (Tensor& t : in) t.requires_grad_();
    const auto map = [&] {
      return whole ? attnlab::linear(in[0], in[1], in[2]) : product(in[0], in[1].t()) + in[2];
    };
    const Tensor dy = at::randn({3, 100, 256});
    std::vector<Tensor> all = torch::autograd::grad({map().square()}, in, {dy}, true, true);
    for (const Tensor& g : torch::autograd::grad({all[1].square().sum()}, in)) all.push_back(g);
    for (const Tensor& g : torch::autograd::grad({map()}, in, {dy})) all.push_back(g);
    all.push_back(map().detach());
    found.push_back(all);
  }
  for (std::size_t i = 0; i < found[0].size(); ++i) {
    const bool second = i >= 3 && i < 6;
    EXPECT_LT(distance(found[0][i], found[1][i]), second ? 2 * kRounding : 1e-3) << i;
  }
}

TEST_F(InBfloat16, KernelsOfFloat32LeaveTheirProductsToIt) {
  const Tensor x = at::randn({300, 64}), up = at::randn({256, 64}), down = at::randn({64, 256});
  EXPECT_EQ(mlp_takes(x, {up, {}, down, {}}), has_bfloat16_products(at::kCPU));
  use_product_precision(Precision::float32);
  EXPECT_EQ(mlp_takes(x, {up, {}, down, {}}), has_large_products());
  use_product_precision(Precision::bfloat16);
  // An ensemble of two.
  const Tensor weight = at::randn({2 * 8, 4}), bias = at::randn({2 * 8}), in = at::randn({6, 5, 4});
  const Tensor y = member_linear(in, weight, bias, 2);
  for (const std::int64_t e : {0, 1}) {
    const Tensor one = attnlab::linear(in.narrow(0, 3 * e, 3), weight.narrow(0, 8 * e, 8),
                                       bias.narrow(0, 8 * e, 8));
    EXPECT_LT(distance(y.narrow(0, 3 * e, 3), one), 1e-3);
  }
}

TEST_F(InBfloat16, TheLossOfManyClassesInChunksIsThatOfAll) {
  const Tensor targets = at::randint(0, 30000, {300});
  std::vector<Tensor> found;
  for (const bool chunks : {true, false}) {
    at::manual_seed(2);
    const Tensor x = at::randn({300, 16}).requires_grad_();
    const Tensor weight = (at::randn({30000, 16}) / 4).requires_grad_();
    const Tensor nll = chunks ? linear_nll(x, weight, {}, targets)
                              : -attnlab::linear(x, weight, {})
                                     .log_softmax(1)
                                     .gather(1, targets.unsqueeze(1))
                                     .squeeze(1);
    nll.sum().backward();
    for (const Tensor& t : {nll.detach(), x.grad(), weight.grad()}) found.push_back(t);
  }
  EXPECT_LT(distance(found[0], found[3]), 1e-3);
  EXPECT_LT(distance(found[1], found[4]), 2 * kRounding);
  EXPECT_LT(distance(found[2], found[5]), 2 * kRounding);
}

TEST_F(InBfloat16, NamesAreThoseOfTheOption) {
  EXPECT_EQ(name_of(Precision::float32), "float32");
  EXPECT_EQ(name_of(Precision::tf32), "tf32");
  EXPECT_EQ(name_of(product_precision()), "bfloat16");
}

class InFloat16 : public ::testing::Test {
 protected:
  InFloat16() { at::manual_seed(1); }

 private:
  testing::ProductPrecision narrow_{Precision::float16};
};

Tensor in_half(const Tensor& x) { return x.to(at::kHalf).to(x.scalar_type()); }

TEST_F(InFloat16, FactorsResultAndGradientsAreRounded) {
  EXPECT_EQ(name_of(product_precision()), "float16");
  const Tensor a = at::randn({140, 300}).requires_grad_(), b = at::randn({300, 50});
  const Tensor y = product(a, b), dy = at::randn({140, 50});
  EXPECT_EQ(y.scalar_type(), at::kFloat);
  const Tensor exact = at::matmul(in_half(a.detach()).to(at::kDouble), in_half(b).to(at::kDouble));
  EXPECT_LT(((y - exact).abs() / (exact.abs() + 1e-2)).max().item<double>(), 1.01 / 2048);
  EXPECT_TRUE(y.equal(in_half(y)));
  EXPECT_FALSE(y.equal(at::matmul(a, b)));
  y.backward(dy);
  const Tensor da = at::matmul(in_half(dy), in_half(b).t());
  EXPECT_LT(distance(a.grad(), da), 1.0 / 2048);
  EXPECT_TRUE(a.grad().equal(in_half(a.grad())));
}

TEST_F(InFloat16, LargeProductsAreInfiniteAndSmallGradientsZero) {
  const Tensor a = at::full({4, 100}, 30.0).requires_grad_(), b = at::full({100, 3}, 30.0);
  EXPECT_TRUE(product(a, b).isinf().all().item<bool>());  // 90,000
  EXPECT_TRUE(product(a * 0.5, b).eq(45000 - 45000 % 32).all().item<bool>());
  product(a, b * 0.01).backward(at::full({4, 3}, 1e-8));
  EXPECT_TRUE(a.grad().eq(0).all().item<bool>());
}

TEST_F(InFloat16, LinearMapsAndMlpsAreMadeOfProducts) {
  const Tensor x = at::randn({300, 64}), up = at::randn({256, 64}) / 8, down = at::randn({64, 256});
  const Tensor bias = at::randn({256});
  EXPECT_FALSE(mlp_takes(x, {up, {}, down, {}}));
  EXPECT_TRUE(attnlab::linear(x, up, bias).equal(product(x, up.t()) + bias));
  EXPECT_TRUE(rounds_products(x));
  EXPECT_FALSE(rounds_to_bfloat16(x));
  EXPECT_FALSE(rounds_products(x.to(at::kDouble)));
}

/// Tensors that are of 16 bits themselves.
class NarrowTensors : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  NarrowTensors() { at::manual_seed(1); }
};

std::vector<Tensor> wide_leaves(const std::vector<Tensor>& narrow) {
  std::vector<Tensor> all;
  for (const Tensor& x : narrow) all.push_back(x.detach().to(at::kDouble).requires_grad_());
  return all;
}

using Map = std::function<Tensor(const std::vector<Tensor>&)>;

/// What `narrow` gives, and its gradients, are those of `exact` in float64, rounded once.
void expect_rounded_once(const Map& narrow, const Map& exact, std::vector<Tensor> in) {
  for (Tensor& x : in) x.requires_grad_();
  const std::vector<Tensor> leaves = wide_leaves(in);
  const Tensor y = narrow(in), expected = exact(leaves);
  const Tensor dy = at::randn(y.sizes()).to(y.scalar_type());
  std::vector<Tensor> found = torch::autograd::grad({y}, in, {dy}),
                      wanted = torch::autograd::grad({expected}, leaves, {dy.to(at::kDouble)});
  found.push_back(y), wanted.push_back(expected);
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].scalar_type(), in[0].scalar_type());
    const double bits = in[0].scalar_type() == at::kHalf ? 2048 : 256;
    const Tensor off = (found[i].to(at::kDouble) - wanted[i]).abs();
    const Tensor allowed = wanted[i].abs() / bits + 1e-4;
    EXPECT_TRUE(off.le(allowed).all().item<bool>()) << i << ": " << (off / allowed).max();
  }
}

TEST_P(NarrowTensors, AddUpInFloat32HoweverTheyLieAndHoweverFew) {
  // 1000 ones are 256 in 8 bits, and 3000 are 2048 in 11.
  for (const std::int64_t depth : {1000, 3000}) {
    for (const std::int64_t rows : {1, 2, 60}) {
      for (const std::int64_t columns : {1, 2, 60}) {
        const Tensor a = at::ones({rows, depth}, GetParam()),
                     b = at::ones({depth, columns}, GetParam());
        const double sum = at::full({}, depth, GetParam()).item<double>();
        for (const Tensor& left : {a, a.t().contiguous().t()}) {
          for (const Tensor& right : {b, b.t().contiguous().t()}) {
            const Tensor y = product(left, right);
            EXPECT_EQ(y.scalar_type(), GetParam());
            EXPECT_TRUE(y.eq(sum).all().item<bool>()) << rows << " " << depth << " " << columns;
            EXPECT_TRUE(attnlab::linear(left, right.t(), {}).equal(y));
          }
        }
        EXPECT_TRUE(product(a.expand({3, rows, depth}), b).eq(sum).all().item<bool>());
        EXPECT_TRUE(member_linear(a.repeat({2, 1}), b.t().repeat({2, 1}), {}, 2)
                        .eq(sum)
                        .all()
                        .item<bool>());
      }
    }
    const Tensor row = at::ones({depth}, GetParam());
    EXPECT_EQ(product(row, row).item<double>(), at::full({}, depth, GetParam()).item<double>());
  }
}

TEST_P(NarrowTensors, AreRoundedOnceWithTheirGradients) {
  const auto drawn = [&](at::IntArrayRef sizes) { return at::randn(sizes).to(GetParam()); };
  for (const std::int64_t rows : {1, 5, 100}) {
    const std::vector<Tensor> in = {drawn({rows, 400}), drawn({60, 400}), drawn({60})};
    expect_rounded_once(
        [](const std::vector<Tensor>& x) { return attnlab::linear(x[0], x[1], x[2]); },
        [](const std::vector<Tensor>& x) { return at::linear(x[0], x[1], x[2]); }, in);
    expect_rounded_once([](const std::vector<Tensor>& x) { return product(x[0], x[1].t()); },
                        [](const std::vector<Tensor>& x) { return at::matmul(x[0], x[1].t()); },
                        {in[0], in[1]});
  }
  expect_rounded_once([](const std::vector<Tensor>& x) { return attnlab::gelu(x[0]); },
                      [](const std::vector<Tensor>& x) { return at::gelu(x[0]); }, {drawn({5, 7})});
  expect_rounded_once(
      [](const std::vector<Tensor>& x) { return convolution(x[0], x[1], x[2], 4, 1); },
      [](const std::vector<Tensor>& x) { return at::conv2d(x[0], x[1], x[2], 4, 1); },
      {drawn({2, 3, 8, 8}), drawn({6, 3, 4, 4}), drawn({6})});
  expect_rounded_once(
      [](const std::vector<Tensor>& x) { return member_layer_norm(x[0], x[1], x[2], 1e-5, 1); },
      [](const std::vector<Tensor>& x) { return at::layer_norm(x[0], {300}, x[1], x[2], 1e-5); },
      {drawn({4, 300}), drawn({300}), drawn({300})});
}

TEST_P(NarrowTensors, LossesOfManyClassesAddUpInFloat32) {
  const Tensor targets = at::randint(0, 30000, {300});
  const std::vector<Tensor> in = {at::randn({300, 16}).to(GetParam()),
                                  (at::randn({30000, 16}) / 4).to(GetParam())};
  const Tensor nll = linear_nll(in[0], in[1], {}, targets);
  const Tensor exact =
      linear_nll(in[0].to(at::kDouble), in[1].to(at::kDouble), {}, targets).to(GetParam());
  EXPECT_EQ(nll.scalar_type(), GetParam());
  EXPECT_LT(distance(nll.to(at::kFloat), exact.to(at::kFloat)), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Of16Bits, NarrowTensors, ::testing::Values(at::kBFloat16, at::kHalf),
                         [](const auto& dtype) {
                           return dtype.param == at::kHalf ? "float16" : "bfloat16";
                         });

}  // namespace
}  // namespace attnlab::precision_test
