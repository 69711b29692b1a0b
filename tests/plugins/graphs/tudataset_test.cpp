// Collections of graphs in two layouts: what they say, folds, and what is refused.
#include <set>

#include "tests/support/data_files.h"
#include "tests/support/encodings.h"
#include "tests/support/graph_sets.h"
#include "tests/support/plugins.h"
#include "tests/support/temp_folder.h"

namespace attnlab::tudataset_test {
namespace {

using attnlab::testing::mentions;
using ::testing::HasSubstr;
using testing::make_dataset;
using testing::message_of;

Tensor longs(const std::vector<std::int64_t>& values) { return at::tensor(values, at::kLong); }

/// Three graphs: a path of 3 nodes, a single node, and two nodes joined.
class TuDataset : public ::testing::Test {
 protected:
  TuDataset() {
    write("A", "1, 2\n2, 1\n3, 2\n2, 3\n6, 5\n5, 6\n");
    write("graph_indicator", "1\n1\n1\n2\n3\n3\n");
    write("graph_labels", "1\n-1\n1\n");
  }
  void write(const std::string& part, const std::string& text) const {
    folder_.write("MINI_" + part + ".txt", text);
  }
  /// All graphs train but those of fold 0, of which there are few or none.
  std::shared_ptr<Dataset> open(
      const std::string& more = ", folds: 100, fold: 99, validation: false") const {
    return make_dataset("tudataset", "{name: MINI, root: " + folder_.path() + more + "}");
  }
  std::string refusal() const {
    return message_of<Error>([&] { open(); });
  }
  static NamedTensors graph(const Dataset& dataset, std::int64_t index) {
    return dataset.example(Split::train, index, nullptr);
  }

  testing::TempFolder folder_;
};

TEST_F(TuDataset, ReadsEdgesClassesAndNodes) {
  const auto dataset = open();
  ASSERT_EQ(dataset->size(Split::train), 3);
  EXPECT_EQ(dataset->info().class_names, (std::vector<std::string>{"-1", "1"}));
  EXPECT_TRUE(
      graph(*dataset, 0).at("edges@edge>node").equal(longs({1, 0, 0, 1, 2, 1, 1, 2}).view({4, 2})));
  EXPECT_EQ(graph(*dataset, 1).at("edges@edge>node").size(0), 0);
  EXPECT_TRUE(graph(*dataset, 2).at("edges@edge>node").equal(longs({1, 0, 0, 1}).view({2, 2})));
  EXPECT_EQ(graph(*dataset, 1).at("class").item<std::int64_t>(), 0);
  EXPECT_EQ(graph(*dataset, 2).at("class").item<std::int64_t>(), 1);
  // Nothing is said of nodes: their degree stands for them.
  EXPECT_TRUE(graph(*dataset, 0).at("type@node").equal(longs({1, 2, 1})));
  EXPECT_EQ(dataset->info().field("type@node").categories, 3);
}

TEST_F(TuDataset, CountsDegreesInTheGraphThatItGives) {
  write("A", "1, 2\n3, 2\n2, 3\n2, 3\n3, 3\n6, 5\n");  // one way, both ways, twice, a loop
  const auto dataset = open();
  EXPECT_TRUE(graph(*dataset, 0).at("type@node").equal(longs({1, 2, 1})));
  EXPECT_TRUE(graph(*dataset, 2).at("type@node").equal(longs({1, 1})));
}

TEST_F(TuDataset, ReadsLabelsAndAttributes) {
  write("node_labels", "7\n3\n7\n9\n3\n3\n");
  write("node_attributes", "1.5, 2\n0, 1\n0, 0\n4, 4\n5, 5\n6, 6\n");
  write("edge_labels", "0\n0\n5\n5\n2\n2\n");
  write("edge_attributes", "0.1\n0.2\n0.3\n0.4\n0.5\n0.6\n");
  const auto dataset = open();
  EXPECT_EQ(dataset->info().field("type@node").categories, 3);
  EXPECT_EQ(dataset->info().field("edge_type@edge").categories, 3);
  const NamedTensors first = graph(*dataset, 0);
  EXPECT_TRUE(first.at("type@node").equal(longs({1, 0, 1})));
  EXPECT_TRUE(first.at("x@node")[0].equal(at::tensor({1.5f, 2.f})));
  // The edges are sorted, and what belongs to them goes along.
  EXPECT_TRUE(first.at("edges@edge>node").equal(longs({1, 0, 0, 1, 2, 1, 1, 2}).view({4, 2})));
  EXPECT_TRUE(first.at("edge_type@edge").equal(longs({0, 0, 2, 2})));
  EXPECT_TRUE(first.at("e@edge").view({-1}).equal(at::tensor({0.2f, 0.1f, 0.3f, 0.4f})));
}

TEST_F(TuDataset, ReadsValuesToPredict) {
  std::filesystem::remove(folder_ / "MINI_graph_labels.txt");
  write("graph_attributes", "1.5, 2\n3, 4\n-5, 6\n");
  const auto dataset = open();
  EXPECT_EQ(dataset->info().classes, 0);
  EXPECT_TRUE(graph(*dataset, 2).at("labels").equal(at::tensor({-5.f, 6.f})));
}

TEST_F(TuDataset, MayHaveByteOrderMarks) {
  write("A", testing::marked("1, 2\n2, 1\n"));
  write("graph_indicator", testing::marked("1\n1\n1\n2\n3\n3\n"));
  write("graph_labels", testing::marked("1\n-1\n1\n"));
  const auto dataset = open();
  EXPECT_EQ(dataset->size(Split::train), 3);
  EXPECT_TRUE(graph(*dataset, 0).at("edges@edge>node").equal(longs({1, 0, 0, 1}).view({2, 2})));
  write("graph_labels", testing::utf16("1\n-1\n1\n"));
  EXPECT_THAT(refusal(), mentions("MINI_graph_labels.txt:", "UTF-16", "convert"));
}

TEST_F(TuDataset, NamesTheLineThatIsWrong) {
  write("A", "1, 2\n2, 7\n");
  EXPECT_THAT(refusal(), mentions("MINI_A.txt:2:", "two nodes of 1 to 6", "'2, 7'"));
  write("A", "1, 2\n0, 1\n");
  EXPECT_THAT(refusal(), mentions("MINI_A.txt:2:", "two nodes"));
  write("A", "3, 4\n");
  EXPECT_THAT(refusal(), mentions("MINI_A.txt:1:", "from graph 1 to graph 2"));
  write("A", "1, 2\n2, x\n");
  EXPECT_THAT(refusal(), mentions("MINI_A.txt:2:", "'x'", "whole number"));
  write("A", "1, 2\n");
  write("graph_indicator", "1\n1\n1\n3\n3\n3\n");
  EXPECT_THAT(refusal(), HasSubstr("MINI_graph_labels.txt:2: graph 2 has no nodes"));
  write("graph_indicator", "1\n1\n2\n1\n3\n3\n");
  EXPECT_THAT(refusal(), mentions("MINI_graph_indicator.txt:4:", "graph 1", "1 to 3"));
  write("graph_indicator", "1\n1\n2\n3\n4\n4\n");
  EXPECT_THAT(refusal(), mentions("MINI_graph_indicator.txt:5:", "graph 4", "1 to 3"));
  write("graph_indicator", "-9223372036854775808\n1\n1\n2\n3\n3\n");
  EXPECT_THAT(refusal(), HasSubstr("MINI_graph_indicator.txt:1: graph -9223372036854775808"));
  write("graph_indicator", "1\n1\n1\n2\n3\n3\n");
  write("node_labels", "1\n2\n");
  EXPECT_THAT(refusal(), HasSubstr("MINI_node_labels.txt: has 2 lines for 6 node_labels"));
  write("node_labels", "1\n2\n1\n1\n1\n1\n");
  write("node_attributes", "1, 2\n1\n1\n1\n1\n1\n");
  EXPECT_THAT(refusal(), mentions("MINI_node_attributes.txt:2:", "1 values", "has 2"));
  write("node_attributes", "1\n1e300\n1\n1\n1\n1\n");
  EXPECT_THAT(refusal(), mentions("MINI_node_attributes.txt:2:", "1e+300", "float32"));
  write("node_attributes", ",\n,\n,\n,\n,\n,\n");
  EXPECT_THAT(refusal(), HasSubstr("MINI_node_attributes.txt:1: "));
  write("node_labels", "1\n2, 7\n1\n1\n1\n1\n");
  EXPECT_THAT(refusal(), mentions("MINI_node_labels.txt:2:", "2 numbers", "has 1"));
}

TEST_F(TuDataset, RefusesACollectionOfNoGraph) {
  for (const char* part : {"A", "graph_indicator", "graph_labels"}) write(part, "");
  EXPECT_THAT(refusal(), HasSubstr("MINI_graph_labels.txt: holds no graph; fetch"));
}

TEST_F(TuDataset, MayHaveNoEdge) {
  for (const char* part : {"A", "edge_labels", "edge_attributes"}) write(part, "");
  const auto dataset = open();
  EXPECT_EQ(graph(*dataset, 0).at("edges@edge>node").sizes(), (at::IntArrayRef{0, 2}));
  EXPECT_EQ(graph(*dataset, 0).find("e@edge"), nullptr);
}

TEST_F(TuDataset, TakesEachRowOfSeveralLabelsForACategory) {
  write("node_labels", "1, 7\n0, 9\n1, 7\n0, 8\n1, 0\n0, 9\n");
  const auto dataset = open();
  EXPECT_TRUE(graph(*dataset, 0).at("type@node").equal(longs({3, 1, 3})));
  const auto& fields = dataset->info().fields;
  const auto type = std::find_if(fields.begin(), fields.end(),
                                 [](const FieldInfo& field) { return field.name == "type@node"; });
  ASSERT_NE(type, fields.end());
  EXPECT_EQ(type->categories, 4);
}

/// DGCNN's layout, and folds.
class Dgcnn : public ::testing::Test {
 protected:
  std::shared_ptr<Dataset> open(const std::string& text, const std::string& more = "") const {
    folder_.write("MINI.txt", text);
    return make_dataset("tudataset",
                        "{name: MINI, layout: dgcnn, root: " + folder_.path() + more + "}");
  }
  std::string refusal(const std::string& text, const std::string& more = "") const {
    return message_of<Error>([&] { open(text, more); });
  }
  /// 60 graphs of one to three nodes; a third of class 5, the others of class 2.
  static std::string many() {
    std::string text = "60\n";
    for (int g = 0; g < 60; ++g) {
      const int nodes = 1 + g % 3;
      text += std::to_string(nodes) + " " + (g % 3 == 0 ? "5" : "2") + "\n";
      for (int i = 0; i < nodes; ++i) {
        text += std::to_string(g);
        text += i > 0 ? " 1 0" : nodes == 1 ? " 0" : nodes == 2 ? " 1 1" : " 2 1 2";
        text += "\n";
      }
    }
    return text;
  }
  /// The numbers of the graphs of a split: their nodes' labels.
  static std::set<std::int64_t> graphs(const Dataset& dataset, Split split) {
    std::set<std::int64_t> all;
    for (std::int64_t i = 0; i < dataset.size(split); ++i) {
      all.insert(dataset.example(split, i, nullptr).at("type@node")[0].item<std::int64_t>());
    }
    return all;
  }

  testing::TempFolder folder_;
};

TEST_F(Dgcnn, ReadsBlocks) {
  const auto dataset = open("2\n3 1\n4 1 1 0.5\n7 2 0 2 1.5\n4 1 1 2.5\n1 0\n7 0 9\n",
                            ", folds: 100, fold: 99, validation: false");
  ASSERT_EQ(dataset->size(Split::train), 2);
  const NamedTensors first = dataset->example(Split::train, 0, nullptr);
  EXPECT_TRUE(first.at("type@node").equal(longs({0, 1, 0})));
  EXPECT_TRUE(first.at("edges@edge>node").equal(longs({1, 0, 0, 1, 2, 1, 1, 2}).view({4, 2})));
  EXPECT_TRUE(first.at("x@node").equal(at::tensor({0.5f, 1.5f, 2.5f}).view({3, 1})));
  EXPECT_EQ(first.at("class").item<std::int64_t>(), 1);
}

TEST_F(Dgcnn, NamesTheLineThatIsWrong) {
  EXPECT_THAT(refusal("1\n0 1\n"), mentions("MINI.txt:2:", "number of nodes is 0"));
  EXPECT_THAT(refusal("1\n2 1\n0 1 2\n0 0\n"), mentions("MINI.txt:3:", "neighbour is 2", "0 to 1"));
  EXPECT_THAT(refusal("1\n2 1\n0 3 1\n0 0\n"), mentions("MINI.txt:3:", "neighbours is 3"));
  EXPECT_THAT(refusal("2\n1 1\n0 0\n"), mentions("MINI.txt:", "ends where"));
  EXPECT_THAT(refusal("1\n1 1\n0 0\n0 0\n"), HasSubstr("lines follow the last graph"));
  EXPECT_THAT(refusal("1\n2 1\n0 0 1.5\n0 0\n"), mentions("MINI.txt:4:", "0 attributes"));
  EXPECT_THAT(refusal(many(), ", folds: 5, fold: 5"), mentions("fold:", "is 5", "0 to 4"));
  EXPECT_THAT(refusal(many(), ", folds: 100, fold: 70"), HasSubstr("to validate with"));
}

TEST_F(Dgcnn, DealsEachClassEvenlyIntoFolds) {
  std::set<std::int64_t> tested;
  for (int fold = 0; fold < 10; ++fold) {
    const auto dataset = open(many(), ", fold: " + std::to_string(fold));
    const std::set<std::int64_t> test = graphs(*dataset, Split::test);
    const std::set<std::int64_t> held = graphs(*dataset, Split::validation);
    EXPECT_EQ(test.size(), 6U);
    EXPECT_EQ(held.size(), 6U);
    EXPECT_EQ(dataset->size(Split::train), 48);
    const auto of_class =
        std::count_if(test.begin(), test.end(), [](std::int64_t g) { return g % 3 == 0; });
    EXPECT_EQ(of_class, 2);
    for (const std::int64_t graph : test) {
      EXPECT_TRUE(tested.insert(graph).second) << "tested twice";
      EXPECT_EQ(held.count(graph), 0U);
    }
    const auto next = open(many(), ", fold: " + std::to_string((fold + 1) % 10));
    EXPECT_EQ(graphs(*next, Split::test), held);
  }
  EXPECT_EQ(tested.size(), 60U);
  const auto other = open(many(), ", fold_seed: 1");
  EXPECT_NE(graphs(*other, Split::test), graphs(*open(many()), Split::test));
  EXPECT_EQ(open(many(), ", validation: false")->size(Split::train), 54);
}

TEST_F(Dgcnn, TakesPublishedFolds) {
  for (int part = 1; part <= 10; ++part) {
    folder_.write("10fold_idx/test_idx-" + std::to_string(part) + ".txt",
                  std::to_string(part) + "\n" + std::to_string(part + 20) + "\n");
  }
  const auto dataset = open(many(), ", split: published, fold: 3");
  EXPECT_EQ(graphs(*dataset, Split::test), (std::set<std::int64_t>{4, 24}));
  EXPECT_EQ(graphs(*dataset, Split::validation), (std::set<std::int64_t>{5, 25}));
  EXPECT_EQ(dataset->size(Split::train), 56);
  folder_.write("10fold_idx/test_idx-10.txt", "59\n60\n");
  EXPECT_THAT(refusal(many(), ", split: published"),
              HasSubstr("test_idx-10.txt:2: graph 60 is not there"));
  folder_.write("10fold_idx/test_idx-10.txt", "1\n");
  EXPECT_THAT(refusal(many(), ", split: published"), HasSubstr("graph 1 stands in two parts"));
}

TEST(PublishedTu, EnzymesAndMutagAreAsPublished) {
  if (!testing::has_data("graphs/tudataset/ENZYMES"))
    GTEST_SKIP() << "$ATTNLAB_DATA/graphs/tudataset is not there";
  const auto count = [](const Dataset& dataset) {
    std::int64_t graphs = 0, nodes = 0, edges = 0;
    for (const Split split : {Split::train, Split::validation, Split::test}) {
      for (std::int64_t i = 0; i < dataset.size(split); ++i) {
        ++graphs;
        nodes += dataset.cost(split, i);
        edges += dataset.example(split, i, nullptr).at("edges@edge>node").size(0);
      }
    }
    return std::vector<std::int64_t>{graphs, nodes, edges};
  };
  const auto enzymes = make_dataset("tudataset", "{name: ENZYMES}");
  EXPECT_EQ(count(*enzymes), (std::vector<std::int64_t>{600, 19580, 74564}));
  EXPECT_EQ(enzymes->info().field("type@node").categories, 3);
  EXPECT_EQ(enzymes->info().field("x@node").shape.back(), 18);
  const auto mutag = make_dataset("tudataset", "{name: MUTAG, layout: dgcnn, split: published}");
  EXPECT_EQ(count(*mutag), (std::vector<std::int64_t>{188, 3371, 7442}));  // TUDataset's counts
  EXPECT_EQ(mutag->info().field("type@node").categories, 7);
  EXPECT_EQ(mutag->size(Split::test), 18);
}

}  // namespace
}  // namespace attnlab::tudataset_test
