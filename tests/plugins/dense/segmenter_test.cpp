// Segmenter: shapes, the mask transformer against loops, positions of other sizes, saved weights,
// Swin and ResNet as its encoder.
#include <cmath>
#include <set>

#include "framework/nn/backbones/resnet.h"
#include "framework/nn/backbones/swin.h"
#include "framework/nn/modules/sizes_alone.h"
#include "tests/support/data_files.h"
#include "tests/support/noted_places.h"
#include "tests/support/plugins.h"

namespace attnlab::segmenter_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

const std::string kSmall = "dim: 12, depth: 2, heads: 2, patch_size: 4, mlp_ratio: 2";

DatasetInfo pictures(std::int64_t height, std::int64_t width, std::int64_t classes = 5) {
  DatasetInfo data;
  data.name = "scenes";
  data.fields = {{"image", {3, height, width}, at::kFloat}};
  data.classes = classes;
  return data;
}

std::shared_ptr<Model> segmenter(const DatasetInfo& data, const std::string& more = "") {
  return testing::make_model("segmenter", data, "{" + kSmall + more + "}");
}

/// The same with random parameters everywhere, in double precision.
std::shared_ptr<Model> random_segmenter(const DatasetInfo& data, const std::string& more = "") {
  const auto model = segmenter(data, more);
  model->to(at::kDouble);
  model->eval();
  at::manual_seed(3);
  const at::NoGradGuard no_gradients;
  for (Tensor& parameter : model->parameters()) parameter.normal_(0, 0.5);
  return model;
}

Tensor masks_of(Model& model, const Tensor& images) {
  Batch batch;
  batch.size = images.size(0);
  batch.fields.set("image", images);
  ForwardPass pass;
  return model.forward(batch, pass).at("mask_logits");
}

TEST(Segmenter, GivesLogitsOfEachClassForEachPatch) {
  for (const char* decoder : {"mask", "linear"}) {
    const auto model = segmenter(pictures(8, 12), std::string(", decoder: ") + decoder);
    EXPECT_EQ(masks_of(*model, at::randn({2, 3, 8, 12})).sizes(), (at::IntArrayRef{2, 5, 2, 3}));
    EXPECT_EQ(masks_of(*model, at::randn({1, 3, 16, 4})).sizes(), (at::IntArrayRef{1, 5, 4, 1}))
        << "other sizes are taken, too";
    ASSERT_EQ(model->outputs().size(), 1U);
    EXPECT_EQ(model->outputs()[0].shape, (std::vector<std::int64_t>{5, -1, -1}));
  }
}

TEST(Segmenter, HasThePublishedSizes) {
  const SizesAlone sizes;
  const auto count = [](const std::string& preset, const std::string& decoder) {
    return testing::parameter_count(
        *testing::make_model("segmenter", pictures(512, 512, 150),
                             "{preset: " + preset + ", decoder: " + decoder + "}"));
  };
  // A DeiT without head: 12 (12 d^2 + 13 d) of the layers, 768 d + d of the patches, d of the class
  // token, 1025 d of positions, 2 d of the norm; and a map to 150 classes.
  const auto linear = [](std::int64_t d) {
    return 12 * (12 * d * d + 13 * d) + 769 * d + d + 1025 * d + 2 * d + 150 * d + 150;
  };
  EXPECT_EQ(count("Ti", "linear"), linear(192));
  EXPECT_EQ(count("S", "linear"), linear(384));
  // Two layers more, a map, 150 embeddings, two projections, and norms of d and of 150.
  const auto mask = [&](std::int64_t d) {
    return linear(d) - 150 * d - 150 + 2 * (12 * d * d + 13 * d) + d * d + d + 150 * d + 2 * d * d +
           2 * d + 300;
  };
  EXPECT_EQ(count("Ti", "mask"), mask(192));
  EXPECT_EQ(count("S", "mask"), mask(384));
}

TEST(Segmenter, GradientsReachEveryParameter) {
  for (const char* decoder : {"mask", "linear"}) {
    const auto model = random_segmenter(pictures(8, 12), std::string(", decoder: ") + decoder);
    at::manual_seed(4);
    const Tensor masks = masks_of(*model, at::randn({2, 3, 8, 12}, at::kDouble));
    (masks * at::randn_like(masks)).sum().backward();
    for (const auto& item : model->named_parameters()) {
      const Tensor& gradient = item.value().grad();
      ASSERT_TRUE(gradient.defined()) << item.key();
      EXPECT_GT(gradient.abs().max().item<double>(), 0) << item.key();
      EXPECT_TRUE(gradient.isfinite().all().item<bool>()) << item.key();
    }
  }
}

/// The linear decoder's answer for a patch is that map of its token; with the mask decoder it is a
/// normalised cosine, so that neither the scale of P nor that of C matters.
TEST(Segmenter, MasksAreCosinesNormalisedOverTheClasses) {
  const auto model = random_segmenter(pictures(8, 8));
  const Tensor images = at::randn({1, 3, 8, 8}, at::kDouble);
  const Tensor before = masks_of(*model, images);
  const at::NoGradGuard no_gradients;
  auto parameters = model->named_parameters();
  parameters["decoder.patch_projection"].mul_(7);
  parameters["decoder.class_projection"].mul_(0.3);
  EXPECT_LT((masks_of(*model, images) - before).abs().max().item<double>(), 1e-9);
  const Tensor weight = parameters["decoder.mask_norm.weight"];
  const Tensor bias = parameters["decoder.mask_norm.bias"];
  // (x - b) / w of a pixel has mean 0 and, up to the norm's eps, variance 1.
  const Tensor plain = (before - bias.view({1, -1, 1, 1})) / weight.view({1, -1, 1, 1});
  EXPECT_LT(plain.mean(1).abs().max().item<double>(), 1e-9);
  EXPECT_NEAR(plain.pow(2).mean().item<double>(), 1, 0.05);
}

TEST(Segmenter, ReadsEachPatchInItsOwnPlace) {
  // Without layers' doing (all of their outputs 0) a token is its patch's own, and so its masks.
  const auto model = random_segmenter(pictures(8, 12), ", decoder: linear");
  const at::NoGradGuard no_gradients;
  for (auto& item : model->named_parameters()) {
    const std::string& name = item.key();
    if (name.find(".output.") != std::string::npos || name.find(".out.") != std::string::npos) {
      item.value().zero_();
    }
  }
  const Tensor images = at::randn({1, 3, 8, 12}, at::kDouble);
  const Tensor before = masks_of(*model, images);
  Tensor changed = images.clone();
  changed[0].narrow(1, 4, 4).narrow(2, 8, 4).add_(1);  // row 1, column 2
  const Tensor moved = (masks_of(*model, changed) - before).abs().amax(1)[0];
  for (std::int64_t y = 0; y < 2; ++y) {
    for (std::int64_t x = 0; x < 3; ++x) {
      const double change = moved[y][x].item<double>();
      EXPECT_EQ(change > 1e-9, y == 1 && x == 2) << y << " " << x;
    }
  }
}

TEST(Segmenter, ResizesItsPositionsForOtherPictures) {
  const auto small = random_segmenter(pictures(8, 8)), large = random_segmenter(pictures(16, 24));
  const at::NoGradGuard no_gradients;
  const auto from = small->named_parameters();
  for (auto& item : large->named_parameters()) {
    const Tensor& saved = from[item.key()];
    item.value().copy_(saved.sizes() == item.value().sizes() ? saved
                                                             : large->adapt(item.key(), saved));
  }
  const Tensor images = at::randn({2, 3, 16, 24}, at::kDouble);
  EXPECT_LT((masks_of(*small, images) - masks_of(*large, images)).abs().max().item<double>(), 1e-9)
      << "resized in the pass, or when they are read";
  const Tensor resized = large->adapt("encoder.positions", from["encoder.positions"]);
  EXPECT_TRUE(resized.narrow(1, 0, 1).equal(from["encoder.positions"].narrow(1, 0, 1)));
  // Constant positions stay constant, and nothing but positions changes.
  EXPECT_TRUE(at::allclose(large->adapt("encoder.positions", at::full({1, 5, 12}, 0.5)),
                           at::full({1, 25, 12}, 0.5)));
  const Tensor other = at::randn({1, 4, 12});
  EXPECT_TRUE(large->adapt("encoder.positions", other).is_same(other))
      << "3 patches are not square";
  EXPECT_TRUE(large->adapt("decoder.norm.weight", other).is_same(other));
}

TEST(Segmenter, TellsEveryLayerWhereItsTokensStand) {
  std::vector<testing::NotedPlaces> noted;
  const auto model =
      testing::noting_places("segmenter", pictures(8, 12, 3), "{" + kSmall + "}", noted);
  masks_of(*model, at::randn({1, 3, 8, 12}));
  ASSERT_EQ(noted.size(), 4U) << "two layers of the encoder and two of the decoder";
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(noted[i].layer, std::int64_t(i % 2)) << "each stack counts from 0";
    const bool encoder = i < 2;
    const Tensor& places = noted[i].keys;
    ASSERT_EQ(places.sizes(), (at::IntArrayRef{1, encoder ? 7 : 9, 2}));
    const std::int64_t first = encoder ? 1 : 0;
    for (std::int64_t patch = 0; patch < 6; ++patch) {
      EXPECT_EQ(places[0][first + patch][0].item<double>(), double(patch / 3));
      EXPECT_EQ(places[0][first + patch][1].item<double>(), double(patch % 3));
    }
    for (std::int64_t token = encoder ? 0 : 6; token < (encoder ? 1 : 9); ++token) {
      EXPECT_EQ(places[0][token][0].item<double>(), 0.5);
      EXPECT_EQ(places[0][token][1].item<double>(), 1);
    }
  }
}

TEST(Segmenter, SaysHowDeepAParameterLiesAndWhatDecays) {
  const auto model = segmenter(pictures(8, 12));
  EXPECT_EQ(model->depth("encoder.patches.weight"), 0);
  EXPECT_EQ(model->depth("encoder.positions"), 0);
  EXPECT_EQ(model->depth("encoder.layer1.mlp.in.weight"), 2);
  EXPECT_EQ(model->depth("encoder.norm.weight"), -1);
  EXPECT_EQ(model->depth("decoder.layer0.mlp.in.weight"), -1);
  std::set<std::string> spared;
  for (const auto& item : model->named_parameters()) {
    if (item.value().dim() > 1 && !model->decays(item.key(), item.value())) {
      spared.insert(item.key());
    }
  }
  EXPECT_THAT(spared, ::testing::ElementsAre("decoder.class_embeddings", "encoder.class_token",
                                             "encoder.positions"));
}

TEST(Segmenter, DropsInTrainingAlone) {
  const auto model = random_segmenter(pictures(8, 8), ", decoder_dropout: 0.3, drop_path: 0.5");
  const Tensor images = at::randn({4, 3, 8, 8}, at::kDouble);
  EXPECT_TRUE(masks_of(*model, images).equal(masks_of(*model, images)));
  model->train();
  EXPECT_FALSE(masks_of(*model, images).equal(masks_of(*model, images)));
}

// --- other encoders -----------------------------------------------------------------------------

const std::string kSwin = "backbone: swin, swin: nano, swin_window: 4, stages: 2";
const std::string kResNet = "backbone: resnet, resnet: 18, stages: 2";
const std::string kMaskDecoder = ", dim: 12, heads: 2, mlp_ratio: 2";

std::shared_ptr<Model> with_backbone(const std::string& options,
                                     const DatasetInfo& data = pictures(32, 48)) {
  const auto model = testing::make_model("segmenter", data, "{" + options + "}");
  model->to(at::kDouble);
  model->eval();
  return model;
}

/// A network with the encoder's numbers.
template <class Network>
void take_encoder(Network& network, const Model& model) {
  const at::NoGradGuard no_gradients;
  network.to(at::kDouble);
  network.eval();
  const auto parameters = model.named_parameters(), buffers = model.named_buffers();
  for (auto& item : network.named_parameters()) {
    item.value().copy_(parameters["encoder." + item.key()]);
  }
  for (auto& item : network.named_buffers()) item.value().copy_(buffers["encoder." + item.key()]);
}

/// The linear decoder by loops.
void expect_linear_map(const Tensor& masks, const Tensor& map, const Model& model) {
  const auto parameters = model.named_parameters();
  const Tensor weight = parameters["decoder.head.weight"], bias = parameters["decoder.head.bias"];
  ASSERT_EQ(masks.sizes(), (at::IntArrayRef{map.size(0), 5, map.size(2), map.size(3)}));
  for (std::int64_t k = 0; k < 5; ++k) {
    for (std::int64_t y = 0; y < map.size(2); ++y) {
      for (std::int64_t x = 0; x < map.size(3); ++x) {
        double sum = bias[k].item<double>();
        for (std::int64_t c = 0; c < map.size(1); ++c) {
          sum += weight[k][c].item<double>() * map[0][c][y][x].item<double>();
        }
        ASSERT_NEAR(masks[0][k][y][x].item<double>(), sum, 1e-9) << k << " " << y << " " << x;
      }
    }
  }
}

TEST(SegmenterWithSwin, DecodesTheCellsOfItsLastMap) {
  const auto model = with_backbone(kSwin + ", decoder: linear");
  SwinSizes sizes = swin_sizes("nano");
  sizes.depths = {2, 2};
  sizes.heads = {2, 4};
  sizes.window = 4;
  sizes.drop_path = 0;
  Swin own(sizes,
           [](const AttentionShape& shape) { return testing::make_attention("standard", shape); });
  take_encoder(own, *model);
  at::manual_seed(5);
  const Tensor images = at::randn({1, 3, 32, 48}, at::kDouble);
  const at::NoGradGuard no_gradients;
  expect_linear_map(masks_of(*model, images), own.forward({images, {}}).map, *model);
}

TEST(SegmenterWithResNet, DecodesTheCellsOfItsLastMap) {
  const auto model = with_backbone(kResNet + ", decoder: linear");
  ResNet own({.depth = 18, .channels = 3, .stages = 2});
  take_encoder(own, *model);
  at::manual_seed(5);
  const Tensor images = at::randn({1, 3, 32, 48}, at::kDouble);
  const at::NoGradGuard no_gradients;
  expect_linear_map(masks_of(*model, images), own.forward({images, {}}).map, *model);
}

TEST(SegmenterWithSwin, AsksTheCompositionsAttentionInWindowsAndInTheDecoder) {
  std::vector<testing::NotedPlaces> noted;
  const auto model = testing::noting_places("segmenter", pictures(32, 48),
                                            "{" + kSwin + kMaskDecoder + "}", noted);
  EXPECT_EQ(masks_of(*model, at::randn({1, 3, 32, 48})).sizes(), (at::IntArrayRef{1, 5, 4, 6}));
  ASSERT_EQ(noted.size(), 6U) << "four blocks and two layers";
  for (std::int64_t i = 0; i < 6; ++i) {
    const testing::NotedPlaces& one = noted[std::size_t(i)];
    EXPECT_EQ(one.layer, i < 4 ? i : i - 4);
    EXPECT_EQ(one.keys.size(1), i < 4 ? 4 * 4 : 4 * 6 + 5) << i;
  }
}

TEST(SegmenterWithResNet, AsksItInTheDecoderAlone) {
  for (const char* decoder : {"mask", "linear"}) {
    std::vector<testing::NotedPlaces> noted;
    const auto model =
        testing::noting_places("segmenter", pictures(32, 48),
                               "{" + kResNet + kMaskDecoder + ", decoder: " + decoder + "}", noted);
    EXPECT_EQ(masks_of(*model, at::randn({2, 3, 32, 48})).sizes(), (at::IntArrayRef{2, 5, 4, 6}));
    EXPECT_EQ(noted.size(), decoder == std::string("mask") ? 2U : 0U);
  }
}

TEST(Segmenter, GradientsReachEveryParameterOfOtherEncoders) {
  for (const std::string& backbone : {kSwin, kResNet}) {
    const auto model = with_backbone(backbone + kMaskDecoder);
    at::manual_seed(4);
    const Tensor masks = masks_of(*model, at::randn({2, 3, 32, 48}, at::kDouble));
    (masks * at::randn_like(masks)).sum().backward();
    for (const auto& item : model->named_parameters()) {
      const Tensor& gradient = item.value().grad();
      ASSERT_TRUE(gradient.defined()) << item.key();
      EXPECT_GT(gradient.abs().max().item<double>(), 0) << item.key();
    }
  }
}

TEST(Segmenter, SaysHowDeepParametersOfOtherEncodersLieAndTakesPublishedOnes) {
  const auto swin = with_backbone(kSwin + kMaskDecoder);
  const auto resnet = with_backbone(kResNet + kMaskDecoder);
  EXPECT_EQ(swin->depth("encoder.embedding.patches.weight"), 0);
  EXPECT_EQ(swin->depth("encoder.stage0.block1.mlp.in.weight"), 2);
  EXPECT_EQ(swin->depth("encoder.stage1.block0.mlp.in.weight"), 3);
  EXPECT_EQ(resnet->depth("encoder.conv1.weight"), 0);
  EXPECT_EQ(resnet->depth("encoder.layer2.0.conv1.weight"), 3);
  for (const auto& model : {swin, resnet}) EXPECT_EQ(model->depth("decoder.norm.weight"), -1);
  const Tensor saved = at::rand({2, 1, 1});
  EXPECT_TRUE(swin->adapt("encoder.stage0.block0.attention.attention.scale.log_scale", saved)
                  .equal(saved.view({2})))
      << "published scales of heads";
  EXPECT_TRUE(swin->adapt("decoder.norm.weight", saved).is_same(saved));
}

TEST(Segmenter, RefusesWhatDoesNotGoWithABackbone) {
  const auto refusal = [](const std::string& options, const DatasetInfo& data = pictures(32, 48)) {
    return message_of<Error>([&] { with_backbone(options, data); });
  };
  for (const char* of_vit : {"preset: Ti", "depth: 2", "patch_size: 8", "size: 32", "dropout: 0.1",
                             "attention_dropout: 0.1"}) {
    const std::string name = std::string(of_vit).substr(0, std::string(of_vit).find(':'));
    EXPECT_THAT(refusal(kSwin + kMaskDecoder + ", " + of_vit),
                AllOf(HasSubstr(name), HasSubstr("backbone is swin"), HasSubstr("leave it out")));
  }
  EXPECT_THAT(refusal(kResNet + kMaskDecoder + ", drop_path: 0.1"), HasSubstr("drop_path"));
  EXPECT_THAT(refusal(kSwin), AllOf(HasSubstr("dim"), HasSubstr("decoder linear")));
  EXPECT_THAT(refusal(kSwin + ", dim: 12, heads: 5"), HasSubstr("5 heads do not divide dim 12"));
  EXPECT_THAT(refusal("backbone: resnet, resnet: 19, decoder: linear"),
              AllOf(HasSubstr("resnet"), HasSubstr("18, 34, 50 or 101"), HasSubstr("not 19")));
  EXPECT_THAT(refusal("backbone: resnet, resnet: 18, decoder: linear"),
              AllOf(HasSubstr("stages"), HasSubstr("stride 32"), HasSubstr("32 x 48")));
  const auto model = with_backbone(kSwin + ", decoder: linear", pictures(-1, -1));
  EXPECT_THAT(
      message_of<ShapeError>([&] {
        masks_of(*model, at::randn({1, 3, 32, 44}, at::kDouble));
      }),
      AllOf(HasSubstr("multiples of 8"), HasSubstr("model.stages"), HasSubstr("task.window")));
}

TEST(Segmenter, RefusesWhatItCannotRead) {
  const auto refusal = [](const DatasetInfo& data, const std::string& options) {
    return message_of<Error>([&] { testing::make_model("segmenter", data, options); });
  };
  EXPECT_THAT(refusal(pictures(8, 8), "{}"), AllOf(HasSubstr("dim"), HasSubstr("set preset to")));
  EXPECT_THAT(refusal(pictures(-1, -1), "{" + kSmall + "}"),
              AllOf(HasSubstr("size"), HasSubstr("differ in size"), HasSubstr("${dataset.crop}")));
  EXPECT_THAT(refusal(pictures(-1, -1), "{" + kSmall + ", size: 10}"),
              mentions("4 does not divide", "10 x 10"));
  EXPECT_THAT(refusal(pictures(8, 8), "{dim: 12, depth: 1, heads: 5, patch_size: 4}"),
              HasSubstr("5 heads do not divide dim 12"));
  EXPECT_THAT(refusal(pictures(8, 8, 0), "{" + kSmall + "}"), HasSubstr("'scenes' has none"));
  const auto model = segmenter(pictures(-1, -1), ", size: 8");
  EXPECT_THAT(message_of<ShapeError>([&] {
                masks_of(*model, at::randn({1, 3, 8, 10}));
              }),
              AllOf(HasSubstr("multiples of patch_size 4"), HasSubstr("dataset.crop"),
                    HasSubstr("task.window")));
}

}  // namespace
}  // namespace attnlab::segmenter_test
