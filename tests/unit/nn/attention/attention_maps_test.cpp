// Maps of queries and keys, and scales, against their definitions.
#include "framework/nn/attention/attention_maps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/contracts/model.h"
#include "tests/support/gradcheck.h"
#include "tests/support/message_of.h"
#include "tests/support/naive_attention.h"

namespace attnlab::attention_maps_test {
namespace {

using attnlab::testing::mentions;
using ::testing::HasSubstr;
using testing::largest_difference;
using testing::Row;
using testing::row;

constexpr double kTolerance = 1e-12;

AttentionShape shape_of(std::int64_t heads, std::int64_t dim) {
  AttentionShape shape;
  shape.heads = heads;
  shape.head_dim = dim;
  return shape;
}

MapOptions map_named(const std::string& map, const std::string& scales = "none") {
  MapOptions options;
  options.map = map;
  options.scales = scales;
  return options;
}

/// In double, with parameters that differ from each other.
std::shared_ptr<VectorMap> varied_map(const MapOptions& options, const AttentionShape& shape) {
  const auto map = std::make_shared<VectorMap>(options, shape);
  map->to(at::kDouble);
  const at::NoGradGuard no_gradients;
  for (Tensor& parameter : map->parameters()) parameter.add_(at::rand_like(parameter));
  return map;
}

ScaleOptions learned(const std::string& parameter, double init, double max = 100) {
  ScaleOptions options;
  options.kind = "learned";
  options.parameter = parameter;
  options.init = init;
  options.max = max;
  return options;
}

TEST(VectorMap, IdentityGivesItsInput) {
  const Tensor x = at::randn({2, 3, 5, 4});
  EXPECT_TRUE(VectorMap(map_named("identity"), shape_of(3, 4)).forward(x).is_same(x));
}

TEST(VectorMap, SphereGivesUnitVectorsOfTheSameDirection) {
  at::manual_seed(1);
  const Tensor x = at::randn({2, 3, 5, 4}, at::kDouble);
  const Tensor y = VectorMap(map_named("sphere"), shape_of(3, 4)).forward(x);
  EXPECT_LT(largest_difference(y, x / x.norm(2, -1, true)), kTolerance);
}

TEST(VectorMap, EpsIsTheFloorOfTheNorm) {
  MapOptions options = map_named("sphere");
  const Tensor x = at::full({1, 1, 1, 4}, 1e-4, at::kDouble);  // of norm 2e-4
  EXPECT_LT(largest_difference(VectorMap(options, shape_of(1, 4)).forward(x), x / 2e-4), 1e-12);
  options.eps = 0.5;
  EXPECT_LT(largest_difference(VectorMap(options, shape_of(1, 4)).forward(x), x / 0.5), 1e-12);
}

TEST(VectorMap, LayerNormCentresAndScalesOverTheChannels) {
  at::manual_seed(2);
  for (const double eps : {0.0, 0.5}) {
    MapOptions options = map_named("layer_norm");
    options.eps = eps;
    const auto map = varied_map(options, shape_of(2, 4));
    const Row weight = row(map->named_parameters()["norm.weight"]);
    const Row bias = row(map->named_parameters()["norm.bias"]);
    const Tensor x = at::randn({1, 2, 3, 4}, at::kDouble) * 1e-2;
    const Tensor y = map->forward(x);
    for (std::int64_t h = 0; h < 2; ++h) {
      for (std::int64_t i = 0; i < 3; ++i) {
        const Row in = row(x[0][h][i]), out = row(y[0][h][i]);
        double mean = 0, variance = 0;
        for (const double c : in) mean += c / 4;
        for (const double c : in) variance += (c - mean) * (c - mean) / 4;
        const double deviation = std::sqrt(variance + (eps == 0 ? 1e-6 : eps));
        for (std::size_t c = 0; c < 4; ++c) {
          EXPECT_NEAR(out[c], (in[c] - mean) / deviation * weight[c] + bias[c], 1e-10);
        }
      }
    }
  }
}

TEST(VectorMap, ChannelScalesAreSharedByHeads) {
  at::manual_seed(3);
  const auto map = varied_map(map_named("identity", "channel"), shape_of(2, 4));
  ASSERT_EQ(map->scale.sizes(), at::IntArrayRef({4}));
  const Tensor y = map->forward(at::ones({1, 2, 3, 4}, at::kDouble));
  for (std::int64_t h = 0; h < 2; ++h) {
    for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(row(y[0][h][i]), row(map->scale));
  }
}

TEST(VectorMap, HeadChannelScalesLieHeadAfterHead) {
  at::manual_seed(4);
  const auto map = varied_map(map_named("identity", "head_channel"), shape_of(2, 3));
  ASSERT_EQ(map->scale.sizes(), at::IntArrayRef({6}));
  const Row scale = row(map->scale);
  // A batch of one, as relative positional keys come, and one of two.
  for (const std::int64_t batch : {1, 2}) {
    const Tensor y = map->forward(at::ones({batch, 2, 5, 3}, at::kDouble));
    ASSERT_EQ(y.sizes(), at::IntArrayRef({batch, 2, 5, 3}));
    EXPECT_EQ(row(y[batch - 1][0][4]), Row(scale.begin(), scale.begin() + 3));
    EXPECT_EQ(row(y[batch - 1][1][4]), Row(scale.begin() + 3, scale.end()));
  }
}

TEST(VectorMap, ScalesStartAtTheFourthRootOfTheDimensionUnlessSet) {
  MapOptions options = map_named("sphere", "head_channel");
  EXPECT_TRUE(at::allclose(VectorMap(options, shape_of(2, 16)).scale, at::full({32}, 2.0)));
  options.init = 0.25;
  EXPECT_TRUE(at::equal(VectorMap(options, shape_of(2, 16)).scale, at::full({32}, 0.25)));
}

TEST(VectorMap, LearnsOnlyWhatItsOptionsSay) {
  const auto names = [](const MapOptions& options) {
    return VectorMap(options, shape_of(2, 4)).named_parameters().keys();
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(map_named("identity")), Names());
  EXPECT_EQ(names(map_named("sphere")), Names());
  EXPECT_EQ(names(map_named("sphere", "channel")), Names({"scale"}));
  EXPECT_EQ(names(map_named("layer_norm")), Names({"norm.weight", "norm.bias"}));
}

TEST(VectorMap, GradientsAreRight) {
  at::manual_seed(5);
  for (const char* name : {"identity", "sphere", "layer_norm"}) {
    for (const char* scales : {"none", "channel", "head_channel"}) {
      const auto map = varied_map(map_named(name, scales), shape_of(2, 4));
      const Tensor x = at::randn({2, 2, 3, 4}, at::kDouble).requires_grad_();
      std::vector<Tensor> leaves = map->parameters();
      leaves.push_back(x);
      EXPECT_LT(testing::leaf_gradient_error([&] { return map->forward(x).sin(); }, leaves), 1e-8)
          << name << ", " << scales;
    }
  }
}

/// A model that leaves weight decay as it is.
class Decaying final : public Model {
 public:
  NamedTensors forward(const Batch&, ForwardPass&) override { return {}; }
};

TEST(AttentionParts, EscapeWeightDecayAsNormsDo) {
  Decaying model;
  model.register_module(
      "key", std::make_shared<VectorMap>(map_named("layer_norm", "head_channel"), shape_of(2, 4)));
  model.register_module(
      "query", std::make_shared<VectorMap>(map_named("sphere", "channel"), shape_of(2, 4)));
  model.register_module("scale", std::make_shared<LearnedScale>(learned("log", 1), shape_of(2, 4)));
  EXPECT_EQ(model.named_parameters().size(), 5u);
  for (const auto& item : model.named_parameters()) {
    EXPECT_FALSE(model.decays(item.key(), item.value())) << item.key();
  }
}

TEST(ConstantScale, IsOneOverTheRootOfTheDimensionUnlessSet) {
  ScaleOptions options;
  EXPECT_EQ(constant_scale(options, shape_of(4, 25)), 1 / 5.0);
  options.by = "model_dim";
  EXPECT_EQ(constant_scale(options, shape_of(4, 25)), 1 / 10.0);
  options.value = 3;
  EXPECT_EQ(constant_scale(options, shape_of(4, 25)), 3);
}

TEST(ConstantScale, IsOneBesideALearnedScaleAndThenTakesNoValue) {
  ScaleOptions options = learned("log", 10);
  EXPECT_EQ(constant_scale(options, shape_of(4, 25)), 1);
  options.value = 3;
  EXPECT_THAT(testing::message_of<OptionError>([&] { constant_scale(options, shape_of(4, 25)); }),
              mentions("value:", "constant scale"));
}

TEST(LearnedScale, StartsWhereToldInEitherForm) {
  const LearnedScale logarithm(learned("log", 10), shape_of(3, 4));
  EXPECT_LT(largest_difference(logarithm.parameter, at::full({3}, std::log(10.0))), 1e-6);
  EXPECT_LT(largest_difference(logarithm.factors(), at::full({3}, 10.0)), 1e-5);
  EXPECT_EQ(logarithm.named_parameters().keys(), std::vector<std::string>({"log_scale"}));
  const LearnedScale plain(learned("plain", 0), shape_of(3, 4));
  EXPECT_TRUE(at::equal(plain.parameter, at::zeros({3})));
  EXPECT_TRUE(at::equal(plain.factors(), at::zeros({3})));
  EXPECT_EQ(plain.named_parameters().keys(), std::vector<std::string>({"scale"}));
}

TEST(LearnedScale, MultipliesEachHeadByItsOwn) {
  LearnedScale scale(learned("plain", 1), shape_of(2, 4));
  scale.to(at::kDouble);
  const at::NoGradGuard no_gradients;
  scale.parameter[0] = 3;
  scale.parameter[1] = 5;
  const Tensor q = at::randn({2, 2, 3, 4}, at::kDouble);
  const Tensor y = scale.forward(q);
  EXPECT_TRUE(at::equal(y.select(1, 0), q.select(1, 0) * 3));
  EXPECT_TRUE(at::equal(y.select(1, 1), q.select(1, 1) * 5));
}

TEST(LearnedScale, IsBoundedInEitherForm) {
  for (const char* form : {"log", "plain"}) {
    LearnedScale scale(learned(form, 7, 8), shape_of(2, 4));
    scale.to(at::kDouble);
    {
      const at::NoGradGuard no_gradients;
      scale.parameter[1] = 50;
    }
    const Tensor factors = scale.factors();
    EXPECT_NEAR(factors[0].item<double>(), 7, 1e-5) << form;
    EXPECT_NEAR(factors[1].item<double>(), 8, 1e-12) << form;
    factors.sum().backward();
    EXPECT_GT(scale.parameter.grad()[0].item<double>(), 0.5) << form;
    EXPECT_EQ(scale.parameter.grad()[1].item<double>(), 0) << form;
  }
}

TEST(LearnedScale, GradientsAreRight) {
  at::manual_seed(6);
  for (const char* form : {"log", "plain"}) {
    LearnedScale scale(learned(form, 3), shape_of(2, 4));
    scale.to(at::kDouble);
    const Tensor q = at::randn({2, 2, 3, 4}, at::kDouble).requires_grad_();
    const std::vector<Tensor> leaves = {q, scale.parameter};
    EXPECT_LT(testing::leaf_gradient_error([&] { return scale.forward(q).sin(); }, leaves), 1e-8)
        << form;
  }
}

TEST(LearnedScale, RefusesAStartThatCannotLearn) {
  const auto build = [](const ScaleOptions& options) {
    return testing::message_of<OptionError>([&] { LearnedScale(options, shape_of(2, 4)); });
  };
  EXPECT_THAT(build(learned("log", 0)), HasSubstr("init: 0 has no logarithm"));
  EXPECT_THAT(build(learned("plain", 9, 8)), HasSubstr("init: 9 is above max (8)"));
  EXPECT_NO_THROW(LearnedScale(learned("plain", 0), shape_of(2, 4)));
  EXPECT_NO_THROW(LearnedScale(learned("log", 8, 8), shape_of(2, 4)));
}

}  // namespace
}  // namespace attnlab::attention_maps_test
