// What graph_gps tells attention of pairs of nodes: Graphormer's biases and a mask of edges,
// against loops; its transformer layers; what it refuses.
#include <cmath>
#include <functional>
#include <limits>

#include "framework/nn/attention/dot_product_attention.h"
#include "tests/support/data_files.h"
#include "tests/support/graph_gps_models.h"

namespace attnlab::graph_pairs_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using testing::answer;
using testing::batch_of;
using testing::examples;
using testing::gps;
using testing::graph_of;
using testing::GraphGps;
using testing::graphs;
using ::testing::HasSubstr;
using testing::kSmall;
using testing::largest_difference;
using testing::message_of;
using testing::moved;

/// What one call of a layer was given.
struct Given {
  Tensor bias, pairs, key_valid;
};

/// Standard attention that notes what it is given.
class Noting final : public DotProductAttention {
 public:
  Noting(const AttentionShape& shape, std::vector<Given>& given)
      : DotProductAttention(shape, {}, AttentionTraits::all_quadratic()), given_(given) {}

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext& context) override {
    given_.push_back({input.bias, input.visible.pairs, input.visible.key_valid});
    return DotProductAttention::attend(input, context);
  }

 private:
  std::vector<Given>& given_;
};

std::shared_ptr<Model> noting(const std::string& options, std::vector<Given>& given,
                              const DatasetInfo& data = graphs()) {
  const AttentionBuilder attention = [&given](const AttentionShape& shape) {
    return std::make_shared<Noting>(shape, given);
  };
  const Part part = testing::make_part(Kind::model, "graph_gps", options);
  return moved(testing::registry().model(part, {data, attention}));
}

using Table = std::vector<std::vector<std::int64_t>>;

constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max() / 4;

/// Lengths of shortest paths between all nodes, by Floyd and Warshall. @param ends  of one graph
Table distances_of(const Tensor& ends, std::int64_t nodes) {
  Table d(std::size_t(nodes), std::vector<std::int64_t>(std::size_t(nodes), kFar));
  for (std::size_t i = 0; i < d.size(); ++i) d[i][i] = 0;
  for (std::int64_t e = 0; e < ends.size(0); ++e) {
    auto& length = d[std::size_t(ends[e][0].item<std::int64_t>())]
                    [std::size_t(ends[e][1].item<std::int64_t>())];
    length = std::min<std::int64_t>(length, 1);
  }
  for (std::size_t k = 0; k < d.size(); ++k) {
    for (std::size_t i = 0; i < d.size(); ++i) {
      for (std::size_t j = 0; j < d.size(); ++j) d[i][j] = std::min(d[i][j], d[i][k] + d[k][j]);
    }
  }
  return d;
}

/// Both directions of each edge of a tree, whose paths are the only ones.
NamedTensors tree_of(std::int64_t nodes) {
  std::vector<Tensor> ends;
  for (std::int64_t i = 1; i < nodes; ++i) {
    const std::int64_t other = at::randint(i, {}, at::kLong).item<std::int64_t>();
    ends.push_back(at::tensor({i, other}, at::kLong));
    ends.push_back(at::tensor({other, i}, at::kLong));
  }
  NamedTensors graph = graph_of(nodes, 0);
  if (nodes > 1) graph.set("edges@edge>node", at::stack(ends));
  graph.set("e@edge", at::randn({2 * (nodes - 1), 2}, at::kDouble));
  return graph;
}

TEST_F(GraphGps, BiasesByDistanceAreThoseOfShortestPaths) {
  const std::vector<NamedTensors> all = examples();
  for (const std::int64_t most : {1, 2, 20}) {
    std::vector<Given> given;
    const auto model = noting(
        "{" + kSmall + ", bias: [distance], max_distance: " + std::to_string(most) + "}", given);
    const Tensor table = model->named_parameters()["pairs.distances"];
    ASSERT_EQ(table.sizes(), at::IntArrayRef({most + 2, 2}));
    answer(*model, batch_of(all));
    ASSERT_EQ(given.size(), 2u) << "all layers have the same";
    ASSERT_EQ(given[0].bias.sizes(), at::IntArrayRef({3, 2, 8, 8}));
    EXPECT_TRUE(given[1].bias.equal(given[0].bias));
    Tensor expected = at::zeros({3, 2, 8, 8}, at::kDouble);
    for (std::size_t g = 0; g < all.size(); ++g) {
      const std::int64_t nodes = all[g].at("x@node").size(0);
      const Table d = distances_of(all[g].at("edges@edge>node"), nodes);
      for (std::int64_t i = 0; i < nodes; ++i) {
        for (std::int64_t j = 0; j < nodes; ++j) {
          const std::int64_t length = d[std::size_t(i)][std::size_t(j)];
          const std::int64_t row = length >= kFar ? most + 1 : std::min(length, most);
          for (std::int64_t h = 0; h < 2; ++h) {
            expected[std::int64_t(g)][h][i][j] = table[row][h].item<double>();
          }
        }
      }
    }
    EXPECT_EQ(largest_difference(given[0].bias.detach(), expected), 0) << most;
  }
}

TEST_F(GraphGps, BiasesByEdgesAreMeansAlongShortestPaths) {
  const std::vector<NamedTensors> all = {tree_of(7), tree_of(1), tree_of(9)};
  for (const std::int64_t most : {2, 20}) {
    std::vector<Given> given;
    const auto model = noting(
        "{" + kSmall + ", bias: [edges], max_distance: " + std::to_string(most) + "}", given);
    const auto p = model->named_parameters();
    ASSERT_EQ(p["pairs.hops"].sizes(), at::IntArrayRef({most, 2, 2}));
    answer(*model, batch_of(all));
    Tensor expected = at::zeros({3, 2, 9, 9}, at::kDouble);
    for (std::size_t g = 0; g < all.size(); ++g) {
      const Tensor ends = all[g].at("edges@edge>node"), features = all[g].at("e@edge");
      const std::int64_t nodes = all[g].at("x@node").size(0);
      for (std::int64_t start = 0; start < nodes; ++start) {
        // From every node, edge after edge: a tree has no other way.
        const std::function<void(std::int64_t, std::int64_t, std::int64_t, Tensor)> walk =
            [&](std::int64_t node, std::int64_t from, std::int64_t length, const Tensor& sum) {
              if (length > 0) {
                expected[std::int64_t(g)].select(1, start).select(1, node).copy_(
                    sum / double(std::min(length, most)));
              }
              for (std::int64_t e = 0; e < ends.size(0); ++e) {
                const auto next = ends[e][1].item<std::int64_t>();
                if (ends[e][0].item<std::int64_t>() != node || next == from) continue;
                Tensor longer = sum;
                if (length < most) {
                  const Tensor v =
                      at::mv(p["pairs.edges.e.weight"], features[e]) + p["pairs.edges.e.bias"];
                  longer = sum + at::mv(p["pairs.hops"][length].t(), v);
                }
                walk(next, node, length + 1, longer);
              }
            };
        walk(start, -1, 0, at::zeros({2}, at::kDouble));
      }
    }
    EXPECT_LT(largest_difference(given[0].bias.detach(), expected.detach()), 1e-12) << most;
  }
}

TEST_F(GraphGps, BiasesOfBothKindsAreAddedAndLearnt) {
  const Batch batch = batch_of({tree_of(6), tree_of(4)});
  std::vector<Given> given;
  const auto both = noting("{" + kSmall + ", bias: [edges, distance]}", given);
  answer(*both, batch).square().sum().backward();
  const Tensor sum = given[0].bias.detach();
  for (const char* one : {"distance", "edges"}) {
    std::vector<Given> own;
    const auto alone = noting("{" + kSmall + ", bias: [" + std::string(one) + "]}", own);
    const at::NoGradGuard no_gradients;
    auto to = alone->named_parameters();
    for (const auto& item : both->named_parameters()) {
      if (to.contains(item.key())) to[item.key()].copy_(item.value());
    }
    answer(*alone, batch);
    given.push_back(own[0]);
  }
  EXPECT_LT(largest_difference(given[2].bias + given[3].bias, sum), 1e-12);
  for (const auto& item : both->named_parameters()) {
    if (!item.key().starts_with("pairs.")) continue;
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_GT(item.value().grad().abs().max().item<double>(), 0) << item.key();
  }
  EXPECT_FALSE(both->decays("pairs.distances", both->named_parameters()["pairs.distances"]));
  EXPECT_TRUE(both->decays("pairs.hops", both->named_parameters()["pairs.hops"]));
}

TEST_F(GraphGps, SeesNeighboursAloneWhereAsked) {
  const std::vector<NamedTensors> all = examples();
  std::vector<Given> given;
  const auto model = noting("{" + kSmall + ", attend: neighbours}", given);
  answer(*model, batch_of(all));
  const Tensor found = given[0].pairs;
  ASSERT_EQ(found.sizes(), at::IntArrayRef({3, 1, 8, 8}));
  for (std::size_t g = 0; g < all.size(); ++g) {
    const Tensor ends = all[g].at("edges@edge>node");
    const std::int64_t nodes = all[g].at("x@node").size(0);
    for (std::int64_t i = 0; i < 8; ++i) {
      for (std::int64_t j = 0; j < 8; ++j) {
        bool sees = i == j && i < nodes;
        for (std::int64_t e = 0; e < ends.size(0); ++e) {
          sees |= ends[e][0].item<std::int64_t>() == j && ends[e][1].item<std::int64_t>() == i;
        }
        EXPECT_EQ(found[std::int64_t(g)][0][i][j].item<bool>(), sees) << g << i << j;
      }
    }
  }
}

// What a node gives depends on those that it sees alone.
TEST_F(GraphGps, OfNeighboursNothingComesFromElsewhere) {
  // 0 - 1 - 2 - 3, one layer.
  NamedTensors path = graph_of(4, 0);
  path.set("edges@edge>node",
           at::tensor({1, 0, 0, 1, 2, 1, 1, 2, 3, 2, 2, 3}, at::kLong).view({6, 2}));
  path.set("e@edge", at::randn({6, 2}, at::kDouble));
  const auto model = gps(
      "{dim: 8, heads: 2, depth: 1, attention_dropout: 0, mpnn: none, layer: plain, head: node, "
      "attend: neighbours, edge_features: false}");
  model->eval();
  const Tensor before = answer(*model, batch_of({path}));
  const Tensor x = path.at("x@node").clone();
  x[3] += 1;
  path.set("x@node", x);
  const Tensor after = answer(*model, batch_of({path}));
  EXPECT_LT(largest_difference(after.narrow(0, 0, 2), before.narrow(0, 0, 2)), 1e-12);
  EXPECT_GT((after - before)[2].abs().max().item<double>(), 1e-6);
}

TEST_F(GraphGps, WithPairsAGraphIsTheSameAloneAndInABatch) {
  const std::vector<NamedTensors> all = {tree_of(5), tree_of(1), tree_of(8)};
  const std::string graphormer =
      "{dim: 8, heads: 2, depth: 2, attention_dropout: 0, layer: transformer, mpnn: none, bias: "
      "[distance, edges], degrees: true, pool: token}";
  for (const std::string& options :
       {"{" + kSmall + ", bias: [distance, edges], attend: neighbours, degrees: true}",
        graphormer}) {
    for (const std::string attention : {"standard", "quest"}) {
      const auto model = gps(options, attention);
      model->eval();
      const Tensor together = answer(*model, batch_of(all));
      for (std::size_t i = 0; i < all.size(); ++i) {
        EXPECT_LT(
            largest_difference(answer(*model, batch_of({all[i]}))[0], together[std::int64_t(i)]),
            1e-10)
            << options << attention;
      }
    }
  }
}

TEST_F(GraphGps, DegreesArePartOfANodesFeatures) {
  const std::vector<NamedTensors> all = examples();
  const Batch batch = batch_of(all);
  const std::string head = ", head: node, depth: 1, head_layers: 1";
  const auto plain = gps("{dim: 8, heads: 2, attention_dropout: 0" + head + "}");
  const auto model = gps("{dim: 8, heads: 2, attention_dropout: 0, degrees: true" + head + "}");
  const at::NoGradGuard no_gradients;
  auto to = model->named_parameters();
  for (const auto& item : plain->named_parameters()) to[item.key()].copy_(item.value());
  auto buffers = model->named_buffers();
  for (const auto& item : plain->named_buffers()) buffers[item.key()].copy_(item.value());
  // The same sum by the map of features: a column for each node.
  DatasetInfo data = graphs();
  const std::int64_t nodes = 14;
  Tensor sums = at::zeros({nodes, 8}, at::kDouble);
  const Tensor ends = batch.fields.at("edges@edge>node");
  for (std::int64_t i = 0; i < nodes; ++i) {
    std::int64_t in = 0, out = 0;
    for (std::int64_t e = 0; e < ends.size(0); ++e) {
      in += ends[e][1].item<std::int64_t>() == i ? 1 : 0;
      out += ends[e][0].item<std::int64_t>() == i ? 1 : 0;
    }
    sums[i] = to["degrees.in"][in] + to["degrees.out"][out];
  }
  data.fields[0].shape = {-1, 3 + nodes};
  const auto wide = gps("{dim: 8, heads: 2, attention_dropout: 0" + head + "}", "standard", data);
  auto wide_to = wide->named_parameters();
  for (const auto& item : plain->named_parameters()) {
    if (item.key() != "nodes.x.weight") wide_to[item.key()].copy_(item.value());
  }
  auto wide_buffers = wide->named_buffers();
  for (const auto& item : plain->named_buffers()) wide_buffers[item.key()].copy_(item.value());
  wide_to["nodes.x.weight"].copy_(at::cat({to["nodes.x.weight"], sums.t()}, 1));
  Batch wide_batch = batch;
  wide_batch.fields.set("x@node",
                        at::cat({batch.fields.at("x@node"), at::eye(nodes, at::kDouble)}, 1));
  for (Model* const each : {model.get(), wide.get()}) each->eval();
  EXPECT_LT(largest_difference(answer(*model, batch), answer(*wide, wide_batch)), 1e-10);
}

TEST_F(GraphGps, TheTokenSeesAllAndIsSeenWithANumberOfItsOwn) {
  const std::vector<NamedTensors> all = {tree_of(3), tree_of(5)};
  std::vector<Given> given;
  const auto model = noting(
      "{dim: 8, heads: 2, depth: 2, attention_dropout: 0, layer: transformer, mpnn: none, "
      "bias: [distance], attend: neighbours, pool: token, max_distance: 4}",
      given);
  EXPECT_EQ(answer(*model, batch_of(all)).sizes(), at::IntArrayRef({2, 3}));
  const Tensor table = model->named_parameters()["pairs.distances"];
  ASSERT_EQ(table.sizes(), at::IntArrayRef({7, 2}));
  ASSERT_EQ(given[0].bias.sizes(), at::IntArrayRef({2, 2, 6, 6}));
  for (std::int64_t g = 0; g < 2; ++g) {
    const std::int64_t token = g == 0 ? 3 : 5;
    EXPECT_EQ(given[0].key_valid[g].sum().item<std::int64_t>(), token + 1);
    for (std::int64_t i = 0; i <= token; ++i) {
      for (const auto& [from, to] : {std::pair{i, token}, std::pair{token, i}}) {
        EXPECT_TRUE(given[0].pairs[g][0][from][to].item<bool>());
        EXPECT_EQ(largest_difference(given[0].bias[g].select(1, from).select(1, to), table[6]), 0);
      }
    }
  }
  // The token alone is read: without attention to it nothing of a node would reach the answer.
  NamedTensors other = all[0];
  other.set("x@node", all[0].at("x@node") + 1);
  model->eval();
  EXPECT_GT(
      largest_difference(answer(*model, batch_of({all[0]})), answer(*model, batch_of({other}))),
      1e-6);
}

TEST_F(GraphGps, TransformerLayersAgainstLoops) {
  const std::vector<NamedTensors> all = {tree_of(4), tree_of(2)};
  const Batch batch = batch_of(all);
  const auto model =
      gps("{dim: 4, heads: 2, depth: 1, attention_dropout: 0, layer: transformer, mpnn: none, "
          "mlp_ratio: 1.5, pool: token, bias: [distance], max_distance: 3}");
  model->eval();
  const at::NoGradGuard no_gradients;
  const auto p = model->named_parameters();
  const auto linear = [&](const Tensor& x, const std::string& name) {
    return at::matmul(x, p[name + ".weight"].t()) + p[name + ".bias"];
  };
  const auto norm = [&](const Tensor& x, const std::string& name) {
    const Tensor away = x - x.mean(-1, true);
    return away / (away.square().mean(-1, true) + 1e-5).sqrt() * p[name + ".weight"] +
           p[name + ".bias"];
  };
  const std::string layer = "layer0.transformer.";
  ASSERT_EQ(p[layer + "mlp.in.weight"].sizes(), at::IntArrayRef({6, 4}));
  std::vector<Tensor> expected;
  for (const NamedTensors& graph : all) {
    const std::int64_t nodes = graph.at("x@node").size(0);
    const Table d = distances_of(graph.at("edges@edge>node"), nodes);
    Tensor x = at::cat({linear(graph.at("x@node"), "nodes.x"), p["token"]});
    const Tensor qkv = linear(norm(x, layer + "attention_norm"), layer + "attention.qkv");
    Tensor seen = at::zeros_like(x);
    for (std::int64_t h = 0; h < 2; ++h) {
      for (std::int64_t i = 0; i <= nodes; ++i) {
        Tensor sum = at::zeros({2}, at::kDouble);
        double weights = 0;
        for (std::int64_t j = 0; j <= nodes; ++j) {
          const std::int64_t row =
              i == nodes || j == nodes
                  ? 5
                  : std::min<std::int64_t>(d[std::size_t(i)][std::size_t(j)], 3);
          const double logit =
              qkv[i].narrow(0, 2 * h, 2).dot(qkv[j].narrow(0, 4 + 2 * h, 2)).item<double>() /
                  std::sqrt(2.0) +
              p["pairs.distances"][row][h].item<double>();
          weights += std::exp(logit);
          sum = sum + qkv[j].narrow(0, 8 + 2 * h, 2) * std::exp(logit);
        }
        seen[i].narrow(0, 2 * h, 2).copy_(sum / weights);
      }
    }
    x = x + linear(seen, layer + "attention.output");
    const Tensor hidden = linear(norm(x, layer + "mlp_norm"), layer + "mlp.in");
    x = x + linear(hidden * 0.5 * (1 + (hidden / std::sqrt(2.0)).erf()), layer + "mlp.out");
    expected.push_back(linear(norm(x, "norm")[nodes], "head.map0"));
  }
  EXPECT_LT(largest_difference(answer(*model, batch), at::stack(expected)), 1e-10);
}

/// Graphormer-slim on ZINC: 489.3 thousand parameters in its public table, whose code has tables of
/// more rows: 64 of atoms for 28, 64 of bonds for 4, 40 distances for 22, and W of 40 edges for 20.
TEST_F(GraphGps, HasGraphormersParameters) {
  DatasetInfo zinc;
  zinc.name = "zinc";
  zinc.fields = {{"type@node", {-1}, at::kLong, {}, 28},
                 {"edges@edge>node", {-1, 2}, at::kLong},
                 {"edge_type@edge", {-1}, at::kLong, {}, 4},
                 {"labels", {1}}};
  const auto model = testing::make_model(
      "graph_gps", zinc,
      "{dim: 80, depth: 12, heads: 8, layer: transformer, mpnn: none, mlp_ratio: 1, degrees: true, "
      "bias: [distance, edges], max_distance: 20, pool: token}");
  const std::int64_t tables = (64 - 28) * 80 + (64 - 4) * 8 + (40 - 22) * 8 + (40 - 20) * 64;
  const std::int64_t found = testing::parameter_count(*model);
  EXPECT_EQ(found, 484'697);
  EXPECT_EQ(found + tables, 489'481) << "as counted by its code's sizes";
  EXPECT_NEAR(double(found + tables), 489.3e3, 200);
  // As its code starts.
  const auto all = model->named_parameters();
  for (const auto& [name, deviation] :
       {std::pair{"nodes.type.table", 0.02},
        {"degrees.in", 0.02},
        {"pairs.hops", 0.02},
        {"layer3.transformer.mlp.out.weight", 0.02 / std::sqrt(12.0)},
        {"layer3.transformer.attention.qkv.weight", 0.02 / std::sqrt(12.0)}}) {
    EXPECT_NEAR(all[name].std().item<double>(), deviation, 0.1 * deviation) << name;
  }
}

/// Honours all rules but one.
class Without final : public Attention {
 public:
  Without(const AttentionShape& shape, bool AttentionTraits::*trait)
      : Attention(shape, traits_of(trait)) {}

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext&) override { return input.values; }

 private:
  static AttentionTraits traits_of(bool AttentionTraits::*trait) {
    AttentionTraits traits = AttentionTraits::all_quadratic();
    traits.*trait = false;
    return traits;
  }
};

TEST_F(GraphGps, RefusesAnAttentionThatCannotTakePairs) {
  const auto refusal = [](const std::string& options, bool AttentionTraits::*trait) {
    const AttentionBuilder attention = [trait](const AttentionShape& shape) {
      return std::make_shared<Without>(shape, trait);
    };
    const Part part =
        testing::make_part(Kind::model, "graph_gps", "{" + kSmall + ", " + options + "}");
    return message_of<TraitError>([&] { testing::registry().model(part, {graphs(), attention}); });
  };
  EXPECT_THAT(refusal("bias: [distance]", &AttentionTraits::bias),
              mentions("bias", "honours 'bias'", "another attention", "leave bias out"));
  EXPECT_THAT(refusal("attend: neighbours", &AttentionTraits::pair_mask),
              AllOf(HasSubstr("'pair_mask'"), HasSubstr("leave attend: neighbours out")));
  EXPECT_THAT(refusal("bias: [edges]", &AttentionTraits::padding), HasSubstr("'padding'"));
}

TEST_F(GraphGps, RefusesPairsThatCannotBe) {
  const auto refusal = [](const std::string& options, const DatasetInfo& data = graphs()) {
    return message_of<Error>([&] { gps("{dim: 8, heads: 2, " + options + "}", "standard", data); });
  };
  DatasetInfo bare = graphs();
  std::erase_if(bare.fields, [](const FieldInfo& field) { return field.name == "e@edge"; });
  EXPECT_THAT(refusal("bias: [edges]", bare), mentions("'graphs'", "of edges", "leave edges out"));
  EXPECT_THAT(refusal("global: false, bias: [distance]"), HasSubstr("global is false"));
  EXPECT_THAT(refusal("global: false, attend: neighbours"), HasSubstr("global is false"));
  EXPECT_THAT(refusal("layer: transformer"), HasSubstr("set mpnn: none"));
  EXPECT_THAT(refusal("pool: token"), mentions("head: graph", "mpnn: none"));
  EXPECT_THAT(refusal("pool: token, mpnn: none, head: node"), HasSubstr("or pool: mean"));
}

}  // namespace
}  // namespace attnlab::graph_pairs_test
