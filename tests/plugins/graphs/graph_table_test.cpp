// Graphs end to end: what goes in comes out, edges are sorted, and what cannot be is refused.
#include "framework/data/graph/graph_table.h"
#include "tests/support/data_files.h"

namespace attnlab::graph_table_test {
namespace {

using attnlab::testing::mentions;
using ::testing::HasSubstr;
using testing::message_of;

Tensor edges(const std::vector<std::int64_t>& ends) {
  return at::tensor(ends, at::kLong).view({-1, 2});
}

NamedTensors graph(std::int64_t nodes, const std::vector<std::int64_t>& ends) {
  return {{"x@node", at::arange(double(nodes)).to(at::kFloat).view({nodes, 1})},
          {"edges@edge>node", edges(ends)},
          {"kind@edge", at::arange(std::int64_t(ends.size()) / 2)},
          {"class", at::scalar_tensor(nodes, at::kLong)}};
}

TEST(GraphTable, SortsEdgesByTargetThenSourceWithTheirFields) {
  const NamedTensors sorted = with_sorted_edges(graph(3, {2, 1, 0, 2, 0, 1, 1, 0}), "here");
  EXPECT_TRUE(sorted.at("edges@edge>node").equal(edges({1, 0, 0, 1, 2, 1, 0, 2})));
  EXPECT_TRUE(sorted.at("kind@edge").equal(at::tensor({3, 2, 0, 1}, at::kLong)));
}

TEST(GraphTable, KeepsTheOrderOfEqualEdges) {
  const NamedTensors sorted = with_sorted_edges(graph(2, {1, 0, 0, 1, 1, 0}), "here");
  EXPECT_TRUE(sorted.at("kind@edge").equal(at::tensor({0, 2, 1}, at::kLong)));
}

TEST(GraphTable, NamesTheEdgeThatLeadsNowhere) {
  const auto refusal = [](std::int64_t nodes, const std::vector<std::int64_t>& ends) {
    return message_of<DataError>([&] { with_sorted_edges(graph(nodes, ends), "MUTAG.txt:24"); });
  };
  EXPECT_THAT(refusal(3, {0, 1, 1, 3}), HasSubstr("MUTAG.txt:24: edge 1 (1, 3) names a node"));
  EXPECT_THAT(refusal(3, {0, -1}), HasSubstr("edge 0 (0, -1)"));
  EXPECT_THAT(refusal(0, {}), mentions("MUTAG.txt:24:", "no nodes"));
}

TEST(GraphTable, GivesBackWhatWentIn) {
  const std::vector<NamedTensors> graphs = {graph(3, {1, 0, 0, 1}), graph(1, {}),
                                            graph(300, {299, 0, 0, 299})};
  const GraphTable table = table_of(graphs), again = unpacked(packed(table));
  for (const GraphTable* one : {&table, &again}) {
    ASSERT_EQ(one->size, 3);
    for (std::size_t i = 0; i < graphs.size(); ++i) {
      const NamedTensors found = one->graph(std::int64_t(i));
      EXPECT_EQ(found.size(), graphs[i].size());
      for (const auto& [name, tensor] : graphs[i]) {
        EXPECT_EQ(found.at(name).dtype(), tensor.dtype()) << name;
        EXPECT_TRUE(found.at(name).equal(tensor)) << name;
      }
      EXPECT_EQ(one->nodes(std::int64_t(i)), graphs[i].at("x@node").size(0));
    }
  }
}

TEST(GraphTable, HoldsIntegersInAsFewBytesAsTheyNeed) {
  const auto dtype_of = [](std::int64_t value) {
    const NamedTensors one = {{"x@node", at::zeros({1, 1})},
                              {"class", at::scalar_tensor(value, at::kLong)}};
    return table_of({one}).fields.at("class").scalar_type();
  };
  EXPECT_EQ(dtype_of(255), at::kByte);
  EXPECT_EQ(dtype_of(256), at::kShort);
  EXPECT_EQ(dtype_of(-1), at::kShort);
  EXPECT_EQ(dtype_of(1 << 20), at::kInt);
  EXPECT_EQ(dtype_of(std::int64_t{1} << 40), at::kLong);
}

TEST(GraphTable, RefusesGraphsThatDoNotFitEachOther) {
  NamedTensors other = graph(2, {});
  other.set("x@node", at::zeros({2, 2}));
  EXPECT_THAT(message_of<DataError>([&] {
                table_of({graph(2, {}), other});
              }),
              mentions("graph 1:", "'x@node'", "[2, 2] float32"));
  NamedTensors uneven = graph(2, {});
  uneven.set("y@node", at::zeros({3}));
  EXPECT_THAT(message_of<DataError>([&] { table_of({uneven}); }),
              HasSubstr("'y@node' has other rows"));
  EXPECT_THAT(message_of<DataError>([&] { table_of({}); }), HasSubstr("no graphs"));
}

TEST(GraphTable, MakesEdgesUndirected) {
  const std::vector<Edge> expected = {{1, 0}, {2, 0}, {0, 1}, {0, 2}};
  EXPECT_EQ(undirected({{0, 1}, {2, 0}, {1, 0}, {1, 1}, {0, 1}}), expected);
  const GraphTable table = table_of({graph(4, {}), graph(3, {0, 1, 1, 0, 2, 2, 0, 2})});
  const Neighbours second = neighbours_of(table, 1);
  EXPECT_EQ(second.begins, (std::vector<std::int32_t>{0, 2, 3, 4}));
  EXPECT_EQ(second.nodes, (std::vector<std::int32_t>{1, 2, 0, 0}));
  EXPECT_EQ(neighbours_of(table, 0).degree(3), 0);
}

}  // namespace
}  // namespace attnlab::graph_table_test
