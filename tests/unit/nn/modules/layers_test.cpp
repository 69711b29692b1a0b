// The building blocks against their definitions.
#include "framework/nn/modules/layers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/naive_attention.h"

namespace attnlab::layers_test {
namespace {

using testing::largest_difference;

constexpr double kTolerance = 1e-10;

TEST(TruncatedNormal, HasMeanZeroAndTheGivenDeviation) {
  at::manual_seed(1);
  Tensor x = at::empty({400, 500});
  fill_truncated_normal(x);
  EXPECT_NEAR(x.mean().item<double>(), 0, 2e-4);
  EXPECT_NEAR(x.std().item<double>(), 0.02, 2e-4);
  EXPECT_NEAR((x.abs() < 0.02).to(at::kDouble).mean().item<double>(), 0.6827, 5e-3);
}

TEST(TruncatedNormal, CutsAtAbsoluteBoundsWithTheRightDistributionBetween) {
  at::manual_seed(2);
  Tensor x = at::empty({200000}, at::kDouble);
  fill_truncated_normal(x, 1.0, -0.5, 1.0);
  EXPECT_GE(x.min().item<double>(), -0.5);
  EXPECT_LE(x.max().item<double>(), 1.0);
  const auto phi = [](double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); };
  for (const double z : {-0.25, 0.0, 0.5}) {
    const double expected = (phi(z) - phi(-0.5)) / (phi(1.0) - phi(-0.5));
    EXPECT_NEAR((x < z).to(at::kDouble).mean().item<double>(), expected, 5e-3) << z;
  }
}

TEST(TruncatedNormal, RepeatsWithTheSeed) {
  Tensor a = at::empty({50}), b = at::empty({50}), c = at::empty({50});
  at::manual_seed(3);
  fill_truncated_normal(a);
  fill_truncated_normal(b);
  at::manual_seed(3);
  fill_truncated_normal(c);
  EXPECT_TRUE(a.equal(c));
  EXPECT_FALSE(a.equal(b));
}

TEST(TruncatedNormal, RefusesImpossibleBounds) {
  Tensor x = at::empty({2});
  EXPECT_THROW(fill_truncated_normal(x, 0), ShapeError);
  EXPECT_THROW(fill_truncated_normal(x, 1, 2, 1), ShapeError);
}

TEST(LayerNorm, NormalisesTheLastDimension) {
  LayerNorm norm(6, 1e-6);
  const Tensor x = at::randn({2, 3, 6}) * 5 + 1;
  const Tensor y = norm.forward(x).detach();
  const Tensor centred = x - x.mean(-1, true);
  const Tensor variance = (centred * centred).mean(-1, true);
  EXPECT_LT(largest_difference(y, centred / (variance + 1e-6).sqrt()), 1e-5);
}

TEST(Mlp, EqualsItsDefinition) {
  at::manual_seed(7);
  Mlp mlp(4, 9);
  mlp.to(at::kDouble);
  const at::NoGradGuard no_gradients;
  for (const auto& parameter : mlp.parameters()) parameter.normal_();
  const auto w = mlp.named_parameters();
  const Tensor x = at::randn({2, 3, 4}, at::kDouble);
  const Tensor h = at::matmul(x, w["in.weight"].t()) + w["in.bias"];
  const Tensor gelu = h * 0.5 * (1 + (h / std::sqrt(2.0)).erf());
  const Tensor expected = at::matmul(gelu, w["out.weight"].t()) + w["out.bias"];
  EXPECT_LT(largest_difference(mlp.forward(x), expected), kTolerance);
}

TEST(Mlp, OfSwigluIsSiluOfOneMapTimesAnother) {
  at::manual_seed(17);
  Mlp mlp(MlpOptions{.dim = 4, .hidden = 3, .swiglu = true});
  mlp.to(at::kDouble);
  const at::NoGradGuard no_gradients;
  for (const auto& parameter : mlp.parameters()) parameter.normal_();
  const auto w = mlp.named_parameters();
  ASSERT_EQ(w["in.weight"].sizes(), at::IntArrayRef({6, 4}));
  const Tensor x = at::randn({2, 3, 4}, at::kDouble);
  const Tensor both = at::matmul(x, w["in.weight"].t()) + w["in.bias"];
  const Tensor gate = both.narrow(2, 0, 3), up = both.narrow(2, 3, 3);
  const Tensor hidden = gate / (1 + (-gate).exp()) * up;
  const Tensor expected = at::matmul(hidden, w["out.weight"].t()) + w["out.bias"];
  EXPECT_LT(largest_difference(mlp.forward(x), expected), kTolerance);
}

TEST(Mlp, OfSwigluHasTheHiddenChannelsOfPublishedModels) {
  EXPECT_EQ(gated_hidden(4 * 4096, 256), 11008) << "LLaMA 7B";
  EXPECT_EQ(gated_hidden(4 * 5120, 256), 13824) << "LLaMA 13B";
  EXPECT_EQ(gated_hidden(4 * 1536, 8), 4096) << "DINOv2, ViT-g";
  EXPECT_EQ(gated_hidden(4 * 96, 256), 256);
  EXPECT_EQ(gated_hidden(100, 1), 66);
  EXPECT_EQ(gated_hidden(1, 1), 1) << "never none";
  EXPECT_EQ(gated_hidden(100, 0), 100) << "as given";
}

TEST(Mlp, DropoutActsInTrainingAlone) {
  at::manual_seed(8);
  Mlp mlp(4, 8, 0.5);
  const Tensor x = at::randn({50, 4});
  EXPECT_FALSE(mlp.forward(x).equal(mlp.forward(x)));
  mlp.eval();
  EXPECT_TRUE(mlp.forward(x).equal(mlp.forward(x)));
}

/// A module of three members, and each member's part of its parameters as a module of its own.
template <class Module>
void expect_members_apart(Module& together, const std::vector<std::shared_ptr<Module>>& singles,
                          std::int64_t width) {
  const at::NoGradGuard no_gradients;
  const auto members = static_cast<std::int64_t>(singles.size());
  for (const auto& item : together.named_parameters()) {
    const auto rows = item.value().normal_().chunk(members);
    for (std::size_t m = 0; m < singles.size(); ++m) {
      singles[m]->named_parameters()[item.key()].copy_(rows[m]);
    }
  }
  const Tensor x = at::randn({members * 2, 5, width}, at::kDouble);
  std::vector<Tensor> expected;
  for (std::size_t m = 0; m < singles.size(); ++m) {
    expected.push_back(singles[m]->forward(x.chunk(members)[m]));
  }
  EXPECT_LT(largest_difference(together.forward(x), at::cat(expected)), kTolerance);
}

template <class Module, class... Arguments>
std::vector<std::shared_ptr<Module>> three(Arguments... arguments) {
  std::vector<std::shared_ptr<Module>> modules;
  for (int m = 0; m < 3; ++m) {
    modules.push_back(std::make_shared<Module>(arguments...));
    modules.back()->to(at::kDouble);
  }
  return modules;
}

TEST(Ensemble, OfLayersIsItsMembersAlone) {
  at::manual_seed(12);
  Linear linear(4, 7, true, 3);
  linear.to(at::kDouble);
  ASSERT_EQ(linear.weight.sizes(), at::IntArrayRef({21, 4}));
  expect_members_apart(linear, three<Linear>(4, 7), 4);
  LayerNorm norm(4, 1e-5, 3);
  norm.to(at::kDouble);
  expect_members_apart(norm, three<LayerNorm>(4, 1e-5), 4);
  Mlp mlp(4, 9, 0, 3);
  mlp.to(at::kDouble);
  expect_members_apart(mlp, three<Mlp>(4, 9), 4);
  MlpOptions gated{.dim = 4, .hidden = 5, .swiglu = true};
  const auto singles = three<Mlp>(gated);
  gated.members = 3;
  Mlp together(gated);
  together.to(at::kDouble);
  expect_members_apart(together, singles, 4);
}

TEST(LayerNorm, OfRmsHasNoBiasAndIsRefusedInAnEnsemble) {
  const LayerNorm norm(4, 1e-5, 1, true, NormKind::rms);
  EXPECT_FALSE(norm.bias.defined());
  EXPECT_THROW(LayerNorm(4, 1e-5, 3, true, NormKind::rms), ShapeError);
}

TEST(LayerNorm, TakesMembersSideBySideInTheHeadsToo) {
  at::manual_seed(13);
  LayerNorm norm(4, 1e-5, 3);
  const at::NoGradGuard no_gradients;
  norm.weight.normal_();
  norm.bias.normal_();
  const Tensor x = at::randn({2, 6, 5, 4});  // two heads per member
  const Tensor y = norm.forward_heads(x);
  for (std::int64_t h = 0; h < 6; ++h) {
    const Tensor expected = at::layer_norm(x.select(1, h), {4}, norm.weight.narrow(0, h / 2 * 4, 4),
                                           norm.bias.narrow(0, h / 2 * 4, 4), 1e-5);
    EXPECT_LT(largest_difference(y.select(1, h), expected), 1e-6) << h;
  }
  EXPECT_THROW(norm.forward(at::zeros({4, 5, 4})), ShapeError);
}

TEST(Linear, StartsEveryMemberUniformWithinItsOwnFanIn) {
  Linear linear(16, 30, true, 4);
  start_uniform(linear);
  for (const Tensor& member : linear.weight.chunk(4)) {
    EXPECT_LE(member.abs().max().item<double>(), 0.25);
    EXPECT_GT(member.abs().max().item<double>(), 0.24);
  }
}

TEST(DropPath, DropsWholeExamplesAndRescalesTheOthers) {
  at::manual_seed(9);
  DropPath drop(0.25);
  const Tensor x = at::ones({4000, 2, 3});
  const Tensor y = drop.forward(x);
  const Tensor first = y.select(1, 0).select(1, 0);
  EXPECT_TRUE(y.equal(first.view({4000, 1, 1}).expand_as(y)));
  const Tensor kept = (first - 1 / 0.75).abs() < 1e-6;
  EXPECT_TRUE(kept.logical_or(first == 0).all().item<bool>());
  EXPECT_NEAR(kept.to(at::kDouble).mean().item<double>(), 0.75, 0.03);
}

TEST(DropPath, LetsEverythingThroughInEvaluationAndAtZero) {
  DropPath drop(0.9), never(0);
  drop.eval();
  const Tensor x = at::randn({8, 2});
  EXPECT_TRUE(drop.forward(x).is_same(x));
  EXPECT_TRUE(never.forward(x).is_same(x));
  EXPECT_THROW(DropPath(1.0), ShapeError);
  EXPECT_THROW(DropPath(-0.1), ShapeError);
}

TEST(LayerScale, MultipliesChannels) {
  LayerScale scale(3, 0.1);
  const Tensor x = at::randn({2, 4, 3});
  EXPECT_LT(largest_difference(scale.forward(x).detach(), x * 0.1), 1e-7);
  EXPECT_EQ(scale.scale.sizes(), at::IntArrayRef({3}));
}

TEST(PatchEmbedding, IsAConvolutionWhoseStrideIsItsKernel) {
  at::manual_seed(10);
  PatchOptions options;
  options.channels = 3, options.height = 8, options.width = 12;
  options.patch_height = 4, options.patch_width = 3, options.dim = 5;
  PatchEmbedding embed(options);
  embed.to(at::kDouble);
  const at::NoGradGuard no_gradients;
  const Tensor images = at::randn({2, 3, 8, 12}, at::kDouble);
  const Tensor tokens = embed.forward(images);
  ASSERT_EQ(tokens.sizes(), at::IntArrayRef({2, 2 * 4, 5}));
  ASSERT_EQ(embed.count(), 8);
  for (std::int64_t row = 0; row < 2; ++row) {
    for (std::int64_t column = 0; column < 4; ++column) {
      const Tensor patch = images.narrow(2, 4 * row, 4).narrow(3, 3 * column, 3).unsqueeze(1);
      const Tensor expected = (patch * embed.weight).sum({2, 3, 4}) + embed.bias;
      EXPECT_LT(largest_difference(tokens.select(1, 4 * row + column), expected), kTolerance);
    }
  }
  EXPECT_LT(
      largest_difference(embed.forward(images.contiguous(at::MemoryFormat::ChannelsLast)), tokens),
      kTolerance);
}

TEST(PatchEmbedding, StartsUniformWithinTheFanIn) {
  at::manual_seed(11);
  PatchOptions options;
  options.height = options.width = options.patch_height = options.patch_width = 16;
  options.dim = 192;
  const PatchEmbedding embed(options);
  const double bound = 1 / std::sqrt(3.0 * 16 * 16);
  for (const Tensor& x : {embed.weight, embed.bias}) {
    EXPECT_LE(x.abs().max().item<double>(), bound);
    EXPECT_GT(x.abs().max().item<double>(), 0.9 * bound);
  }
  EXPECT_NEAR(embed.weight.std().item<double>(), bound / std::sqrt(3.0), 0.01 * bound);
}

TEST(PatchEmbedding, RefusesPatchesAndImagesThatDoNotFit) {
  PatchOptions options;
  options.height = 10, options.width = 8;
  options.patch_height = options.patch_width = 4;
  options.dim = 2;
  EXPECT_THROW(PatchEmbedding{options}, ShapeError);
  options.height = 8;
  PatchEmbedding embed(options);
  EXPECT_THROW(embed.forward(at::zeros({1, 3, 8, 12})), ShapeError);
  EXPECT_THROW(embed.forward(at::zeros({3, 8, 8})), ShapeError);
}

}  // namespace
}  // namespace attnlab::layers_test
