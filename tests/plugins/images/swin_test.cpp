// Swin as a classifier: torchvision's logits under the published attention, depths, published
// scales.
#include "framework/nn/backbones/swin.h"
#include "tests/plugins/images/backbone_numbers.h"
#include "tests/support/noted_places.h"

namespace attnlab::swin_test {
namespace {

using testing::backbone_images;

/// configs/attention/swin_v2.yaml.
const std::string kPublished =
    "{query: {map: sphere}, key: {map: sphere}, "
    "scale: {kind: learned, parameter: log, init: 10, max: 100}}";

std::shared_ptr<Model> small_swin() {
  return testing::make_model("swin", backbone_images(), "{preset: nano, stages: 2, window: 4}",
                             "composed", 1, kPublished);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

/// torchvision's name of a parameter.
std::string torchvision_name(const std::string& own) {
  std::string name = replaced(own, "net.", "");
  name = replaced(name, "embedding.patches.", "features.0.0.");
  name = replaced(name, "embedding.norm.", "features.0.2.");
  for (int s = 0; s < 4; ++s) {
    const std::string stage = "stage" + std::to_string(s) + ".";
    name = replaced(name, stage + "merging.", "features." + std::to_string(2 * s) + ".");
    name = replaced(name, stage + "block", "features." + std::to_string(2 * s + 1) + ".");
  }
  name = replaced(name, ".attention_norm.", ".norm1.");
  name = replaced(name, ".mlp_norm.", ".norm2.");
  name = replaced(name, ".attention.attention.scale.log_scale", ".attn.logit_scale");
  name = replaced(name, ".attention.bias.in.", ".attn.cpb_mlp.0.");
  name = replaced(name, ".attention.bias.out.", ".attn.cpb_mlp.2.");
  name = replaced(name, ".attention.qkv.", ".attn.qkv.");
  name = replaced(name, ".attention.output.", ".attn.proj.");
  name = replaced(name, ".mlp.in.", ".mlp.0.");
  return replaced(name, ".mlp.out.", ".mlp.3.");
}

TEST(SwinModel, GivesTorchvisionsLogits) {
  testing::expect_close(
      testing::logits_by_rule(*small_swin(), torchvision_name),
      {-0.585070194089, 0.091576828718, 0.706095171901, 0.881046694682, 0.513676992356}, 1e-6);
}

/// Where no composition chooses an attention (detectors), the backbone has the published one
/// itself.
TEST(SwinModel, GivesWhatTheBackboneGivesUnderItsOwnAttention) {
  const auto model = small_swin();
  const Tensor logits = testing::logits_by_rule(*model, torchvision_name);
  SwinSizes sizes = swin_sizes("nano");
  sizes.depths = {2, 2};
  sizes.heads = {2, 4};
  sizes.window = 4;
  Swin own(sizes, swin_attention());
  own.to(at::kDouble);
  own.eval();
  const at::NoGradGuard no_gradients;
  const auto parameters = model->named_parameters();
  for (auto& item : own.named_parameters()) item.value().copy_(parameters["net." + item.key()]);
  const Tensor map = own.forward({testing::waves(), {}}).map;
  const Tensor expected =
      at::linear(map.mean({2, 3}), parameters["head.weight"], parameters["head.bias"])[0];
  EXPECT_LT((logits - expected).abs().max().item<double>(), 1e-6);
}

TEST(SwinModel, SaysHowDeepAParameterLies) {
  const auto model = small_swin();
  EXPECT_EQ(model->depth("net.embedding.patches.weight"), 0);
  EXPECT_EQ(model->depth("net.stage0.block1.mlp.in.weight"), 2);
  EXPECT_EQ(model->depth("net.stage1.block0.mlp.in.weight"), 3);
  EXPECT_EQ(model->depth("head.weight"), -1);
}

TEST(SwinModel, TakesPublishedScalesOfHeads) {
  const auto model = small_swin();
  const Tensor saved = at::rand({2, 1, 1});
  const std::string scale = "net.stage0.block0.attention.attention.scale.log_scale";
  ASSERT_TRUE(model->named_parameters().contains(scale));
  EXPECT_TRUE(model->adapt(scale, saved).equal(saved.view({2})));
  EXPECT_TRUE(model->adapt("head.weight", saved).equal(saved));
}

TEST(SwinModel, TellsEveryLayerRowsAndColumnsInTheWindow) {
  std::vector<testing::NotedPlaces> noted;
  const auto model = testing::noting_places("swin", backbone_images(),
                                            "{preset: nano, stages: 2, window: 4}", noted);
  Batch batch;
  batch.size = 2;
  batch.fields.set("image", at::randn({2, 3, 64, 64}));
  ForwardPass pass;
  model->forward(batch, pass);
  ASSERT_EQ(noted.size(), 4u);
  for (const testing::NotedPlaces& layer : noted) {
    for (const Tensor& places : {layer.queries, layer.keys}) {
      ASSERT_EQ(places.sizes(), (at::IntArrayRef{1, 16, 2}));
      for (std::int64_t i = 0; i < 16; ++i) {
        EXPECT_EQ(places[0][i][0].item<double>(), double(i / 4)) << i;
        EXPECT_EQ(places[0][i][1].item<double>(), double(i % 4)) << i;
      }
    }
  }
}

TEST(SwinModel, TakesImagesWithClassesAlone) { testing::expect_only_images_taken("swin"); }

}  // namespace
}  // namespace attnlab::swin_test
