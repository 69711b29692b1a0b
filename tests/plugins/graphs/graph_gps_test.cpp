// graph_gps against loops in double precision, and what a graph must not know of others.
#include "framework/data/graph/graph_dataset.h"
#include "framework/nn/kernels/dropout.h"
#include "tests/support/graph_gps_models.h"

namespace attnlab::graph_gps_test {
namespace {

using testing::answer;
using testing::batch_of;
using testing::by_loops;
using testing::examples;
using testing::gps;
using testing::graph_of;
using testing::GraphGps;
using testing::graphs;
using testing::head_by_loops;
using testing::kSmall;
using testing::kVectors;
using testing::kWalks;
using testing::NaiveGraphs;
using testing::no_places;
using testing::nodes_by_loops;
using testing::pooled_by_loops;
using testing::Rows;
using testing::rows_of;
using testing::tensor_of;

TEST_F(GraphGps, AgainstLoops) {
  const Batch batch = batch_of(examples());
  for (const std::string form :
       {"mpnn: gine, pool: sum", "mpnn: gated_gcn", "mpnn: gine, global: false",
        "mpnn: gated_gcn, global: false, pool: sum", "mpnn: gcn, edge_features: false",
        "mpnn: gat, mpnn_heads: 4, edge_features: false, global: false",
        "mpnn: sage, edge_features: false", "mpnn: gine, layer: plain, pool: sum",
        "mpnn: gated_gcn, layer: plain", "mpnn: none, layer: plain",
        "mpnn: gcn, layer: plain, edge_features: false",
        "mpnn: gat, mpnn_heads: 2, layer: plain, edge_features: false",
        "mpnn: sage, layer: plain, edge_features: false, global: false"}) {
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

TEST_F(GraphGps, HeadsAgainstLoops) {
  const Batch batch = batch_of(examples());
  // The widths that each linear map of the head gives.
  for (const auto& [form, widths] :
       {std::pair{"head: graph, head_layers: 3", std::vector<std::size_t>{8, 8, 3}},
        {"head: graph, head_layers: 3, head_halves: true", {4, 2, 3}},
        {"head: node, head_layers: 3", {8, 8, 3}},
        {"head: link, head_layers: 2", {8, 8}},
        {"head: graph, head_layers: 2, head_l2norm: true", {8, 3}},
        {"head: node, head_layers: 3, head_l2norm: true", {8, 8, 3}},
        {"head: link, head_layers: 2, head_l2norm: true", {8, 8}}}) {
    const auto model = gps("{" + kSmall + ", " + form + "}");
    const NaiveGraphs naive(*model, true);
    for (std::size_t i = 0; i < widths.size(); ++i) {
      EXPECT_EQ(naive.value("head.map" + std::to_string(i) + ".bias").size(), widths[i]) << form;
    }
    Rows rows = nodes_by_loops(naive, batch, no_places(batch));
    const bool pooled = std::string(form).starts_with("head: graph");
    if (pooled) rows = pooled_by_loops(rows, batch, /*mean=*/true);
    const bool l2norm = std::string(form).ends_with("head_l2norm: true");
    EXPECT_TRUE(answer(*model, batch).allclose(head_by_loops(naive, rows, l2norm), 0, 1e-10))
        << form;
  }
}

TEST_F(GraphGps, HiddenRowsOfTheHeadHaveLengthOneAsInGraphGym) {
  const Batch batch = batch_of(examples());
  const auto plain = gps("{" + kSmall + ", head: node, head_layers: 3}");
  const auto model = gps("{" + kSmall + ", head: node, head_layers: 3, head_l2norm: true}");
  EXPECT_EQ(model->named_parameters().keys(), plain->named_parameters().keys());
  // The answers for every node, worked out by hand: the head's first map knows its bias alone.
  for (Model* const each : {plain.get(), model.get()}) {
    const at::NoGradGuard no_gradients;
    auto all = each->named_parameters();
    for (const char* map : {"head.map0", "head.map1", "head.map2"}) {
      all[std::string(map) + ".weight"].zero_();
      all[std::string(map) + ".bias"].zero_();
    }
    // (3, -4, 4, 0, ...): behind the ReLU (3, 0, 4, 0, ...), of length 5.
    all["head.map0.bias"].narrow(0, 0, 3).copy_(at::tensor({3.0, -4.0, 4.0}));
    all["head.map1.weight"][0][0] = 10;
    all["head.map1.weight"][1][2] = 10;
    all["head.map1.weight"][2][0] = -10;
    all["head.map2.weight"][0][0] = 1;
    all["head.map2.weight"][1][1] = 5;
    all["head.map2.bias"][2] = -2;
  }
  const auto expected = [&](double first, double second) {
    return at::tensor({first, second, -2.0}, at::kDouble).expand({14, 3});
  };
  // (30, 40, 0, ...), whose parts are answered once and five times.
  EXPECT_TRUE(answer(*plain, batch).allclose(expected(30, 200), 0, 1e-12));
  // (0.6, 0, 0.8, 0, ...), then (6, 8, 0, ...) over its length of 10; the answer keeps its own.
  EXPECT_TRUE(answer(*model, batch).allclose(expected(0.6, 4), 0, 1e-12));
  {
    const at::NoGradGuard no_gradients;
    model->named_parameters()["head.map0.bias"].fill_(-1);
  }
  const Tensor zeros = answer(*model, batch);  // rows of zeros have no length
  EXPECT_TRUE(zeros.allclose(expected(0, 0), 0, 1e-12));
  zeros.sum().backward();
  for (const Tensor& parameter : model->parameters()) {
    if (parameter.grad().defined()) {
      EXPECT_TRUE(parameter.grad().isfinite().all().item<bool>());
    }
  }
}

/// Columns of OGB's kind, whose values follow those of the columns before; and one category.
DatasetInfo molecules(bool and_real) {
  DatasetInfo data = graphs();
  if (!and_real) {
    std::erase_if(data.fields, [](const FieldInfo& field) {
      return field.name == "x@node" || field.name == "e@edge";
    });
  }
  data.fields.push_back({"atom@node", {-1, 3}, at::kLong, {}, 9});
  data.fields.push_back({"type@node", {-1}, at::kLong, {}, 4});
  data.fields.push_back({"bond@edge", {-1, 2}, at::kLong, {}, 5});
  data.fields.push_back({"edge_type@edge", {-1}, at::kLong, {}, 2});
  return data;
}

NamedTensors molecule_of(std::int64_t nodes, std::int64_t edges) {
  const auto columns = [](std::int64_t rows, const std::vector<std::int64_t>& counts) {
    std::vector<Tensor> all;
    std::int64_t first = 0;
    for (const std::int64_t count : counts) {
      all.push_back(at::randint(first, first + count, {rows}, at::kLong));
      first += count;
    }
    return at::stack(all, 1);
  };
  NamedTensors graph = graph_of(nodes, edges);
  graph.set("atom@node", columns(nodes, {4, 2, 3}));
  graph.set("type@node", at::randint(4, {nodes}, at::kLong));
  graph.set("bond@edge", columns(edges, {3, 2}));
  graph.set("edge_type@edge", at::randint(2, {edges}, at::kLong));
  return graph;
}

TEST_F(GraphGps, CategoriesOfAtomsAndBondsAgainstLoops) {
  for (const bool and_real : {false, true}) {
    const DatasetInfo data = molecules(and_real);
    const Batch batch = batch_of({molecule_of(5, 9), molecule_of(1, 0), molecule_of(8, 20)}, data);
    for (const std::string form : {"mpnn: gine", "mpnn: gated_gcn"}) {
      const auto model = gps("{" + kSmall + ", " + form + "}", "standard", data);
      const Tensor expected =
          by_loops(NaiveGraphs(*model, true), batch, no_places(batch), /*mean=*/true);
      EXPECT_TRUE(answer(*model, batch).allclose(expected, 0, 1e-10)) << form << and_real;
    }
  }
}

TEST_F(GraphGps, DropsWhereThePublishedCodeDoes) {
  const Batch batch = batch_of(examples());
  // Of each layer: messages (GatedGCN: of nodes, and of edges but in the last layer), attention,
  // and twice in the MLP.
  for (const auto& [form, count] :
       {std::pair{"mpnn: gine", 8}, std::pair{"mpnn: gated_gcn", 9}, std::pair{"mpnn: none", 6},
        std::pair{"mpnn: gine, global: false", 6},
        // Plain: attention, and what goes on to the next layer.
        std::pair{"mpnn: sage, edge_features: false, layer: plain", 3}}) {
    const auto model = gps("{" + kSmall + ", dropout: 0.5, " + form + "}");
    NaiveGraphs naive(*model, true);
    int drops = 0;
    naive.drop = [&](const Rows& x) {
      ++drops;
      return rows_of(dropout(tensor_of(x), 0.5));
    };
    at::manual_seed(21);
    const Tensor expected = by_loops(naive, batch, no_places(batch), /*mean=*/true);
    at::manual_seed(21);
    EXPECT_TRUE(answer(*model, batch).allclose(expected, 0, 1e-10)) << form;
    EXPECT_EQ(drops, count) << form;
    model->eval();
    const Tensor whole =
        by_loops(NaiveGraphs(*model, false), batch, no_places(batch), /*mean=*/true);
    EXPECT_TRUE(answer(*model, batch).allclose(whole, 0, 1e-10)) << form << ", evaluated";
  }
}

TEST_F(GraphGps, DropsInputsBeforeTheirEncoder) {
  const Batch batch = batch_of(examples());
  const auto model = gps("{" + kSmall + ", input_dropout: 0.5}");
  const auto plain = gps("{" + kSmall + "}");
  {
    const at::NoGradGuard no_gradients;
    for (const auto& item : plain->named_parameters()) {
      item.value().copy_(model->named_parameters()[item.key()]);
    }
  }
  at::manual_seed(21);
  Batch dropped = batch;
  dropped.fields.set("x@node", dropout(batch.fields.at("x@node"), 0.5));
  const Tensor expected = answer(*plain, dropped);
  at::manual_seed(21);
  EXPECT_TRUE(answer(*model, batch).equal(expected));
  EXPECT_FALSE(answer(*plain, batch).allclose(expected));
  model->eval();
  plain->eval();
  for (const auto& item : plain->named_buffers()) {
    item.value().copy_(model->named_buffers()[item.key()]);
  }
  EXPECT_TRUE(answer(*model, batch).equal(answer(*plain, batch))) << "evaluated";
}

TEST_F(GraphGps, TwoPlainLayersOfGcnAreKipfAndWellingsNetwork) {
  DatasetInfo data = graphs();
  std::erase_if(data.fields, [](const FieldInfo& field) { return field.name == "e@edge"; });
  const auto model =
      gps("{" + kSmall + ", mpnn: gcn, layer: plain, global: false, head: node}", "standard", data);
  auto all = model->named_parameters();
  // W_0, W_1 and biases, of the encoder and the head, too, and nothing else.
  EXPECT_THAT(all.keys(), ::testing::UnorderedElementsAre("nodes.x.weight", "nodes.x.bias",
                                                          "layer0.local.bias", "layer1.local.bias",
                                                          "head.map0.weight", "head.map0.bias"));
  const at::NoGradGuard no_gradients;
  for (const char* bias : {"nodes.x.bias", "layer0.local.bias", "layer1.local.bias"}) {
    all[bias].zero_();
  }
  const Batch batch = batch_of(examples(), data);
  const std::int64_t count = batch.offsets.at("node")[-1].item<std::int64_t>();
  Tensor adjacency = at::zeros({count, count}, at::kDouble);
  for (const auto& [source, target] : testing::edges_of(batch.fields.at("edges@edge>node"))) {
    if (source != target) adjacency[std::int64_t(target)][std::int64_t(source)] += 1;
  }
  adjacency = adjacency + at::eye(count, at::kDouble);
  const Tensor root = adjacency.sum(1).rsqrt();
  const Tensor p = root.unsqueeze(1) * adjacency * root;
  const Tensor hidden =
      p.matmul(batch.fields.at("x@node")).matmul(all["nodes.x.weight"].t()).relu();
  const Tensor expected =
      p.matmul(hidden).matmul(all["head.map0.weight"].t()) + all["head.map0.bias"];
  EXPECT_TRUE(answer(*model, batch).allclose(expected, 0, 1e-12));
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
  for (const auto& [attention, mpnn] :
       {std::pair{"standard", "gated_gcn"}, std::pair{"standard", "gine"},
        std::pair{"quest", "gated_gcn"}, std::pair{"elliptical", "gated_gcn"},
        std::pair{"linear", "gated_gcn"}}) {
    const auto model = gps("{" + kSmall + ", encoding: laplacian, head: node, head_layers: 2, " +
                               "mpnn: " + mpnn + "}",
                           attention);
    model->eval();
    const Tensor plain = answer(*model, batch_of({graph, other}));
    const Tensor moved = answer(*model, batch_of({permuted(graph, to), other}));
    EXPECT_TRUE(moved.slice(0, 0, 8).index_select(0, to).allclose(plain.slice(0, 0, 8), 0, 1e-10))
        << attention;
    EXPECT_TRUE(moved.slice(0, 8).allclose(plain.slice(0, 8), 0, 1e-10)) << attention;
  }
}

/// Graphs with encodings of their own edges, as examples for training.
GraphDataset encoded(const std::vector<NamedTensors>& all) {
  GraphSet set;
  set.info.name = "encoded";
  std::vector<NamedTensors> sorted;
  for (const NamedTensors& graph : all) {
    set.splits[0].push_back(static_cast<std::int64_t>(sorted.size()));
    sorted.push_back(with_sorted_edges(graph, "a graph"));
  }
  set.table = table_of(sorted);
  EncodingOptions options;
  options.rwse = kWalks;
  options.laplacian = kVectors;
  return GraphDataset(std::move(set), options);
}

TEST_F(GraphGps, PermutingNodesPermutesOutputsWithEncodingsMadeAnew) {
  if (!has_eigenpairs()) GTEST_SKIP() << "built without Eigen and Spectra";
  // Without symmetries: no two eigenvalues are equal, and no two entries of a vector.
  const Tensor edges = edge_tensor(undirected({{0, 1},
                                               {1, 2},
                                               {2, 3},
                                               {3, 4},
                                               {4, 5},
                                               {5, 6},
                                               {6, 7},
                                               {7, 8},
                                               {0, 3},
                                               {2, 6},
                                               {5, 8},
                                               {3, 9}}));
  const NamedTensors plain = {{"x@node", at::randn({10, 3}, at::kDouble)},
                              {"edges@edge>node", edges},
                              {"e@edge", at::randn({edges.size(0), 2}, at::kDouble)},
                              {"class", at::zeros({}, at::kLong)}};
  const Tensor to = at::randperm(10, at::kLong);
  const GraphDataset dataset = encoded({plain, permuted(plain, to)});
  const NamedTensors first = dataset.example(Split::train, 0, nullptr),
                     second = dataset.example(Split::train, 1, nullptr);
  EXPECT_FALSE(second.at("rwse@node").equal(first.at("rwse@node")));
  for (const std::string mpnn : {"gine", "gated_gcn"}) {
    for (const std::string encoding : {"rwse", "laplacian"}) {
      const auto model =
          gps("{" + kSmall + ", head: node, mpnn: " + mpnn + ", encoding: " + encoding + "}");
      model->eval();
      const Tensor expected = answer(*model, batch_of({first}));
      const Tensor found = answer(*model, batch_of({second})).index_select(0, to);
      EXPECT_TRUE(found.allclose(expected, 0, 1e-5)) << mpnn << ", " << encoding;
      EXPECT_FALSE(answer(*model, batch_of({second})).allclose(expected, 0, 1e-2)) << mpnn;
    }
  }
}

TEST_F(GraphGps, ABatchOfOneNodeGivesInTrainingWhatItGivesInEvaluation) {
  // One row has no variance: taken for 0, running variances went to 0 and evaluation to 1e14.
  const Batch one = batch_of({graph_of(1, 0)}), loop = batch_of({graph_of(1, 1)});
  for (const std::string form : {"mpnn: gated_gcn, encoding: rwse", "mpnn: gine", "mpnn: none"}) {
    const auto model = gps("{" + kSmall + ", " + form + "}");
    std::vector<Tensor> before;
    for (const Tensor& buffer : model->buffers()) before.push_back(buffer.clone());
    for (const Batch* batch : {&one, &loop}) {
      model->train();
      const Tensor trained = answer(*model, *batch);
      model->eval();
      EXPECT_TRUE(trained.allclose(answer(*model, *batch), 0, 1e-12)) << form;
    }
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_TRUE(model->buffers()[i].equal(before[i])) << form;
    }
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

}  // namespace
}  // namespace attnlab::graph_gps_test
