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

// x = torch.arange(9.).view(3, 3) / 4; e = torch.tensor([[1., 2.], [3., 4.], [5., 6.]])
// [(x.t(), e, torch.tensor([[2, 0, 1], [0, 1, 0]]), [20, 0, 7])], protocol 2: as LRGB's files are
const char* const kTensors =
    "80025d71002863746f7263682e5f7574696c730a5f72656275696c645f74656e736f725f76320a71012863746f72"
    "63682e73746f726167650a5f6c6f61645f66726f6d5f62797465730a7102635f636f646563730a656e636f64650a"
    "71035827010000c28002c28a0a6cc3bcc29c46c3b9206ac2a850192ec280024dc3a9032ec280027d710028581000"
    "000070726f746f636f6c5f76657273696f6e71014dc3a903580d0000006c6974746c655f656e6469616e7102c288"
    "580a000000747970655f73697a657371037d710428580500000073686f727471054b025803000000696e7471064b"
    "0458040000006c6f6e6771074b0475752ec2800228580700000073746f72616765710063746f7263680a466c6f61"
    "7453746f726167650a710158090000003435363437373430387102580300000063707571034b094e747104512ec2"
    "80025d710058090000003435363437373430387101612e0900000000000000000000000000c2803e0000003f0000"
    "403f0000c2803f0000c2a03f0000c3803f0000c3a03f00000040710458060000006c6174696e3171058671065271"
    "078571085271094b004b034b0386710a4b014b0386710b8963636f6c6c656374696f6e730a4f7264657265644469"
    "63740a710c2952710d74710e52710f68012868026803581a010000c28002c28a0a6cc3bcc29c46c3b9206ac2a850"
    "192ec280024dc3a9032ec280027d710028581000000070726f746f636f6c5f76657273696f6e71014dc3a903580d"
    "0000006c6974746c655f656e6469616e7102c288580a000000747970655f73697a657371037d7104285805000000"
    "73686f727471054b025803000000696e7471064b0458040000006c6f6e6771074b0475752ec28002285807000000"
    "73746f72616765710063746f7263680a466c6f617453746f726167650a7101580900000034353539393936393671"
    "02580300000063707571034b064e747104512ec280025d710058090000003435353939393639367101612e060000"
    "00000000000000c2803f00000040000040400000c280400000c2a0400000c3804071106805867111527112857113"
    "5271144b004b034b028671154b024b0186711689680c2952711774711852711968012868026803582d010000c280"
    "02c28a0a6cc3bcc29c46c3b9206ac2a850192ec280024dc3a9032ec280027d710028581000000070726f746f636f"
    "6c5f76657273696f6e71014dc3a903580d0000006c6974746c655f656e6469616e7102c288580a00000074797065"
    "5f73697a657371037d710428580500000073686f727471054b025803000000696e7471064b0458040000006c6f6e"
    "6771074b0475752ec2800228580700000073746f72616765710063746f7263680a4c6f6e6753746f726167650a71"
    "0158090000003435363437363439367102580300000063707571034b064e747104512ec280025d71005809000000"
    "3435363437363439367101612e060000000000000002000000000000000000000000000000010000000000000000"
    "0000000000000001000000000000000000000000000000711a680586711b52711c85711d52711e4b004b024b0386"
    "711f4b034b0186712089680c295271217471225271235d7124284b144b004b0765747125612e";

TEST_F(BenchmarkGraphs, SuperpixelsMayBeTensorsWithAListOfClasses) {
  std::string bytes;
  for (const char* at = kTensors; *at != 0; at += 2) {
    bytes += static_cast<char>(std::stoi(std::string(at, 2), nullptr, 16));
  }
  write("*.pickle", bytes);
  const NamedTensors graph = open("pascalvoc-sp")->example(Split::test, 0, nullptr);
  EXPECT_TRUE(graph.at("x@node").equal(at::arange(9.).to(at::kFloat).view({3, 3}).t() / 4));
  EXPECT_TRUE(graph.at("class@node").equal(longs({20, 0, 7})));
  // By target, then source, features with them.
  EXPECT_TRUE(graph.at("edges@edge>node").equal(longs({1, 0, 2, 0, 0, 1}).view({3, 2})));
  EXPECT_TRUE(graph.at("e@edge").equal(at::tensor({5.f, 6.f, 1.f, 2.f, 3.f, 4.f}).view({3, 2})));
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
