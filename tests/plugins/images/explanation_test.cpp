// Explanations against their definitions, computed here by other means.
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/eval/explanation.h"
#include "tests/plugins/images/made_pictures.h"
#include "tests/support/data_files.h"
#include "tests/support/noise.h"
#include "tests/support/plugins.h"

namespace attnlab::explanation_test {
namespace {

using made_pictures::batch_of;
using made_pictures::pictures;
using made_pictures::record;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::noise;

/// Layers whose weights are set by hand, and a logit for each class: its numbers . the weights of
/// row 0.
class ByHand final : public Model {
 public:
  Tensor scores, classes;  ///< [1, H, 7, 7] logits of the attention, [K, 7]
  std::int64_t layers = 1;

  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    const std::int64_t count = batch.size;
    Tensor sum = at::zeros({count, classes.size(0)}, scores.options());
    for (std::int64_t i = 0; i < layers; ++i) {
      const Tensor logits = (scores * double(i + 1)).expand({count, -1, -1, -1});
      Tensor weights = logits.softmax(-1);
      if (pass.trace != nullptr) {
        const at::AutoGradMode on(true);
        weights = weights.clone().set_requires_grad(pass.trace->attached);
        record(*pass.trace, weights, logits);
      }
      sum = sum + at::matmul(weights.select(2, 0).sum(1), classes.t());
    }
    return {{"logits", sum}};
  }
};

TEST(Explanation, AgCamIsWhatThePaperSays) {
  ByHand model;
  model.scores = noise({1, 2, 7, 7}, 1, at::kDouble);
  model.classes = noise({3, 7}, 2, at::kDouble);
  model.layers = 2;
  const Batch batch = batch_of(at::zeros({1, 1, 8, 12}, at::kDouble));
  for (std::int64_t c = 0; c < 3; ++c) {
    const Explanation found = explain(model, batch, "ag_cam", at::tensor({c}));
    ASSERT_EQ(found.map.sizes(), (std::vector<std::int64_t>{1, 2, 3}));
    for (std::int64_t patch = 0; patch < 6; ++patch) {
      // The logit's slope by every head's weight of a patch is the class's number for that patch.
      const double slope = std::max(0.0, model.classes[c][patch + 1].item<double>());
      double expected = 0;
      for (int layer = 1; layer <= 2; ++layer) {
        for (int head = 0; head < 2; ++head) {
          const double score = layer * model.scores[0][head][0][patch + 1].item<double>();
          expected += slope / (1 + std::exp(-score));
        }
      }
      EXPECT_NEAR(found.map.view({-1})[patch].item<double>(), expected, 1e-12) << patch;
    }
  }
  const Explanation own = explain(model, batch, "ag_cam");
  const Tensor answer = own.logits.argmax(1);
  EXPECT_TRUE(own.map.equal(explain(model, batch, "ag_cam", answer).map));
}

TEST(Explanation, RolloutIsTheProductOfHalvesOfTheIdentity) {
  ByHand model;
  model.scores = noise({1, 2, 7, 7}, 3, at::kDouble);
  model.classes = noise({3, 7}, 4, at::kDouble);
  model.layers = 3;
  const Explanation found =
      explain(model, batch_of(at::zeros({1, 1, 8, 12}, at::kDouble)), "rollout");
  Tensor product = at::eye(7, at::kDouble);
  for (int layer = 1; layer <= 3; ++layer) {
    const Tensor mean = (model.scores[0] * layer).softmax(-1).mean(0);
    product = at::matmul(0.5 * mean + 0.5 * at::eye(7, at::kDouble), product);
  }
  EXPECT_TRUE(found.map.view({-1}).allclose(product[0].narrow(0, 1, 6), 0, 1e-12));
}

std::shared_ptr<Model> vit(const std::string& more = "",
                           const std::string& attention = "standard") {
  auto model = testing::make_model(
      "vit", pictures(), "{dim: 8, depth: 3, heads: 2, patch_size: 4" + more + "}", attention);
  model->eval();
  return model;
}

TEST(Explanation, OfAVitHasTheSlopesOfItsOwnWeights) {
  // Through every attention that records logits: the map is not flat, and depends on the class.
  const Batch batch = batch_of(noise({4, 1, 8, 12}, 5));
  for (const char* attention :
       {"standard", "quest", "sigmoid", "doubly_stochastic", "elliptical"}) {
    const auto model = vit("", attention);
    const Explanation first = explain(*model, batch, "ag_cam", at::zeros({4}, at::kLong));
    const Explanation other = explain(*model, batch, "ag_cam", at::ones({4}, at::kLong));
    EXPECT_EQ(first.map.sizes(), (std::vector<std::int64_t>{4, 2, 3}));
    EXPECT_GT(first.map.max().item<double>(), first.map.min().item<double>()) << attention;
    EXPECT_FALSE(first.map.allclose(other.map)) << attention;
    ForwardPass pass;
    const c10::NoGradGuard no_grad;
    EXPECT_TRUE(first.logits.allclose(model->forward(batch, pass).at("logits"), 1e-4, 1e-5));
    for (const Tensor& parameter : model->parameters()) EXPECT_FALSE(parameter.grad().defined());
  }
  EXPECT_EQ(explain(*vit(", pool: mean"), batch, "rollout").map.size(2), 3);
}

TEST(Explanation, CountsRegistersAsNoPatches) {
  const Batch batch = batch_of(noise({2, 1, 8, 12}, 7));
  for (const std::string pool : {"class_token", "mean"}) {
    const auto model = vit(", registers: 2, pool: " + pool);
    const std::int64_t before = pool == "mean" ? 0 : 1, all = before + 6 + 2;
    AttentionTrace trace;
    trace.weights = true;
    ForwardPass pass{&trace};
    const c10::NoGradGuard no_grad;
    model->forward(batch, pass);
    Tensor product = at::eye(all).expand({2, -1, -1});
    for (const LayerTrace& layer : trace.layers) {
      ASSERT_EQ(layer.weights.size(3), all);
      product = at::matmul(0.5 * layer.weights.mean(1) + 0.5 * at::eye(all), product);
    }
    const Tensor row = before == 1 ? product.select(1, 0) : product.narrow(1, 0, 6).mean(1);
    const Explanation found = explain(*model, batch, "rollout");
    ASSERT_EQ(found.map.sizes(), (std::vector<std::int64_t>{2, 2, 3})) << pool;
    EXPECT_TRUE(found.map.view({2, 6}).allclose(row.narrow(1, before, 6), 1e-5, 1e-6)) << pool;
    EXPECT_EQ(explain(*model, batch, "ag_cam").map.sizes(), found.map.sizes()) << pool;
  }
}

/// Two layers over patches of two sizes, as CrossViT's branches are.
class TwoGrids final : public Model {
 public:
  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    for (const std::int64_t tokens : {7, 25}) {
      record(*pass.trace, at::ones({batch.size, 1, tokens, tokens}));
    }
    return {{"logits", at::zeros({batch.size, 3})}};
  }
};

TEST(Explanation, RefusesModelsWithoutOneGrid) {
  TwoGrids model;
  EXPECT_THAT(message_of<ShapeError>([&] {
                explain(model, batch_of(at::zeros({1, 1, 8, 12})), "rollout");
              }),
              HasSubstr("the same tokens"));
}

TEST(Explanation, RefusesAttentionsThatRecordNoWeights) {
  const Batch batch = batch_of(noise({2, 1, 8, 12}, 6));
  for (const char* attention : {"gated", "differential"}) {
    for (const char* method : {"rollout", "ag_cam"}) {
      EXPECT_THAT(
          message_of<ShapeError>([&] { explain(*vit("", attention), batch, method); }),
          AllOf(HasSubstr("layer 0 records no weights"), HasSubstr("take another attention")))
          << attention << ", " << method;
    }
  }
}

TEST(Explanation, HeatIsStretchedAndBoxesAreFilled) {
  const Tensor map = at::tensor({1.0, 3.0, 2.0, 1.0}).view({1, 2, 2});
  const Tensor heat = heat_of(map, 4, 4)[0];
  EXPECT_EQ(heat.min().item<double>(), 0);
  EXPECT_EQ(heat.max().item<double>(), 1);
  EXPECT_NEAR(heat[0][1].item<double>(), 0.25, 1e-12);  // (1 + 0.25 (3 - 1) - 1) / (3 - 1)
  EXPECT_EQ(heat_of(at::ones({1, 2, 2}), 4, 4).abs().max().item<double>(), 0);
  // Two parts: one of a diagonal (8 neighbours), one alone.
  Tensor hot = at::zeros({6, 8});
  hot[0][0] = hot[1][1] = hot[2][1] = 1;
  hot[4][6] = 1;
  Tensor expected = at::zeros({6, 8}, at::kBool);
  expected.narrow(0, 0, 3).narrow(1, 0, 2).fill_(true);
  expected[4][6] = true;
  EXPECT_TRUE(boxed(hot, 0.5).equal(expected)) << boxed(hot, 0.5);
}

}  // namespace
}  // namespace attnlab::explanation_test
