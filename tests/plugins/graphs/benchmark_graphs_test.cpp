// Published graphs in files of Python and PyTorch: made-up ones in their layouts, and damaged ones.
#include <torch/serialize.h>

#include <cmath>

#include "tests/support/data_files.h"
#include "tests/support/graph_sets.h"
#include "tests/support/pickles.h"
#include "tests/support/plugins.h"
#include "tests/support/temp_folder.h"

namespace attnlab {
namespace {

using ::testing::HasSubstr;
using testing::make_dataset;
using testing::message_of;
using namespace testing::pickles;

Tensor longs(const std::vector<std::int64_t>& values) { return at::tensor(values, at::kLong); }

class BenchmarkGraphs : public ::testing::Test {
 protected:
  std::shared_ptr<Dataset> open(const std::string& name, const std::string& more = "") const {
    return make_dataset("benchmark_graphs",
                        "{name: " + name + ", root: " + folder_.path() + more + "}");
  }
  void write(const std::string& pattern, const std::string& bytes) const {
    for (const std::string part : {"train", "val", "test"}) {
      std::string name = pattern;
      folder_.write(name.replace(name.find('*'), 1, part), bytes);
    }
  }
  testing::TempFolder folder_;
};

std::string molecule(std::vector<std::int64_t> atoms, std::vector<std::int64_t> bonds,
                     float target) {
  const auto n = std::int64_t(atoms.size());
  const auto side = static_cast<std::int64_t>(std::lround(std::sqrt(double(bonds.size()))));
  return map({{text("num_atom"), integer(n)},
              {text("atom_type"), array("i8", {n}, atoms)},
              {text("bond_type"), array("i8", {side, side}, bonds)},
              {text("logP_SA_cycle_normalized"), array("f4", {1}, std::vector<float>{target})}});
}

TEST_F(BenchmarkGraphs, ZincIsMoleculesByIndex) {
  write("*.pickle", file(list({molecule({0, 5, 27}, {0, 1, 0, 1, 0, 3, 0, 3, 0}, -1.5f),
                               molecule({4}, {0}, 2)})));
  write("*.index", "1,0\n");
  const auto dataset = open("zinc");
  ASSERT_EQ(dataset->size(Split::test), 2);
  const NamedTensors graph = dataset->example(Split::test, 1, nullptr);
  EXPECT_TRUE(graph.at("type@node").equal(longs({0, 5, 27})));
  EXPECT_TRUE(graph.at("edges@edge>node").equal(longs({1, 0, 0, 1, 2, 1, 1, 2}).view({4, 2})));
  EXPECT_TRUE(graph.at("edge_type@edge").equal(longs({1, 1, 3, 3})));
  EXPECT_TRUE(graph.at("labels").equal(at::tensor({-1.5f})));
  EXPECT_EQ(dataset->info().field("type@node").categories, 28);
  EXPECT_EQ(dataset->example(Split::train, 0, nullptr).at("edges@edge>node").size(0), 0);
  EXPECT_EQ(
      open("zinc", ", subset: false")->example(Split::train, 0, nullptr).at("type@node").numel(),
      3);
  write("*.index", "0,2\n");
  EXPECT_THAT(message_of<DataError>([&] { open("zinc"); }),
              HasSubstr("train.index:1: there is no molecule 2"));
}

TEST_F(BenchmarkGraphs, ZincWithAnUnknownAtomIsRefused) {
  write("*.pickle", file(list({molecule({28}, {0}, 0)})));
  EXPECT_THAT(message_of<DataError>([&] { open("zinc", ", subset: false"); }),
              HasSubstr("type@node holds values from 28 to 28, expected 0 to 27"));
  write("*.pickle", file(list({molecule({1, 2}, {0}, 0)})));
  EXPECT_THAT(message_of<DataError>([&] { open("zinc", ", subset: false"); }),
              HasSubstr("graph 0"));
}

std::string superpixels(std::vector<std::int64_t> labels,
                        std::vector<std::int64_t> edges = {0, 1, 1, 0}) {
  const auto n = std::int64_t(labels.size());
  const auto e = std::int64_t(edges.size()) / 2;
  return tuple({array("f4", {n, 2}, std::vector<float>(std::size_t(2 * n), 0.5f)),
                array("f4", {e, 1}, std::vector<float>(std::size_t(e), 2)),
                array("i8", {2, e}, edges), array("i8", {n}, labels)});
}

TEST_F(BenchmarkGraphs, SuperpixelsOfLrgbHaveAClassEach) {
  write("*.pickle", file(list({superpixels({20, 0}), superpixels({3, 4, 5}, {0, 2, 2, 1})})));
  const auto dataset = open("pascalvoc-sp");
  EXPECT_EQ(dataset->info().classes, 21);
  const NamedTensors graph = dataset->example(Split::train, 1, nullptr);
  EXPECT_TRUE(graph.at("class@node").equal(longs({3, 4, 5})));
  EXPECT_TRUE(graph.at("edges@edge>node").equal(longs({2, 1, 0, 2}).view({2, 2})));
  EXPECT_EQ(graph.at("e@edge").sizes(), (at::IntArrayRef{2, 1}));
}

TEST_F(BenchmarkGraphs, CategoriesOfCocoLoseTheirGaps) {
  write("*.pickle", file(list({superpixels({0, 1, 11, 13, 90})})));
  const NamedTensors graph = open("coco-sp")->example(Split::train, 0, nullptr);
  EXPECT_TRUE(graph.at("class@node").equal(longs({0, 1, 11, 12, 80})));
  write("*.pickle", file(list({superpixels({12, 0})})));
  EXPECT_THAT(message_of<DataError>([&] { open("coco-sp"); }),
              HasSubstr("12 is no category of COCO"));
}

TEST_F(BenchmarkGraphs, EdgesOutOfRangeAndGraphsWithoutNodesAreNamed) {
  write("*.pickle", file(list({superpixels({1, 1}), superpixels({1, 1}, {0, 2, 1, 0})})));
  EXPECT_THAT(message_of<DataError>([&] { open("pascalvoc-sp"); }),
              HasSubstr("train.pickle: graph 1: edge 1 (2, 0) names a node"));
  write("*.pickle", file(list({superpixels({}, {})})));
  EXPECT_THAT(message_of<DataError>([&] { open("pascalvoc-sp"); }),
              HasSubstr("train.pickle: graph 0: the graph has no nodes"));
}

/// What torch.save writes of a list of maps.
std::string torch_file(const std::vector<std::vector<std::pair<std::string, Tensor>>>& graphs) {
  c10::impl::GenericList all(c10::AnyType::get());
  for (const auto& graph : graphs) {
    c10::impl::GenericDict map(c10::StringType::get(), c10::AnyType::get());
    for (const auto& [name, tensor] : graph)
      map.insert(name, tensor.defined() ? c10::IValue(tensor) : c10::IValue());
    all.push_back(map);
  }
  const std::vector<char> bytes = torch::pickle_save(all);
  return {bytes.begin(), bytes.end()};
}

TEST_F(BenchmarkGraphs, FilesOfPyTorchHaveClassesOfNodesOrOfGraphs) {
  const Tensor x = at::arange(6.).to(at::kFloat).view({3, 2}),
               edges = longs({0, 1, 1, 0}).view({2, 2});
  write(
      "PATTERN_*.pt",
      torch_file({{{"x", x}, {"edge_index", edges}, {"edge_attr", {}}, {"y", longs({0, 1, 0})}}}));
  const auto pattern = open("pattern");
  const NamedTensors graph = pattern->example(Split::validation, 0, nullptr);
  EXPECT_TRUE(graph.at("x@node").equal(x));
  EXPECT_TRUE(graph.at("class@node").equal(longs({0, 1, 0})));
  EXPECT_EQ(graph.find("e@edge"), nullptr);
  write("CIFAR10_*.pt",
        torch_file(
            {{{"x", x}, {"edge_index", edges}, {"edge_attr", at::ones({2})}, {"y", longs({9})}}}));
  const NamedTensors image = open("cifar10")->example(Split::test, 0, nullptr);
  EXPECT_EQ(image.at("class").item<std::int64_t>(), 9);
  EXPECT_EQ(image.at("e@edge").sizes(), (at::IntArrayRef{2, 1}));
  write("CLUSTER_*.pt", torch_file({{{"x", x}, {"edge_index", edges}, {"y", longs({0, 6, 0})}}}));
  EXPECT_THAT(message_of<DataError>([&] { open("cluster"); }),
              HasSubstr("class@node holds values from 0 to 6"));
  write("CLUSTER_*.pt", torch_file({{{"x", x}, {"edge_index", edges}, {"y", longs({0, 6})}}}));
  EXPECT_THAT(message_of<DataError>([&] { open("cluster"); }),
              HasSubstr("neither one value nor one a node"));
}

TEST_F(BenchmarkGraphs, DamagedFilesOfPyTorchAreRefused) {
  const std::string sound = torch_file({{{"x", at::zeros({3, 2})},
                                         {"edge_index", longs({0, 1, 1, 0}).view({2, 2})},
                                         {"y", longs({0, 1, 0})}}});
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{9}, sound.size() / 2, sound.size() - 1}) {
    write("PATTERN_*.pt", sound.substr(0, size));
    EXPECT_THAT(message_of<DataError>([&] { open("pattern"); }), HasSubstr("PATTERN_train.pt"))
        << size;
  }
}

TEST_F(BenchmarkGraphs, SayWhichFilesAreMissing) {
  EXPECT_THAT(message_of<DataMissingError>([&] { open("zinc"); }),
              HasSubstr("train.pickle, train.index"));
}

}  // namespace
}  // namespace attnlab
