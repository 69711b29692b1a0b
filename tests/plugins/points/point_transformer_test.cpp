// The point transformer: a cloud's output is its own, and sizes are as published.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "framework/nn/modules/sizes_alone.h"
#include "framework/nn/points/curves.h"
#include "framework/nn/points/patches.h"
#include "tests/plugins/points/clouds.h"
#include "tests/support/data_files.h"
#include "tests/support/noted_places.h"
#include "tests/support/plugins.h"

namespace attnlab::point_transformer_test {
namespace {

using attnlab::testing::mentions;
using testing::Cloud;
using ::testing::HasSubstr;
using testing::message_of;
using testing::random_cloud;

constexpr const char* kSmall =
    "{encoder_depths: [1, 2, 1], encoder_dims: [8, 8, 16], encoder_heads: [1, 2, 2], "
    "decoder_depths: [1, 1], decoder_dims: [8, 8], decoder_heads: [2, 2], patch_size: 16, "
    "mlp_ratio: 1";

DatasetInfo voxel_data(std::int64_t classes = 3, std::int64_t channels = 4) {
  DatasetInfo data;
  data.name = "clouds";
  data.classes = classes;
  data.fields = {{"grid@voxel", {-1, 3}, at::kLong}, {"feature@voxel", {-1, channels}}};
  return data;
}

std::shared_ptr<Model> model_of(const std::string& options = std::string(kSmall) + "}",
                                const std::string& attention = "standard") {
  at::manual_seed(1);
  auto model = testing::make_model("point_transformer", voxel_data(), options, attention);
  model->to(at::kDouble);
  model->eval();
  return model;
}

Batch batch_of(const Tensor& grid, const Tensor& features, const Tensor& offsets) {
  Batch batch;
  batch.size = offsets.size(0) - 1;
  batch.fields = {{"grid@voxel", grid}, {"feature@voxel", features}};
  batch.offsets.set("voxel", offsets);
  return batch;
}

Tensor logits_of(Model& model, const Batch& batch, const char* name = "logits@voxel") {
  ForwardPass pass;
  return model.forward(batch, pass).at(name);
}

/// Clouds of more and of fewer voxels than a patch has.
struct Sample {
  Cloud cloud = random_cloud({150, 5, 60, 1}, 12);
  Tensor features = at::randn({cloud.keys.size(0), 4}, at::kDouble);
  Batch batch() const { return batch_of(cloud.grid, features, cloud.offsets); }
};

TEST(PointTransformer, AnswersForACloudAloneAsInABatch) {
  at::manual_seed(2);
  const Sample sample;
  for (const char* attention : {"standard", "quest", "elliptical"}) {
    const auto model = model_of(std::string(kSmall) + "}", attention);
    const Tensor all = logits_of(*model, sample.batch());
    const auto* end = sample.cloud.offsets.data_ptr<std::int64_t>();
    for (std::int64_t b = 0; b < 4; ++b) {
      const std::int64_t size = end[b + 1] - end[b];
      const Batch alone = batch_of(sample.cloud.grid.narrow(0, end[b], size),
                                   sample.features.narrow(0, end[b], size),
                                   at::tensor({std::int64_t{0}, size}, at::kLong));
      EXPECT_TRUE(at::allclose(logits_of(*model, alone), all.narrow(0, end[b], size), 0, 1e-9))
          << attention << ", cloud " << b;
    }
  }
}

TEST(PointTransformer, DoesNotSeeTheOrderOfVoxels) {
  at::manual_seed(3);
  const Sample sample;
  const auto model = model_of();
  const Tensor all = logits_of(*model, sample.batch());
  const auto* end = sample.cloud.offsets.data_ptr<std::int64_t>();
  std::vector<Tensor> orders;
  for (std::int64_t b = 0; b < 4; ++b) orders.push_back(at::randperm(end[b + 1] - end[b]) + end[b]);
  const Tensor order = at::cat(orders);
  const Batch other = batch_of(sample.cloud.grid.index_select(0, order),
                               sample.features.index_select(0, order), sample.cloud.offsets);
  EXPECT_TRUE(at::allclose(logits_of(*model, other), all.index_select(0, order), 0, 1e-9));
}

TEST(PointTransformer, ReadsFeaturesPlacesAndNeighbours) {
  at::manual_seed(4);
  Sample sample;
  const auto model = model_of();
  const Tensor before = logits_of(*model, sample.batch());
  sample.features[3] += 1;
  const Tensor changed = logits_of(*model, sample.batch()).ne(before).any(1);
  EXPECT_TRUE(changed[3].item<bool>());
  EXPECT_GT(changed.sum().item<std::int64_t>(), 30) << "the whole patch sees it";
  EXPECT_FALSE(changed.slice(0, sample.cloud.offsets[1].item<std::int64_t>()).any().item<bool>())
      << "other clouds do not";
}

TEST(PointTransformer, TakesEmptyCloudsAndSinglePoints) {
  const auto model = model_of();
  const Tensor one = at::zeros({1, 3}, at::kLong), feature = at::ones({1, 4}, at::kDouble);
  const Tensor alone = logits_of(*model, batch_of(one, feature, at::tensor({0, 1}, at::kLong)));
  EXPECT_TRUE(alone.isfinite().all().item<bool>());
  const Tensor beside =
      logits_of(*model, batch_of(one, feature, at::tensor({0, 0, 1, 1}, at::kLong)));
  EXPECT_TRUE(at::allclose(beside, alone, 0, 1e-12));
  const Tensor none = logits_of(*model, batch_of(one.narrow(0, 0, 0), feature.narrow(0, 0, 0),
                                                 at::tensor({0, 0}, at::kLong)));
  EXPECT_EQ(none.size(0), 0);
  model->train();
  EXPECT_TRUE(logits_of(*model, batch_of(one, feature, at::tensor({0, 1}, at::kLong)))
                  .isfinite()
                  .all()
                  .item<bool>());
}

TEST(PointTransformer, ClassifiesClouds) {
  const auto model = model_of(std::string(kSmall) + ", head: cloud}");
  const Sample sample;
  const Tensor logits = logits_of(*model, sample.batch(), "logits");
  EXPECT_EQ(logits.sizes(), (std::vector<std::int64_t>{4, 3}));
  EXPECT_TRUE(logits.isfinite().all().item<bool>());
}

TEST(PointTransformer, ShufflesCurvesInTrainingAlone) {
  const Sample sample;
  const auto model = model_of(std::string(kSmall) + ", drop_path: 0}");
  EXPECT_TRUE(logits_of(*model, sample.batch()).equal(logits_of(*model, sample.batch())));
  model->train();
  std::vector<Tensor> seen;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    at::manual_seed(seed);
    seen.push_back(logits_of(*model, sample.batch()));
  }
  EXPECT_TRUE(std::any_of(seen.begin(), seen.end(),
                          [&](const Tensor& x) { return !at::allclose(x, seen[0], 0, 1e-9); }));
  at::manual_seed(0);
  EXPECT_TRUE(logits_of(*model, sample.batch()).equal(seen[0]));
}

/// A pass whose weights are asked for: outputs, and the last layer's weights.
std::pair<NamedTensors, Tensor> traced(Model& model, const Batch& batch) {
  AttentionTrace trace;
  trace.weights = true;
  ForwardPass pass;
  pass.trace = &trace;
  const NamedTensors outputs = model.forward(batch, pass);
  return {outputs, trace.layers.back().weights};
}

TEST(PointTransformer, SaysWhoseTheLastLayersWeightsAre) {
  at::manual_seed(6);
  const Sample sample;
  const auto model = model_of();
  EXPECT_EQ(traced(*model, sample.batch()).first.size(), 3U);
  ForwardPass plain;
  EXPECT_EQ(model->forward(sample.batch(), plain).size(), 1U) << "who did not ask gets no more";
  // The last block of the decoder is a stage's first, along the z curve: cut by hand.
  const auto [outputs, weights] = traced(*model, sample.batch());
  const Tensor keys = sample.cloud.keys, slots = outputs.at("slots");
  const Patches expected =
      patches_of(sorting_order(curve_codes(keys, Curve::z)), sample.cloud.offsets, 16);
  EXPECT_TRUE(slots.reshape({-1}).equal(expected.slots.source));
  EXPECT_TRUE(outputs.at("token@voxel").equal(at::arange(keys.size(0))));
  EXPECT_EQ(weights.size(0), slots.size(0));
  EXPECT_EQ(weights.size(3), slots.size(1));
}

/// The groups of voxels that were pooled so many times, cut by hand: along the codes of the voxels
/// in them, each pooling >> 3, as published.
Tensor groups_by_hand(const Cloud& cloud, Curve curve, std::int64_t poolings) {
  Tensor keys = cloud.keys, rows = at::arange(keys.size(0));
  for (std::int64_t i = 0; i < poolings; ++i) {
    const UniqueKeys parents = parent_keys(keys);
    keys = parents.keys;
    rows = parents.rows.index_select(0, rows);
  }
  const Tensor codes = curve_codes(cloud.keys, curve), batch = keys.bitwise_right_shift(48);
  const Tensor cut =
      codes.bitwise_and((std::int64_t{1} << 48) - 1).bitwise_right_shift(3 * poolings);
  const Tensor places = at::empty_like(keys).index_copy_(0, rows, cut);
  const Tensor ends = batch.bincount({}, cloud.offsets.size(0) - 1).cumsum(0);
  return patches_of(sorting_order(batch.bitwise_left_shift(48) + places),
                    at::cat({at::zeros({1}, at::kLong), ends}), 16)
      .slots.source;
}

/// Blocks of each stage of a classifier, whose last block is the coarsest stage's last.
std::string classifier(const std::string& depths, const std::string& dims) {
  return "{encoder_depths: " + depths + ", encoder_dims: " + dims +
         ", encoder_heads: " + std::string(dims == "[8]" ? "[1]" : "[1, 1, 1]") +
         ", patch_size: 16, mlp_ratio: 1, drop_path: 0, head: cloud}";
}

TEST(PointTransformer, TakesTheCurvesInTurn) {
  const Sample sample;
  for (int blocks = 1; blocks <= 6; ++blocks) {
    const auto model = model_of(classifier("[" + std::to_string(blocks) + "]", "[8]"));
    const Tensor slots = traced(*model, sample.batch()).first.at("slots").reshape({-1});
    const Curve curve = kCurves[std::size_t(blocks - 1) % 4];
    EXPECT_TRUE(slots.equal(groups_by_hand(sample.cloud, curve, 0))) << blocks;
  }
}

TEST(PointTransformer, OrdersPooledVoxelsByTheCodesOfThoseInThem) {
  const Sample sample;
  for (int blocks = 1; blocks <= 4; ++blocks) {
    const auto model = model_of(classifier("[1, 1, " + std::to_string(blocks) + "]", "[8, 8, 8]"));
    const Tensor slots = traced(*model, sample.batch()).first.at("slots").reshape({-1});
    const Curve curve = kCurves[std::size_t(blocks - 1)];
    EXPECT_TRUE(slots.equal(groups_by_hand(sample.cloud, curve, 2))) << blocks;
  }
}

// One block a stage, all along the z curve.
TEST(PointTransformer, TellsEveryLayerWhereVoxelsOfItsSizeStand) {
  at::manual_seed(8);
  const Sample sample;
  std::vector<testing::NotedPlaces> noted;
  const auto model = testing::noting_places("point_transformer", voxel_data(),
                                            classifier("[1, 1, 1]", "[8, 8, 8]"), noted);
  model->to(at::kDouble);
  model->eval();
  logits_of(*model, sample.batch(), "logits");
  ASSERT_EQ(noted.size(), 3U);
  Tensor grid = sample.cloud.grid, keys = sample.cloud.keys;
  for (std::int64_t level = 0; level < 3; ++level) {
    if (level > 0) keys = parent_keys(keys).keys;
    const Tensor slots = groups_by_hand(sample.cloud, Curve::z, level);
    const Tensor expected = voxel_places(keys)
                                .index_select(0, slots.clamp_min(0))
                                .masked_fill(slots.lt(0).unsqueeze(1), 0);
    const testing::NotedPlaces& told = noted[std::size_t(level)];
    EXPECT_EQ(told.layer, level);
    EXPECT_TRUE(told.queries.is_same(told.keys));
    EXPECT_TRUE(told.keys.view({-1, 3}).to(at::kLong).equal(expected)) << level;
  }
  EXPECT_EQ(noted[2].keys.max().item<double>(), double(grid.max().item<std::int64_t>() / 4));
}

TEST(PointTransformer, DrawsTheOrderOfCurvesAtEachPooling) {
  const Sample sample;
  const auto model = model_of(classifier("[1, 1, 1]", "[8, 8, 8]"));
  model->train();
  bool differs = false;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    at::manual_seed(seed);
    std::vector<std::int64_t> first;  // of the input's curves, and of each pooling's
    for (int i = 0; i < 3; ++i) first.push_back(at::randperm(4, at::kLong)[0].item<std::int64_t>());
    differs = differs || (first[2] != first[0] && first[2] != first[1]);
    at::manual_seed(seed);
    const Tensor slots = traced(*model, sample.batch()).first.at("slots").reshape({-1});
    EXPECT_TRUE(slots.equal(groups_by_hand(sample.cloud, kCurves[std::size_t(first[2])], 2)));
  }
  EXPECT_TRUE(differs);
}

TEST(PointTransformer, SaysWhereVoxelsOfAnyOrderAre) {
  at::manual_seed(7);
  const Cloud cloud = random_cloud({80}, 10);
  const Tensor features = at::randn({cloud.keys.size(0), 4}, at::kDouble);
  const Tensor order = at::randperm(cloud.keys.size(0));
  const Tensor grid = cloud.grid.index_select(0, order);
  const auto by_voxel = model_of();
  const auto [outputs, weights] =
      traced(*by_voxel, batch_of(grid, features.index_select(0, order), cloud.offsets));
  EXPECT_TRUE(outputs.at("token@voxel").equal(order)) << "tokens are voxels, sorted by their keys";
  // The last layer of a classifier sees voxels of four times the size.
  const auto by_cloud = model_of(std::string(kSmall) + ", head: cloud}");
  const NamedTensors whole =
      traced(*by_cloud, batch_of(grid, features.index_select(0, order), cloud.offsets)).first;
  const Tensor coarse = at::floor_divide(grid, 4), token = whole.at("token@voxel");
  for (std::int64_t i = 0; i < grid.size(0); ++i) {
    for (std::int64_t j = 0; j < i; ++j) {
      EXPECT_EQ(token[i].equal(token[j]), coarse[i].equal(coarse[j])) << i << ", " << j;
    }
  }
  const Tensor named = whole.at("slots").reshape({-1});
  EXPECT_EQ(named.max().item<std::int64_t>(), token.max().item<std::int64_t>());
}

std::int64_t parameters_of(const std::string& preset) {
  const SizesAlone sizes;
  return testing::parameter_count(
      *testing::make_model("point_transformer", voxel_data(16), "{preset: " + preset + "}"));
}

// The published model has 46.2 million parameters.
TEST(PointTransformer, HasThePublishedSizes) {
  EXPECT_NEAR(double(parameters_of("ptv3")), 46.2e6, 0.1e6);
}

// A block of d channels: 27 d^2 of the convolution, d^2 behind it, 4 d^2 of attention, 8 d^2 of the
// MLP, and 17 d of norms and biases.
TEST(PointTransformer, HasTheSizesOfItsSmallPreset) {
  const auto block = [](std::int64_t d) { return 40 * d * d + 17 * d; };
  const auto mapped = [](std::int64_t in, std::int64_t out) { return in * out + 3 * out; };
  const std::int64_t stem = 125 * 4 * 32 + 2 * 32, head = 32 * 16 + 16;
  const std::int64_t encoder =
      2 * (block(32) + block(64) + block(128)) + mapped(32, 64) + mapped(64, 128);
  const std::int64_t decoder =
      block(64) + block(32) + mapped(128, 64) + mapped(64, 64) + mapped(64, 32) + mapped(32, 32);
  EXPECT_EQ(stem + encoder + decoder + head, 1977712);
  EXPECT_EQ(parameters_of("lite"), 1977712);
}

// Encoders of 1, 2 and 1 blocks, then decoders of 1 and 1, the coarser one first.
TEST(PointTransformer, BlocksLieBehindEachOther) {
  const auto model = model_of();
  std::map<std::string, std::int64_t> found;
  for (const auto& item : model->named_parameters()) {
    const std::string module = item.key().substr(0, item.key().find('.'));
    const std::int64_t depth = model->depth(item.key());
    EXPECT_EQ(found.emplace(module, depth).first->second, depth) << item.key();
  }
  const std::map<std::string, std::int64_t> expected = {{"stem", 0},
                                                        {"encoder0_block0", 1},
                                                        {"pooling1", 2},
                                                        {"encoder1_block0", 2},
                                                        {"encoder1_block1", 3},
                                                        {"pooling2", 4},
                                                        {"encoder2_block0", 4},
                                                        {"unpooling1", 5},
                                                        {"decoder1_block0", 5},
                                                        {"unpooling0", 6},
                                                        {"decoder0_block0", 6},
                                                        {"head", 7}};
  EXPECT_EQ(found, expected);
}

TEST(PointTransformer, NamesVoxelsThatStandTwice) {
  const auto model = model_of();
  const Tensor grid = at::tensor({1, 2, 3, 0, 0, 0, 1, 2, 3}, at::kLong).view({3, 3});
  const Batch batch = batch_of(grid, at::zeros({3, 4}, at::kDouble), at::tensor({0, 3}, at::kLong));
  EXPECT_THAT(message_of<DataError>([&] { logits_of(*model, batch); }),
              mentions("row 2", "another voxel"));
}

TEST(PointTransformer, NamesListsThatContradict) {
  EXPECT_THAT(message_of<ConfigError>([] { model_of("{encoder_dims: [8, 8]}"); }),
              HasSubstr("encoder_dims: has 2 numbers, expected 3"));
  EXPECT_THAT(message_of<ConfigError>([] { model_of("{encoder_heads: [3, 4, 8]}"); }),
              mentions("encoder_heads:", "3 heads", "32 channels"));
}

}  // namespace
}  // namespace attnlab::point_transformer_test
