// Published graphs in files of Python and PyTorch: made-up ones in their layouts, and damaged ones.
#include <torch/serialize.h>

#include <cmath>
#include <filesystem>

#include "tests/support/data_files.h"
#include "tests/support/graph_sets.h"
#include "tests/support/pickles.h"
#include "tests/support/plugins.h"
#include "tests/support/temp_folder.h"

namespace attnlab::benchmark_graphs_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
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

/// The bytes that a text spells out in hexadecimal digits.
std::string bytes_of(const char* digits) {
  std::string bytes;
  for (const char* at = digits; *at != 0; at += 2) {
    bytes += static_cast<char>(std::stoi(std::string(at, 2), nullptr, 16));
  }
  return bytes;
}

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

TEST_F(BenchmarkGraphs, ZincsFilesMayBeGzipped) {
  write("*.pickle.gz", testing::gzipped(file(list({molecule({0, 5}, {0, 1, 1, 0}, 2)}))));
  write("*.index.gz", testing::gzipped("0,0\n"));
  EXPECT_EQ(open("zinc")->size(Split::test), 2);
}

// [{"num_atom": 3, "atom_type": torch.tensor([0, 5, 27]),
//   "bond_type": torch.tensor([[0, 1, 0], [1, 0, 3], [0, 3, 0]]),
//   "logP_SA_cycle_normalized": torch.tensor([-1.5])}], protocol 2: as the published files are
const char* const kZincOfTensors =
    "80025d71007d71012858080000006e756d5f61746f6d71024b03580900000061746f6d5f74797065710363746f72"
    "63682e5f7574696c730a5f72656275696c645f74656e736f725f76320a71042863746f7263682e73746f72616765"
    "0a5f6c6f61645f66726f6d5f62797465730a7105635f636f646563730a656e636f64650a71065815010000c28002"
    "c28a0a6cc3bcc29c46c3b9206ac2a850192ec280024dc3a9032ec280027d710028581000000070726f746f636f6c"
    "5f76657273696f6e71014dc3a903580d0000006c6974746c655f656e6469616e7102c288580a000000747970655f"
    "73697a657371037d710428580500000073686f727471054b025803000000696e7471064b0458040000006c6f6e67"
    "71074b0475752ec2800228580700000073746f72616765710063746f7263680a4c6f6e6753746f726167650a7101"
    "58090000003833373830333339327102580300000063707571034b034e747104512ec280025d7100580900000038"
    "33373830333339327101612e0300000000000000000000000000000005000000000000001b000000000000007107"
    "58060000006c6174696e31710886710952710a85710b52710c4b004b0385710d4b0185710e8963636f6c6c656374"
    "696f6e730a4f726465726564446963740a710f295271107471115271125809000000626f6e645f74797065711368"
    "0428680568065845010000c28002c28a0a6cc3bcc29c46c3b9206ac2a850192ec280024dc3a9032ec280027d7100"
    "28581000000070726f746f636f6c5f76657273696f6e71014dc3a903580d0000006c6974746c655f656e6469616e"
    "7102c288580a000000747970655f73697a657371037d710428580500000073686f727471054b025803000000696e"
    "7471064b0458040000006c6f6e6771074b0475752ec2800228580700000073746f72616765710063746f7263680a"
    "4c6f6e6753746f726167650a710158090000003833373830343039367102580300000063707571034b094e747104"
    "512ec280025d710058090000003833373830343039367101612e0900000000000000000000000000000001000000"
    "00000000000000000000000001000000000000000000000000000000030000000000000000000000000000000300"
    "0000000000000000000000000000711468088671155271168571175271184b004b034b038671194b034b0186711a"
    "89680f2952711b74711c52711d58180000006c6f67505f53415f6379636c655f6e6f726d616c697a6564711e6804"
    "28680568065804010000c28002c28a0a6cc3bcc29c46c3b9206ac2a850192ec280024dc3a9032ec280027d710028"
    "581000000070726f746f636f6c5f76657273696f6e71014dc3a903580d0000006c6974746c655f656e6469616e71"
    "02c288580a000000747970655f73697a657371037d710428580500000073686f727471054b025803000000696e74"
    "71064b0458040000006c6f6e6771074b0475752ec2800228580700000073746f72616765710063746f7263680a46"
    "6c6f617453746f726167650a710158090000003833373830343735327102580300000063707571034b014e747104"
    "512ec280025d710058090000003833373830343735327101612e01000000000000000000c380c2bf711f68088671"
    "205271218571225271234b004b018571244b0185712589680f2952712674712752712875612e";

TEST_F(BenchmarkGraphs, ZincMayBeTensors) {
  write("*.pickle", bytes_of(kZincOfTensors));
  const NamedTensors graph =
      open("zinc", ", subset: false")->example(Split::validation, 0, nullptr);
  EXPECT_TRUE(graph.at("type@node").equal(longs({0, 5, 27})));
  EXPECT_TRUE(graph.at("edges@edge>node").equal(longs({1, 0, 0, 1, 2, 1, 1, 2}).view({4, 2})));
  EXPECT_TRUE(graph.at("edge_type@edge").equal(longs({1, 1, 3, 3})));
  EXPECT_TRUE(graph.at("labels").equal(at::tensor({-1.5f})));
}

TEST_F(BenchmarkGraphs, ZincWithAnUnknownAtomIsRefused) {
  write("*.pickle", file(list({molecule({28}, {0}, 0)})));
  EXPECT_THAT(message_of<DataError>([&] { open("zinc", ", subset: false"); }),
              mentions("type@node", "from 28 to 28", "0 to 27"));
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
  write("*.pickle", bytes_of(kTensors));
  const NamedTensors graph = open("pascalvoc-sp")->example(Split::test, 0, nullptr);
  EXPECT_TRUE(graph.at("x@node").equal(at::arange(9.).to(at::kFloat).view({3, 3}).t() / 4));
  EXPECT_TRUE(graph.at("class@node").equal(longs({20, 0, 7})));
  // By target, then source, features with them.
  EXPECT_TRUE(graph.at("edges@edge>node").equal(longs({1, 0, 2, 0, 0, 1}).view({3, 2})));
  EXPECT_TRUE(graph.at("e@edge").equal(at::tensor({5.f, 6.f, 1.f, 2.f, 3.f, 4.f}).view({3, 2})));
}

TEST_F(BenchmarkGraphs, SuperpixelsMayHaveClassesOfOtherShapes) {
  const auto graph = [](std::vector<std::int64_t> shape, std::vector<std::int64_t> labels) {
    const auto n = std::int64_t(labels.size());
    return tuple({array("f4", {n, 1}, std::vector<float>(std::size_t(n), 0.5f)),
                  array("f4", {0, 1}, std::vector<float>()),
                  array("i8", {2, 0}, std::vector<std::int64_t>()), array("i8", shape, labels)});
  };
  write("*.pickle", file(list({graph({}, {3}), graph({2, 1}, {4, 5})})));
  const auto dataset = open("pascalvoc-sp");
  EXPECT_TRUE(dataset->example(Split::train, 0, nullptr).at("class@node").equal(longs({3})));
  EXPECT_TRUE(dataset->example(Split::train, 1, nullptr).at("class@node").equal(longs({4, 5})));
}

// A pickle names what it holds already by two bytes, an index a molecule by two characters.
TEST_F(BenchmarkGraphs, NamedAgainAndAgainAreRefused) {
  std::string again = "](" + superpixels({1, 1}) + "q\x01";
  for (int i = 0; i < 5000; ++i) again += "h\x01";
  write("*.pickle", file(again + "e"));
  EXPECT_THAT(message_of<DataError>([&] { open("pascalvoc-sp"); }),
              mentions("train.pickle:", "same graphs"));
  write("*.pickle", file(list({molecule({0, 5}, {0, 1, 1, 0}, 2)})));
  std::string index = "0";
  for (int i = 0; i < 1000; ++i) index += ",0";
  write("*.index", index);
  EXPECT_THAT(message_of<DataError>([&] { open("zinc"); }),
              mentions("train.pickle:", "same graphs"));
}

TEST_F(BenchmarkGraphs, CategoriesOfCocoLoseTheirGaps) {
  write("*.pickle", file(list({superpixels({0, 1, 11, 13, 90})})));
  const NamedTensors graph = open("coco-sp")->example(Split::train, 0, nullptr);
  EXPECT_TRUE(graph.at("class@node").equal(longs({0, 1, 11, 12, 80})));
  write("*.pickle", file(list({superpixels({12, 0})})));
  EXPECT_THAT(message_of<DataError>([&] { open("coco-sp"); }), mentions("12", "category of COCO"));
}

TEST_F(BenchmarkGraphs, EdgesOutOfRangeAndGraphsWithoutNodesAreNamed) {
  write("*.pickle", file(list({superpixels({1, 1}), superpixels({1, 1}, {0, 2, 1, 0})})));
  EXPECT_THAT(message_of<DataError>([&] { open("pascalvoc-sp"); }),
              mentions("train.pickle:", "graph 1: edge 1 (2, 0)"));
  write("*.pickle", file(list({superpixels({}, {})})));
  EXPECT_THAT(message_of<DataError>([&] { open("pascalvoc-sp"); }),
              mentions("train.pickle:", "graph 0:", "no nodes"));
}

using Fields = std::vector<std::pair<std::string, Tensor>>;

/// What torch.save writes of lists of maps: the splits' graphs.
std::string torch_file(const std::vector<std::vector<Fields>>& splits) {
  c10::impl::GenericList all(c10::AnyType::get());
  for (const auto& split : splits) {
    c10::impl::GenericList graphs(c10::AnyType::get());
    for (const Fields& graph : split) {
      c10::impl::GenericDict map(c10::StringType::get(), c10::AnyType::get());
      for (const auto& [name, tensor] : graph)
        map.insert(name, tensor.defined() ? c10::IValue(tensor) : c10::IValue());
      graphs.push_back(map);
    }
    all.push_back(graphs);
  }
  const std::vector<char> bytes = torch::pickle_save(all);
  return {bytes.begin(), bytes.end()};
}

/// A graph of three nodes.
Fields graph_with(const Tensor& classes, const Tensor& pos = {}) {
  return {{"x", at::arange(6.).to(at::kFloat).view({3, 2})},
          {"edge_index", longs({0, 1, 1, 0}).view({2, 2})},
          {"edge_attr", {}},
          {"pos", pos},
          {"y", classes}};
}

TEST_F(BenchmarkGraphs, OneFileOfPyTorchHoldsTheGraphsOfEachSplit) {
  const Fields first = graph_with(longs({0, 1, 0})), second = graph_with(longs({1, 1, 0}));
  folder_.write("PATTERN_v2.pt", torch_file({{first, second}, {second}, {first, first, second}}));
  const auto pattern = open("pattern");
  EXPECT_EQ(pattern->size(Split::train), 2);
  EXPECT_EQ(pattern->size(Split::validation), 1);
  EXPECT_EQ(pattern->size(Split::test), 3);
  const NamedTensors graph = pattern->example(Split::validation, 0, nullptr);
  EXPECT_TRUE(graph.at("x@node").equal(first[0].second));
  EXPECT_TRUE(graph.at("class@node").equal(longs({1, 1, 0})));
  EXPECT_EQ(graph.find("e@edge"), nullptr);
}

// What Python's torch.save writes of three lists, each of two graphs: {"x": torch.tensor([[.25, .5,
// .75], [1, 0, .5]]), "edge_index": torch.tensor([[0, 1], [1, 0]]), "edge_attr":
// torch.tensor([2., 3.]), "pos": torch.tensor([[.125, .25], [.5, .75]]), "y": torch.tensor([9])},
// and the same with y 8; then gzip.
const char* const kImages =
    "1f8b0800000000000203c597cf731a6518c71748086caa25adda68b5a69a56aacd0f202189b609c54ad5ad966ead"
    "6235228595c552e00b2f31ad662697662637ff0267fc0b1c0f7ad16367bc78f196430e1e7af0d2a377df97678177"
    "174282386627fbbe81bc9fe7f33cefbe797737a9798614c5e7533a8e51e584b2169ec9655866ba72a798881f576e"
    "751e9bee5528c155b8821b7007532e0eaec39365e56ad69c4ed759a15853d355e376bd50cca59951aa95abe9b5b0"
    "8aa1603035c207d7f8c84cdec030216aa258ceb01bf4a50a6f23e02c46521ede672b75f8342f83ffbaa6686ecdb3"
    "0555f368ae2d8c6e67b3e562d1c8b242b95453af557346d5c85d2e64998a23e7743cc1f0a48ea329954731727923"
    "5d28e58c75044c9e86d9545f2d97f22df358c31cc231d3a70d311c27a37b0b4ff18e1b9fde3645e067184ee8184f"
    "f99b81338c55f12cc53529fd309ee341dc0c271b411ee079cdf5002f5080530c2fea9868d45729d770da8646f012"
    "f95f6ef927c97f86f0b30cafe8a079bf8773164cc9cfe1550ebb185e1330579e17cd1481d30c333a66eb1b08054d"
    "8f79d40c98e3a63def798429ef8895f79ce0e7898f322ce858344f9b41d3ae8d6289b4af5bda37447381b08b0ccb"
    "3a56eac62a627cc55cdacbbd8038b9dfb4dc974590b7284882e18a8eb7bbb817f10eb9dfb5dc9a68ae12f61ec3fb"
    "3aaef192937b6997709db4baa5bd21f80f88bfc9f0a18e8f1c5ab75826b34891f763cb7b4b349f10f729c3aa8ecf"
    "44cd695ef3e7dde48d282164c87edbb26745941c453118bed091ef660fc3247bc1b27f299a3bc41519eeea28f1aa"
    "cb7b8a23a8901896b82a02d4280063a8eb58eb269ec357245eb7c4f744739fb8af19bed1b151378ce9a436e2fbf1"
    "dbddc767f85623cee49e9b8e5f996c6e3a33b389f844b72dc77628cae632e7561425c6cfcd152bce8a503efefdd1"
    "ee38ff20ce5eca504b194ac4a7f6553afc74b81c7df310799cfcfe4a7482ff3ed1330f5509b6f3e0b54f1e28119f"
    "e4d97df8dbcfe2b36f1f4facede1055fe8afe0cefa63fc2726fc3f6db35ffaf48707f5fba5fae30fefdeefd31f39"
    "e4fae706f5f77ffdfdcaa5969f4fffc581f4ffa27ed91ff92ffccbf21e20f278f4f7af2cc0bf08ec93c7522b0f7e"
    "19e695ff69fdc9f5cf1ff2fc4707f60fb6fe160eb9fec581fd835dffa543a8dfda7fd68c6a8d3f2c0fbaff445461"
    "fee3bbfc4df144e06e985da26bb9e51bff684736d21b8613946fdf7e1b541f52da4f094e4cbedbdab1bf242ce4c4"
    "e4c5abdab0cab08475e8e449b7733b32d7e193178b9d4b79252edc874fe62207af4fbc87b56f48bd7cf6e9dc91b8"
    "8e34e53dd88ea57c6d2cd26b56ecd89f12d64792e2cdacb5dbf69a13476d1216edc3a6b6b18583d7b623618b7dd8"
    "46dbd8921393ff251deb84306b03486a5eef79eb2fa73c53ad51638efe070ff5fa91e686e71d693cf006da0fbe49"
    "6dd84bcc58633c8dfd0787bc81d463100000";

TEST_F(BenchmarkGraphs, OfImagesHaveColourAndPlaceAsFeatures) {
  const auto expect_image = [&] {
    const auto images = open("cifar10");
    const NamedTensors image = images->example(Split::test, 0, nullptr);
    EXPECT_TRUE(image.at("x@node").equal(
        at::tensor({0.25f, 0.5f, 0.75f, 0.125f, 0.25f, 1.f, 0.f, 0.5f, 0.5f, 0.75f}).view({2, 5})));
    EXPECT_TRUE(image.at("e@edge").equal(at::tensor({3.f, 2.f}).view({2, 1})));
    EXPECT_EQ(image.at("class").item<std::int64_t>(), 9);
    EXPECT_EQ(images->example(Split::test, 1, nullptr).at("class").item<std::int64_t>(), 8);
  };
  folder_.write("CIFAR10_v2.pt.gz", bytes_of(kImages));
  expect_image();
  std::filesystem::rename(folder_ / "CIFAR10_v2.pt.gz", folder_ / "CIFAR10_v2.pt");
  expect_image();
}

TEST_F(BenchmarkGraphs, FilesOfPyTorchThatDoNotFitAreNamed) {
  const auto refusal = [&](const Fields& graph) {
    folder_.write("CLUSTER_v2.pt", torch_file({{graph}, {graph}, {graph}}));
    return message_of<DataError>([&] { open("cluster"); });
  };
  Fields reaching = graph_with(longs({0, 1, 0}));
  reaching[0].second = at::zeros({6});
  const std::vector<std::int64_t> sizes = {3, 2}, strides = {std::int64_t{1} << 36, 1};
  reaching[0].second.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  EXPECT_THAT(refusal(reaching),
              AllOf(HasSubstr("CLUSTER_v2.pt: data.pkl: byte "), HasSubstr("beyond its storage")));
  EXPECT_THAT(refusal(graph_with(longs({0, 6, 0}))), mentions("class@node", "from 0 to 6"));
  EXPECT_THAT(refusal(graph_with(longs({0, 6}))),
              mentions("CLUSTER_v2.pt:", "split 0, graph 0: y"));
  EXPECT_THAT(refusal(graph_with(longs({0, 1, 0}), at::zeros({2, 2}))),
              HasSubstr("their shapes do not fit"));
  folder_.write("CLUSTER_v2.pt", torch_file({{graph_with(longs({0, 1, 0}))}}));
  EXPECT_THAT(message_of<DataError>([&] { open("cluster"); }), HasSubstr("holds 1 lists"));
}

TEST_F(BenchmarkGraphs, DamagedFilesOfPyTorchAreRefused) {
  const Fields graph = graph_with(longs({0, 1, 0}));
  const std::string sound = torch_file({{graph}, {graph}, {graph}});
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{9}, sound.size() / 2, sound.size() - 1}) {
    folder_.write("PATTERN_v2.pt", sound.substr(0, size));
    EXPECT_THAT(message_of<DataError>([&] { open("pattern"); }), HasSubstr("PATTERN_v2.pt"))
        << size;
  }
}

/// A file of torch.save in which each split is `graphs`, of which tensors may hold `0`, `1` and
/// `2`.
std::string torch_zip(const std::string& graphs, const std::string& zeroth, bool deflated = false) {
  const std::string edges =
      raw(std::int64_t{0}) + raw(std::int64_t{1}) + raw(std::int64_t{1}) + raw(std::int64_t{0});
  return testing::zip_file({{"a/data.pkl", file(tuple({graphs, graphs, graphs}))},
                            {"a/data/0", zeroth},
                            {"a/data/1", edges},
                            {"a/data/2", raw(std::int64_t{1})},
                            {"a/data/none", ""}},
                           deflated);
}

TEST_F(BenchmarkGraphs, HostileFilesOfPyTorchAreRefused) {
  const auto refusal = [&](const std::string& bytes) {
    folder_.write("PATTERN_v2.pt", bytes);
    return message_of<DataError>([&] { open("pattern"); });
  };
  const std::string graph = map({{text("x"), stored("0", "Float", {2, 1})},
                                 {text("edge_index"), stored("1", "Long", {2, 2})},
                                 {text("y"), stored("2", "Long", {1})}});
  const std::string two = raw(0.5f) + raw(1.0f);
  folder_.write("PATTERN_v2.pt", torch_zip(list({graph}), two));
  EXPECT_EQ(open("pattern")->size(Split::test), 1);
  // Values that lie in each other without end: whoever frees them one within the other overflows.
  EXPECT_THAT(refusal(testing::zip_file(
                  {{"a/data.pkl", "\x80\x02N" + std::string(200'000, '\x85') + "."}}, false)),
              HasSubstr("PATTERN_v2.pt: holds 1 lists"));
  // One graph, named by two bytes each time.
  std::string again = "](" + graph + "q\x01";
  for (int i = 0; i < 20'000; ++i) again += "h\x01";
  EXPECT_THAT(refusal(torch_zip(again + "e", two)), mentions("PATTERN_v2.pt:", "same graphs"));
  EXPECT_THAT(refusal(torch_zip(list({graph}), raw(0.5f))), HasSubstr("beyond its storage"));
  EXPECT_THAT(refusal(torch_zip(list({graph}), two, true)),
              mentions("PATTERN_v2.pt:", "a/data.pkl", "compressed"));
  const std::string wide = map({{text("x"), stored("none", "Float", {1 << 30, 0})},
                                {text("edge_index"), stored("none", "Long", {2, 0})},
                                {text("y"), stored("2", "Long", {1})}});
  EXPECT_THAT(refusal(torch_zip(list({wide}), two)), HasSubstr("their shapes do not fit"));
}

TEST_F(BenchmarkGraphs, OfPyTorchMayHaveNoEdges) {
  const std::string graph = map({{text("x"), stored("0", "Float", {2, 1})},
                                 {text("edge_index"), stored("none", "Long", {2, 0})},
                                 {text("edge_attr"), stored("none", "Float", {0, 3})},
                                 {text("y"), stored("2", "Long", {1})}});
  folder_.write("PATTERN_v2.pt", torch_zip(list({graph}), raw(0.5f) + raw(1.0f)));
  const NamedTensors found = open("pattern")->example(Split::train, 0, nullptr);
  EXPECT_EQ(found.at("e@edge").sizes(), (at::IntArrayRef{0, 3}));
}

TEST_F(BenchmarkGraphs, SayWhichFilesAreMissing) {
  EXPECT_THAT(message_of<DataMissingError>([&] { open("zinc"); }),
              HasSubstr("train.pickle, train.index"));
  EXPECT_THAT(message_of<DataMissingError>([&] { open("mnist"); }),
              AllOf(HasSubstr("lacks MNIST_v2.pt"), HasSubstr("benchmarking-gnns/MNIST_v2.zip")));
}

}  // namespace
}  // namespace attnlab::benchmark_graphs_test
