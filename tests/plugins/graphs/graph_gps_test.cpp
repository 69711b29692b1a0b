// graph_gps against loops in double precision, and what a graph must not know of others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/naive_graphs.h"
#include "tests/support/plugins.h"

namespace attnlab {
namespace {

using testing::NaiveGraphs;
using testing::Rows;
using testing::rows_of;
using testing::tensor_of;

constexpr std::int64_t kWalks = 3, kVectors = 4;

/// Graphs with every kind of field.
DatasetInfo graphs() {
  DatasetInfo data;
  data.name = "graphs";
  data.classes = 3;
  data.fields = {{"x@node", {-1, 3}},
                 {"edges@edge>node", {-1, 2}, at::kLong},
                 {"e@edge", {-1, 2}},
                 {"rwse@node", {-1, kWalks}},
                 {"lap_vectors@node", {-1, kVectors}},
                 {"lap_values@node", {-1, kVectors}},
                 {"lap_valid@node", {-1, kVectors}, at::kBool},
                 {"class", {}, at::kLong, {}, 3}};
  return data;
}

NamedTensors graph_of(std::int64_t nodes, std::int64_t edges) {
  return {{"x@node", at::randn({nodes, 3}, at::kDouble)},
          {"edges@edge>node", at::randint(nodes, {edges, 2}, at::kLong)},
          {"e@edge", at::randn({edges, 2}, at::kDouble)},
          {"rwse@node", at::rand({nodes, kWalks}, at::kDouble)},
          {"lap_vectors@node", at::randn({nodes, kVectors}, at::kDouble)},
          {"lap_values@node", at::rand({nodes, kVectors}, at::kDouble)},
          {"lap_valid@node", at::rand({nodes, kVectors}).gt(0.3)},
          {"class", at::randint(3, {}, at::kLong)}};
}

/// Of 5, 1 and 8 nodes; the one of a single node has no edges.
std::vector<NamedTensors> examples() { return {graph_of(5, 9), graph_of(1, 0), graph_of(8, 20)}; }

Batch batch_of(const std::vector<NamedTensors>& graphs_of_batch) {
  return collated(graphs_of_batch, graphs().fields);
}

std::shared_ptr<Model> gps(const std::string& options, const std::string& attention = "standard",
                           const DatasetInfo& data = graphs()) {
  auto model = testing::make_model("graph_gps", data, options, attention);
  model->to(at::kDouble);
  const at::NoGradGuard no_gradients;
  for (Tensor& parameter : model->parameters()) parameter.add_(at::randn_like(parameter), 0.2);
  for (Tensor& buffer : model->buffers()) buffer.uniform_(0.5, 1.5);
  return model;
}

Tensor answer(Model& model, const Batch& batch, ForwardPass pass = {}) {
  return model.forward(batch, pass).begin()->second;
}

const std::string kSmall = "dim: 8, heads: 2, depth: 2, attention_dropout: 0, encoding_dim: 2";

class GraphGps : public ::testing::Test {
 protected:
  void SetUp() override { at::manual_seed(11); }
};

/// The whole model by loops. @param places  the encoding of each node's place; may have no channels
Tensor by_loops(const NaiveGraphs& naive, const Batch& batch, const Rows& places, bool mean) {
  Rows h = naive.linear(rows_of(batch.fields.at("x@node")), "nodes.x");
  for (std::size_t i = 0; i < h.size(); ++i) {
    h[i].insert(h[i].end(), places[i].begin(), places[i].end());
  }
  Rows e = naive.linear(rows_of(batch.fields.at("e@edge")), "edges.e");
  std::vector<std::size_t> offsets;
  const Tensor& begins = batch.offsets.at("node");
  for (std::int64_t g = 0; g < begins.size(0); ++g) {
    offsets.push_back(static_cast<std::size_t>(begins[g].item<std::int64_t>()));
  }
  const auto edges = testing::edges_of(batch.fields.at("edges@edge>node"));
  for (const char* layer : {"layer0", "layer1"})
    h = naive.gps_layer(h, e, edges, offsets, 2, layer);
  Rows pooled;
  for (std::size_t g = 0; g + 1 < offsets.size(); ++g) {
    pooled.emplace_back(h[0].size(), 0);
    for (std::size_t i = offsets[g]; i < offsets[g + 1]; ++i) {
      for (std::size_t c = 0; c < h[i].size(); ++c) {
        pooled[g][c] += h[i][c] / (mean ? double(offsets[g + 1] - offsets[g]) : 1);
      }
    }
  }
  return tensor_of(naive.linear(pooled, "head.map0"));
}

Rows no_places(const Batch& batch) {
  return Rows(static_cast<std::size_t>(rows_of(batch, "node")));
}

TEST_F(GraphGps, AgainstLoops) {
  const Batch batch = batch_of(examples());
  for (const std::string form :
       {"mpnn: gine, pool: sum", "mpnn: gated_gcn", "mpnn: gine, global: false",
        "mpnn: gated_gcn, global: false, pool: sum"}) {
    for (const bool training : {true, false}) {
      const auto model = gps("{" + kSmall + ", " + form + "}");
      model->train(training);
      const NaiveGraphs naive(*model, training);
      const bool mean = form.find("sum") == std::string::npos;
      const Tensor expected = by_loops(naive, batch, no_places(batch), mean);
      EXPECT_TRUE(answer(*model, batch).allclose(expected, 0, 1e-10)) << form << training;
    }
  }
}

TEST_F(GraphGps, PureTransformerAgainstLoopsOfALayerWithoutMessages) {
  const Batch batch = batch_of(examples());
  const auto model = gps("{" + kSmall + ", mpnn: none}");
  for (const auto& item : model->named_parameters()) {
    EXPECT_THAT(item.key(), ::testing::Not(::testing::HasSubstr("edge")));
  }
  Rows h = NaiveGraphs(*model, true).linear(rows_of(batch.fields.at("x@node")), "nodes.x"), none;
  for (const char* layer : {"layer0", "layer1"}) {
    h = NaiveGraphs(*model, true).gps_layer(h, none, {}, {0, 5, 6, 14}, 2, layer);
  }
  const Tensor nodes = tensor_of(h);
  const Tensor pooled =
      at::stack({nodes.slice(0, 0, 5).mean(0), nodes[5], nodes.slice(0, 6).mean(0)});
  const Tensor expected = tensor_of(NaiveGraphs(*model, true).linear(rows_of(pooled), "head.map0"));
  EXPECT_TRUE(answer(*model, batch).allclose(expected, 0, 1e-10));
}

TEST_F(GraphGps, PlacesByRandomWalks) {
  const Batch batch = batch_of(examples());
  const auto model = gps("{" + kSmall + ", encoding: rwse}");
  const NaiveGraphs naive(*model, true);
  const Rows walks = rows_of(batch.fields.at("rwse@node"));
  const Rows places = naive.linear(naive.batch_norm(walks, "place.norm"), "place.linear");
  EXPECT_TRUE(answer(*model, batch).allclose(by_loops(naive, batch, places, true), 0, 1e-10));
}

/// The DeepSet over eigenvectors, by loops. @param signs  of each
Rows eigen_places(const NaiveGraphs& naive, const Batch& batch, const std::vector<double>& signs) {
  const Tensor &vectors = batch.fields.at("lap_vectors@node"),
               &values = batch.fields.at("lap_values@node");
  Rows places;
  for (std::int64_t i = 0; i < vectors.size(0); ++i) {
    testing::Row place(2, 0);
    for (std::int64_t k = 0; k < kVectors; ++k) {
      if (!batch.fields.at("lap_valid@node")[i][k].item<bool>()) continue;
      const double sign = signs[static_cast<std::size_t>(k)];
      const Rows pair = {{sign * vectors[i][k].item<double>(), values[i][k].item<double>()}};
      const Rows hidden = testing::rectified(naive.linear(pair, "place.in"));
      place = testing::sum(place, testing::rectified(naive.linear(hidden, "place.out"))[0]);
    }
    places.push_back(place);
  }
  return places;
}

TEST_F(GraphGps, PlacesByEigenvectorsWhoseSignsABatchSharesInTraining) {
  const Batch batch = batch_of(examples());
  const auto model = gps("{" + kSmall + ", encoding: laplacian}");
  {  // no channel may be cut off by its ReLU: else some signs could not be told apart
    const at::NoGradGuard no_gradients;
    for (const char* bias : {"place.in.bias", "place.out.bias"}) {
      model->named_parameters()[bias].fill_(1.5);
    }
  }
  model->eval();
  const NaiveGraphs naive(*model, false);
  const Rows plain = eigen_places(naive, batch, {1, 1, 1, 1});
  EXPECT_TRUE(answer(*model, batch).allclose(by_loops(naive, batch, plain, true), 0, 1e-10));
  model->train();
  const NaiveGraphs training(*model, true);
  std::set<int> seen;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    at::manual_seed(seed);
    const Tensor found = answer(*model, batch);
    int matches = 0;
    for (int bits = 0; bits < 16; ++bits) {
      std::vector<double> signs;
      for (int k = 0; k < 4; ++k) signs.push_back((bits >> k) % 2 == 0 ? 1 : -1);
      const Rows places = eigen_places(training, batch, signs);
      if (!found.allclose(by_loops(training, batch, places, true), 0, 1e-10)) continue;
      ++matches;
      seen.insert(bits);
    }
    EXPECT_EQ(matches, 1) << "seed " << seed;
    if (seen.size() > 3) break;
  }
  EXPECT_GT(seen.size(), 3u);
}

/// A graph's nodes in another order: node i becomes node to[i].
NamedTensors permuted(const NamedTensors& graph, const Tensor& to) {
  NamedTensors other = graph;
  const Tensor from = to.argsort();
  for (const auto& [name, tensor] : graph) {
    if (parse_field_name(name).axis == "node") other.set(name, tensor.index_select(0, from));
  }
  const Tensor& edges = graph.at("edges@edge>node");
  other.set("edges@edge>node", to.index_select(0, edges.flatten()).view(edges.sizes()));
  return other;
}

TEST_F(GraphGps, PermutingNodesPermutesOutputs) {
  const NamedTensors graph = graph_of(8, 20), other = graph_of(4, 6);
  const Tensor to = at::randperm(8, at::kLong);
  DatasetInfo data = graphs();
  for (const std::string attention : {"standard", "quest", "elliptical", "linear"}) {
    const auto model =
        gps("{" + kSmall + ", encoding: laplacian, head: node, head_layers: 2}", attention);
    model->eval();
    const Tensor plain = answer(*model, batch_of({graph, other}));
    const Tensor moved = answer(*model, batch_of({permuted(graph, to), other}));
    EXPECT_TRUE(moved.slice(0, 0, 8).index_select(0, to).allclose(plain.slice(0, 0, 8), 0, 1e-10))
        << attention;
    EXPECT_TRUE(moved.slice(0, 8).allclose(plain.slice(0, 8), 0, 1e-10)) << attention;
  }
}

TEST_F(GraphGps, AGraphGivesTheSameAloneAndInAnyBatchInEvaluation) {
  const std::vector<NamedTensors> all = examples();
  const auto model = gps("{" + kSmall + ", encoding: rwse}");
  model->eval();
  const Tensor together = answer(*model, batch_of(all));
  const Tensor backwards = answer(*model, batch_of({all[2], all[1], all[0]})).flip(0);
  EXPECT_TRUE(together.allclose(backwards, 0, 1e-12));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Tensor alone = answer(*model, batch_of({all[i]}));
    EXPECT_TRUE(alone.allclose(together.narrow(0, static_cast<std::int64_t>(i), 1), 0, 1e-12)) << i;
  }
}

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

TEST_F(GraphGps, AnAttentionThatSeesAcrossGraphsIsCaughtByAGraphThatIsAlone) {
  const DatasetInfo data = graphs();
  const auto model = testing::registry().model(
      testing::make_part(Kind::model, "graph_gps", "{" + kSmall + "}"),
      {data, [](const AttentionShape& shape) { return std::make_shared<Leaking>(shape); }});
  model->to(at::kDouble);
  model->eval();
  const std::vector<NamedTensors> all = examples();
  const Tensor together = answer(*model, batch_of(all));
  EXPECT_FALSE(answer(*model, batch_of({all[0]})).allclose(together.narrow(0, 0, 1), 0, 1e-6));
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
}

std::string refusal(const std::string& options) {
  try {
    gps(options);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST_F(GraphGps, RefusesWhatCannotBe) {
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal("{dim: 8, heads: 3}"), HasSubstr("3 heads do not divide dim 8"));
  EXPECT_THAT(refusal("{dim: 8, heads: 2, mpnn: none, global: false}"), HasSubstr("leave one"));
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
  try {
    answer(*model, batch);
    FAIL() << "nothing was thrown";
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "type@node: the batch has a value that is not 0 to 3");
  }
}

}  // namespace
}  // namespace attnlab
