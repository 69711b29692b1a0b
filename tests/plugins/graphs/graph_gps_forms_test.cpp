// graph_gps: the forms of its input, what it begins with, what it refuses, and attentions that it
// must not be given.
#include <cmath>
#include <set>

#include "tests/support/data_files.h"
#include "tests/support/graph_gps_models.h"

namespace attnlab::graph_gps_forms_test {
namespace {

using attnlab::testing::mentions;
using attnlab::testing::says;
using ::testing::AllOf;
using testing::answer;
using testing::batch_of;
using ::testing::Each;
using testing::examples;
using testing::gps;
using testing::gps_with;
using testing::graph_of;
using testing::GraphGps;
using testing::graphs;
using ::testing::HasSubstr;
using testing::kSmall;
using testing::message_of;

/// Promises to keep sequences apart, and does not.
class Leaking final : public Attention {
 public:
  explicit Leaking(const AttentionShape& shape)
      : Attention(shape, AttentionTraits::all_quadratic()) {}

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext&) override {
    return input.values.mean(2, /*keepdim=*/true).expand_as(input.queries);
  }
};

/// The largest difference between a graph's answer alone and beside others.
double alone_against_together(Model& model) {
  model.eval();
  const std::vector<NamedTensors> all = examples();
  const Tensor together = answer(model, batch_of(all));
  double largest = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Tensor alone = answer(model, batch_of({all[i]}));
    const Tensor difference = alone - together.narrow(0, static_cast<std::int64_t>(i), 1);
    largest = std::max(largest, difference.abs().max().item<double>());
  }
  return largest;
}

TEST_F(GraphGps, NoInstalledAttentionSeesAcrossGraphs) {
  std::set<std::string> names;
  for (const char* trait : {"ragged", "padding"}) {
    for (const std::string& name : testing::attentions_with(trait)) names.insert(name);
  }
  EXPECT_GT(names.size(), 5u);
  for (const std::string& name : names) {
    EXPECT_LT(alone_against_together(*gps("{" + kSmall + "}", name)), 1e-9) << name;
  }
  const auto leaking =
      gps_with([](const AttentionShape& shape) { return std::make_shared<Leaking>(shape); });
  EXPECT_GT(alone_against_together(*leaking), 1e-6) << "such a leak would go unnoticed";
}

/// Standard attention for those who know padding alone.
class PaddedOnly final : public Attention {
 public:
  PaddedOnly(const AttentionShape& shape, std::vector<std::int64_t>& batches)
      : Attention(shape, {.padding = true}), batches_(batches) {}

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext&) override {
    batches_.push_back(input.batch());
    const double scale = 1 / std::sqrt(double(shape().head_dim));
    const Tensor hidden = input.visible.key_valid.logical_not().view({input.batch(), 1, 1, -1});
    const Tensor logits = at::matmul(input.queries, input.keys.transpose(2, 3)) * scale;
    const Tensor weights = logits.masked_fill(hidden, -1e30).softmax(-1);
    return at::matmul(weights, input.values) *
           input.visible.query_valid.view({input.batch(), 1, -1, 1}).to(weights.dtype());
  }

 private:
  std::vector<std::int64_t>& batches_;
};

TEST_F(GraphGps, PadsForAnAttentionThatKnowsPaddingAlone) {
  const Batch batch = batch_of(examples());
  std::vector<std::int64_t> batches;
  const auto padded = gps_with(
      [&](const AttentionShape& shape) { return std::make_shared<PaddedOnly>(shape, batches); });
  const auto ragged = gps("{" + kSmall + "}");
  const at::NoGradGuard no_gradients;
  auto parameters = ragged->named_parameters();
  for (const auto& item : padded->named_parameters()) parameters[item.key()].copy_(item.value());
  auto buffers = ragged->named_buffers();
  for (const auto& item : padded->named_buffers()) buffers[item.key()].copy_(item.value());
  for (const bool training : {false, true}) {
    ragged->train(training);
    padded->train(training);
    batches.clear();
    EXPECT_TRUE(answer(*padded, batch).allclose(answer(*ragged, batch), 0, 1e-10)) << training;
    EXPECT_THAT(batches, AllOf(::testing::SizeIs(2), Each(3)));  // two layers, three graphs
  }
}

/// Knows of nobody but itself.
class Neither final : public Attention {
 public:
  explicit Neither(const AttentionShape& shape) : Attention(shape, AttentionTraits{}) {}

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext&) override { return input.values; }
};

TEST_F(GraphGps, RefusesAnAttentionThatCannotKeepGraphsApart) {
  EXPECT_THAT(
      message_of<TraitError>([] {
        gps_with([](const AttentionShape& shape) { return std::make_shared<Neither>(shape); });
      }),
      mentions("Neither", "'ragged'", "'padding'", "choose another attention"));
}

TEST_F(GraphGps, PaddedAndEndToEndAreTheSame) {
  const Batch batch = batch_of(examples());
  for (const std::string attention : {"standard", "quest", "elliptical"}) {
    const auto model = gps("{" + kSmall + "}", attention);
    AttentionTrace trace;
    trace.weights = true;
    ForwardPass pass;
    pass.trace = &trace;  // recorded of the padded form
    EXPECT_TRUE(answer(*model, batch, pass).allclose(answer(*model, batch), 0, 1e-10)) << attention;
    ASSERT_EQ(trace.layers.size(), 2u);
    EXPECT_EQ(trace.layers[0].weights.sizes(), at::IntArrayRef({3, 2, 8, 8}));
  }
}

TEST_F(GraphGps, OneVectorForAllEdgesWhereTheyHaveNoFeatures) {
  DatasetInfo data = graphs();
  std::erase_if(data.fields, [](const FieldInfo& field) { return field.name == "e@edge"; });
  const auto model = gps("{" + kSmall + ", mpnn: gine}", "standard", data);
  EXPECT_EQ(model->named_parameters()["edge"].sizes(), at::IntArrayRef({1, 8}));
  answer(*model, batch_of(examples())).sum().backward();
  EXPECT_GT(model->named_parameters()["edge"].grad().abs().sum().item<double>(), 0);
}

/// Whether numbers lie within a bound and come near it, about 0.
void expect_uniform(const Tensor& values, double bound, const std::string& what) {
  EXPECT_LE(values.abs().max().item<double>(), bound * (1 + 1e-6)) << what;
  EXPECT_GT(values.max().item<double>(), 0.9 * bound) << what;
  EXPECT_LT(values.min().item<double>(), -0.9 * bound) << what;
  // Of a uniform distribution: within five deviations of the mean.
  const double deviation = bound / std::sqrt(3.0 * double(values.numel()));
  EXPECT_LT(std::abs(values.mean().item<double>()), 5 * deviation) << what;
}

TEST_F(GraphGps, LeavesFeaturesOfEdgesOutWhereAsked) {
  const auto model = gps("{" + kSmall + ", mpnn: gine, edge_features: false}");
  EXPECT_EQ(model->named_parameters()["edge"].sizes(), at::IntArrayRef({1, 8}));
  const Batch batch = batch_of(examples());
  Batch other = batch;
  other.fields.set("e@edge", batch.fields.at("e@edge") + 1);
  EXPECT_TRUE(answer(*model, batch).equal(answer(*model, other)));
  const auto reads = gps("{" + kSmall + ", mpnn: gine}");
  EXPECT_FALSE(answer(*reads, batch).allclose(answer(*reads, other)));
}

TEST_F(GraphGps, StartsPublishedGraphLayersByGlorotsRule) {
  DatasetInfo data = graphs();
  std::erase_if(data.fields, [](const FieldInfo& field) { return field.name == "e@edge"; });
  data.fields[0].shape = {-1, 300};
  for (const std::string mpnn : {"gcn", "gat", "sage"}) {
    const auto model = testing::make_model(
        "graph_gps", data,
        "{dim: 64, depth: 3, heads: 4, layer: plain, head: node, mpnn: " + mpnn + "}");
    const auto all = model->named_parameters();
    expect_uniform(all["nodes.x.weight"], std::sqrt(6.0 / (300 + 64)), mpnn);
    const std::string map = mpnn == "sage" ? "layer1.local.neighbours" : "layer1.local.map";
    expect_uniform(all[map + ".weight"], std::sqrt(6.0 / (64 + 64)), mpnn);
    expect_uniform(all["head.map0.weight"], std::sqrt(6.0 / (64 + 3)), mpnn);
    EXPECT_TRUE(all["head.map0.bias"].eq(0).all().item<bool>());
    EXPECT_EQ(all.contains("layer0.local.map.weight"), false) << "the encoder's is its map";
    if (mpnn == "gat") {
      EXPECT_EQ(all["layer0.local.source"].sizes(), at::IntArrayRef({8, 8}));
      expect_uniform(all["layer0.local.source"], std::sqrt(6.0 / (8 + 1)), "vectors");
    }
  }
}

std::int64_t parameters_of(const std::string& options, const DatasetInfo& data) {
  std::int64_t sum = 0;
  for (const Tensor& parameter : testing::make_model("graph_gps", data, options)->parameters()) {
    sum += parameter.numel();
  }
  return sum;
}

/// Published sizes (QUEST, tables A10 and A11), less the last layer's edge norm, 2 dim.
TEST_F(GraphGps, HasAsManyParametersAsPublished) {
  DatasetInfo zinc;
  zinc.name = "zinc";
  zinc.fields = {{"type@node", {-1}, at::kLong, {}, 28},
                 {"edge_type@edge", {-1}, at::kLong, {}, 4},
                 {"rwse@node", {-1, 20}},
                 {"labels", {1}}};
  EXPECT_EQ(
      parameters_of("{dim: 64, depth: 10, heads: 4, mpnn: gine, encoding: rwse, encoding_dim: "
                    "28, head_layers: 3, head_halves: true, pool: sum}",
                    zinc),
      423717);
  DatasetInfo cifar;
  cifar.name = "superpixels";
  cifar.classes = 10;
  cifar.fields = {{"x@node", {-1, 5}}, {"e@edge", {-1, 1}}, {"lap_vectors@node", {-1, 8}}};
  EXPECT_EQ(parameters_of("{dim: 52, depth: 3, heads: 4, encoding: laplacian, encoding_dim: 8, "
                          "head_layers: 2}",
                          cifar),
            112726 - 2 * 52);
  DatasetInfo peptides;
  peptides.name = "peptides";
  peptides.fields = {{"atom@node", {-1, 9}, at::kLong, {}, 174},
                     {"bond@edge", {-1, 3}, at::kLong, {}, 13},
                     {"lap_vectors@node", {-1, 10}},
                     {"labels", {10}}};
  // OGB knew one kind of chirality less then: 80 numbers of the atoms' table.
  EXPECT_EQ(parameters_of("{dim: 96, depth: 4, heads: 4, encoding: laplacian, encoding_dim: 16}",
                          peptides),
            504362 + 80 - 2 * 96);
  DatasetInfo pattern;
  pattern.name = "pattern";
  pattern.classes = 2;
  pattern.fields = {{"x@node", {-1, 3}}, {"lap_vectors@node", {-1, 16}}};
  const std::string node_head =
      "encoding: laplacian, encoding_dim: 16, head: node, head_layers: 3}";
  // Two logits here, one there.
  EXPECT_EQ(parameters_of("{dim: 64, depth: 6, heads: 4, " + node_head, pattern),
            337201 + 65 - 2 * 64);
  DatasetInfo cluster;
  cluster.name = "cluster";
  cluster.classes = 6;
  cluster.fields = {{"x@node", {-1, 7}}, {"lap_vectors@node", {-1, 10}}};
  EXPECT_EQ(parameters_of("{dim: 48, depth: 16, heads: 8, " + node_head, cluster), 502054 - 2 * 48);
  for (const auto& [classes, published] : {std::pair{21, 510453}, std::pair{81, 516273}}) {
    DatasetInfo superpixels;
    superpixels.name = "superpixels";
    superpixels.classes = classes;
    superpixels.fields = {
        {"x@node", {-1, 14}}, {"e@edge", {-1, 2}}, {"lap_vectors@node", {-1, 10}}};
    EXPECT_EQ(parameters_of("{dim: 96, depth: 4, heads: 8, " + node_head, superpixels),
              published - 2 * 96);
  }
}

TEST_F(GraphGps, StartsAsPyTorchAndOgbDo) {
  DatasetInfo data = graphs();
  data.fields.push_back({"type@node", {-1}, at::kLong, {}, 40});
  data.fields.push_back({"atom@node", {-1, 9}, at::kLong, {}, 174});
  data.fields.push_back({"bond@edge", {-1, 3}, at::kLong, {}, 13});
  const auto model = testing::make_model(
      "graph_gps", data, "{dim: 64, depth: 2, heads: 4, encoding: rwse, encoding_dim: 16}");
  const auto all = model->named_parameters();
  for (const std::string layer : {"layer0.", "layer1."}) {
    // nn.MultiheadAttention: Xavier's rule for the packed map of 64 to 192, no biases.
    expect_uniform(all[layer + "attention.qkv.weight"], std::sqrt(6.0 / (64 + 192)), "qkv");
    EXPECT_TRUE(all[layer + "attention.qkv.bias"].eq(0).all().item<bool>());
    expect_uniform(all[layer + "attention.output.weight"], 1 / std::sqrt(64.0), "output");
    EXPECT_TRUE(all[layer + "attention.output.bias"].eq(0).all().item<bool>());
    // nn.Linear: by what comes in.
    expect_uniform(all[layer + "local.nodes.weight"], 1 / std::sqrt(64.0), "messages");
    expect_uniform(all[layer + "out.weight"], 1 / std::sqrt(128.0), "out");
    expect_uniform(all[layer + "in.bias"], 1 / std::sqrt(64.0), "in");
    EXPECT_TRUE(all[layer + "norm.weight"].eq(1).all().item<bool>());
    EXPECT_TRUE(all[layer + "norm.bias"].eq(0).all().item<bool>());
  }
  // Xavier's rule for a column of average size; 48 channels are left for a node's features.
  expect_uniform(all["nodes.atom.table"], std::sqrt(6 / (174 / 9.0 + 48)), "atoms");
  expect_uniform(all["edges.bond.table"], std::sqrt(6 / (13 / 3.0 + 64)), "bonds");
  // nn.Embedding: normal.
  const Tensor& types = all["nodes.type.table"];
  EXPECT_NEAR(types.std().item<double>(), 1, 0.08);
  EXPECT_GT(types.abs().max().item<double>(), 2.5);
}

std::string refusal(const std::string& options) {
  return message_of<Error>([&] { gps(options); });
}

TEST_F(GraphGps, RefusesWhatCannotBe) {
  EXPECT_THAT(refusal("{dim: 8, heads: 3}"), HasSubstr("3 heads do not divide dim 8"));
  EXPECT_THAT(refusal("{dim: 8, heads: 2, mpnn: none, global: false}"), HasSubstr("leave one"));
  EXPECT_THAT(refusal("{dim: 8, heads: 2, mpnn: gat, mpnn_heads: 3, edge_features: false}"),
              HasSubstr("3 heads do not divide dim 8"));
  for (const std::string mpnn : {"gcn", "gat", "sage"}) {
    EXPECT_THAT(refusal("{dim: 8, heads: 2, mpnn: " + mpnn + "}"),
                mentions(mpnn, "'graphs'", "of edges", "edge_features: false"));
  }
  EXPECT_THAT(refusal("{dim: 8, heads: 2, encoding: rwse, encoding_dim: 8}"),
              HasSubstr("leaves no channel"));
  EXPECT_THAT(refusal("{dim: 8, heads: 2, head_layers: 6, head_halves: true}"),
              HasSubstr("cannot be halved so often"));
  DatasetInfo bare = graphs();
  bare.fields.erase(bare.fields.begin());
  EXPECT_THROW(gps("{" + kSmall + "}", "standard", bare), DataError);
}

TEST_F(GraphGps, NamesACategoryThatIsNone) {
  DatasetInfo data = graphs();
  data.fields.push_back({"type@node", {-1}, at::kLong, {}, 4});
  const auto model = gps("{" + kSmall + "}", "standard", data);
  NamedTensors graph = graph_of(3, 2);
  graph.set("type@node", at::tensor({0, 4, 1}, at::kLong));
  Batch batch = collated({graph}, data.fields);
  EXPECT_THAT(message_of<DataError>([&] { answer(*model, batch); }),
              says({"type@node:", "0 to 3"}));
}

}  // namespace
}  // namespace attnlab::graph_gps_forms_test
