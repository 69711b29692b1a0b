// Citation graphs: a small one in Planetoid's files, damaged ones, and Cora where it is.
#include <set>

#include "tests/support/data_files.h"
#include "tests/support/graph_sets.h"
#include "tests/support/planetoid_files.h"
#include "tests/support/plugins.h"
#include "tests/support/temp_folder.h"

namespace attnlab::planetoid_test {
namespace {

using attnlab::testing::mentions;
using ::testing::HasSubstr;
using testing::make_dataset;
using testing::message_of;
using testing::PlanetoidFiles;

class Planetoid : public ::testing::Test {
 protected:
  std::shared_ptr<Dataset> open(const PlanetoidFiles& files, const std::string& more = "",
                                std::uint64_t seed = 0) const {
    files.write(folder_);
    return make_dataset("planetoid", "{name: cora, root: " + folder_.path() + more + "}", seed);
  }
  std::string refusal(const PlanetoidFiles& files, const std::string& more = "") const {
    return message_of<Error>([&] { open(files, more); });
  }
  static std::vector<std::int64_t> counted(const NamedTensors& graph) {
    const Tensor places = graph.at("class@node").ge(0).nonzero().view({-1});
    return {places.data_ptr<std::int64_t>(), places.data_ptr<std::int64_t>() + places.numel()};
  }

  testing::TempFolder folder_;
};

TEST_F(Planetoid, IsOneGraphOfWhichEachSplitCountsOtherNodes) {
  const PlanetoidFiles files;
  const auto dataset = open(files, ", normalise: false");
  const std::int64_t known = files.known();
  for (const Split split : {Split::train, Split::validation, Split::test}) {
    ASSERT_EQ(dataset->size(split), 1);
    const NamedTensors graph = dataset->example(split, 0, nullptr);
    EXPECT_EQ(graph.at("x@node").sizes(), (at::IntArrayRef{known + 4, 6}));
    EXPECT_EQ(dataset->cost(split, 0), known + 4);
  }
  std::vector<std::int64_t> expected(4);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(counted(dataset->example(Split::train, 0, nullptr)), expected);
  expected.resize(500);
  std::iota(expected.begin(), expected.end(), 4);
  EXPECT_EQ(counted(dataset->example(Split::validation, 0, nullptr)), expected);
  // Of the three test papers one lies behind a gap, as CiteSeer has them.
  EXPECT_EQ(counted(dataset->example(Split::test, 0, nullptr)),
            (std::vector<std::int64_t>{known, known + 1, known + 3}));
}

TEST_F(Planetoid, PutsTestPapersWhereTheIndexSays) {
  const PlanetoidFiles files;
  const NamedTensors graph = open(files, ", normalise: false")->example(Split::test, 0, nullptr);
  const Tensor x = graph.at("x@node"), labels = graph.at("class@node");
  for (std::size_t row = 0; row < files.test.size(); ++row) {
    const std::int64_t node = files.test[row];
    for (const std::int32_t word : files.test_words[row]) EXPECT_EQ(x[node][word].item<float>(), 1);
    EXPECT_EQ(x[node].sum().item<float>(), float(files.test_words[row].size()));
    EXPECT_EQ(labels[node].item<std::int64_t>(), files.test_classes[row]);
  }
  EXPECT_EQ(x[files.known() + 2].sum().item<float>(), 0);  // the gap
}

TEST_F(Planetoid, DoesNotCountAPaperWithoutAClass) {
  PlanetoidFiles files;
  files.test_classes = {2, -1, 1};  // of papers 505, 504 and 507
  EXPECT_EQ(counted(open(files)->example(Split::test, 0, nullptr)),
            (std::vector<std::int64_t>{505, 507}))
      << "it was of the first class";
}

TEST_F(Planetoid, RefusesAMatrixThatIsAllZeros) {
  PlanetoidFiles files;
  files.columns = 200'000;
  EXPECT_THAT(refusal(files), mentions("ind.cora.allx:", "504 x 200000", "1008 values"));
}

// Empty rows pack to nothing: however many there are.
TEST_F(Planetoid, RefusesAMatrixThatIsLargerThanAnySets) {
  PlanetoidFiles files;
  files.columns = 600'000;
  EXPECT_THAT(refusal(files), mentions("ind.cora.allx:", "504 x 600000", "fetch"));
}

TEST_F(Planetoid, DividesWordsByTheirSum) {
  const Tensor sums = open({})->example(Split::train, 0, nullptr).at("x@node").sum(1);
  EXPECT_TRUE(at::logical_or((sums - 1).abs().lt(1e-6), sums.eq(0)).all().item<bool>());
  EXPECT_GT(sums.gt(0).sum().item<std::int64_t>(), 500);
}

TEST_F(Planetoid, CountsEachLinkOnceInBothDirections) {
  PlanetoidFiles files;
  files.links = {{0, {1, 1, 0}}, {1, {0}}, {2, {0}}};
  const Tensor edges = open(files)->example(Split::train, 0, nullptr).at("edges@edge>node");
  EXPECT_TRUE(edges.equal(at::tensor({1, 0, 2, 0, 0, 1, 0, 2}, at::kLong).view({4, 2})));
}

TEST_F(Planetoid, ReadsASetThatNobodyPublished) {
  PlanetoidFiles files;
  files.name = "mine";
  files.write(folder_);
  const auto dataset = make_dataset("planetoid", "{name: mine, root: " + folder_.path() + "}");
  EXPECT_EQ(dataset->info().name, "mine");
  EXPECT_EQ(counted(dataset->example(Split::train, 0, nullptr)).size(), 4U);
}

TEST_F(Planetoid, HoldsLinksOut) {
  PlanetoidFiles files;
  files.links.clear();
  for (std::int64_t i = 0; i < 200; ++i) files.links.push_back({i, {i + 1}});
  const auto dataset = open(files, ", links: 0.1");
  std::set<std::pair<std::int64_t, std::int64_t>> held;
  const std::vector<std::int64_t> counts = {160, 20, 20};
  for (const Split split : {Split::train, Split::validation, Split::test}) {
    const NamedTensors graph = dataset->example(split, 0, nullptr);
    EXPECT_EQ(graph.find("class@node"), nullptr);
    const Tensor pairs = graph.at("pairs@pair>node"), links = graph.at("link@pair");
    const std::int64_t count = counts[std::size_t(split)];
    ASSERT_EQ(pairs.sizes(), (at::IntArrayRef{2 * count, 2}));
    EXPECT_EQ(links.sum().item<std::int64_t>(), count);
    for (std::int64_t p = 0; p < 2 * count; ++p) {
      const std::int64_t i = pairs[p][0].item<std::int64_t>(), j = pairs[p][1].item<std::int64_t>();
      EXPECT_EQ(links[p].item<std::int64_t>(), i < 200 && j == i + 1 ? 1 : 0);
      if (links[p].item<std::int64_t>() == 1) {
        EXPECT_TRUE(held.emplace(i, j).second) << "in two splits";
      }
    }
    EXPECT_EQ(graph.at("edges@edge>node").size(0), 2 * 160) << "held-out links are edges";
    const Tensor all = at::stack({at::arange(200), at::arange(1, 201)}, 1);
    EXPECT_TRUE(graph.at("links@link>node").equal(all)) << "each split knows the others' links";
  }
  EXPECT_EQ(held.size(), 200U);
}

TEST_F(Planetoid, HoldsSomeLinksOutWhereAShareIsAskedFor) {
  PlanetoidFiles files;
  files.links.clear();
  for (std::int64_t i = 0; i < 200; ++i) files.links.push_back({i, {i + 1}});
  EXPECT_THAT(message_of<Error>([&] { open(files, ", links: 0.004"); }),
              mentions("links:", "0.004 of 200", "0.005"));
  EXPECT_EQ(open(files, ", links: 0.005")->example(Split::test, 0, nullptr).at("link@pair").numel(),
            2);
}

TEST_F(Planetoid, RefusesFilesThatDoNotFit) {
  PlanetoidFiles files;
  files.links.push_back({0, {99999}});
  EXPECT_THAT(refusal(files), mentions("ind.cora.graph:", "(0, 99999)"));
  files = {};
  files.test[0] = 3;
  EXPECT_THAT(refusal(files), mentions("ind.cora.test.index:", "a paper twice"));
  files = {};
  files.test.pop_back();
  EXPECT_THAT(refusal(files), HasSubstr("ind.cora.test.index: does not fit tx"));
  files = {};
  files.test_words[0] = {6};
  EXPECT_THAT(refusal(files), HasSubstr("ind.cora.tx: row 0 names column 6 of 6"));
  files = {};
  files.test_classes.pop_back();
  EXPECT_THAT(refusal(files), HasSubstr("ind.cora.ty: does not fit"));
  PlanetoidFiles().write(folder_);
  folder_.write("ind.cora.test.index", "504\nx\n");
  EXPECT_THAT(message_of<DataError>(
                  [&] { make_dataset("planetoid", "{name: cora, root: " + folder_.path() + "}"); }),
              mentions("ind.cora.test.index:2:", "'x'", "whole number"));
}

TEST(PublishedPlanetoid, CoraIsAsPublished) {
  if (!testing::has_data("graphs/planetoid"))
    GTEST_SKIP() << "$ATTNLAB_DATA/graphs/planetoid is not there";
  const auto dataset = make_dataset("planetoid", "{name: cora, laplacian: 4, rwse: 4}");
  const NamedTensors train = dataset->example(Split::train, 0, nullptr);
  EXPECT_EQ(train.at("x@node").sizes(), (at::IntArrayRef{2708, 1433}));
  EXPECT_EQ(train.at("edges@edge>node").size(0), 10556);  // PyG's count
  EXPECT_EQ(dataset->info().classes, 7);
  const Tensor labels = train.at("class@node");
  for (std::int64_t c = 0; c < 7; ++c) EXPECT_EQ(labels.eq(c).sum().item<std::int64_t>(), 20);
  EXPECT_EQ(dataset->example(Split::validation, 0, nullptr)
                .at("class@node")
                .ge(0)
                .sum()
                .item<std::int64_t>(),
            500);
  const Tensor test = dataset->example(Split::test, 0, nullptr).at("class@node");
  EXPECT_EQ(test.ge(0).sum().item<std::int64_t>(), 1000);
  EXPECT_TRUE(test.narrow(0, 1708, 1000).ge(0).all().item<bool>());
  // 78 components: the smallest eigenvalues are 0, and their vectors the same all over a component.
  EXPECT_TRUE(train.at("lap_values@node").eq(0).all().item<bool>());
  const Tensor edges = train.at("edges@edge>node"), vectors = train.at("lap_vectors@node");
  const Tensor source = edges.select(1, 0), target = edges.select(1, 1);
  EXPECT_TRUE(vectors.index_select(0, source).allclose(vectors.index_select(0, target), 0, 1e-6));
  const Tensor exact = vectors.to(at::kDouble);  // sums of 2,708 equal terms round one way in float
  EXPECT_TRUE(exact.t().matmul(exact).allclose(at::eye(4, at::kDouble), 0, 1e-5));
  // A walk is back after two steps by each neighbour: sum over j of 1 / (d_i d_j).
  const Tensor degrees = at::bincount(target, {}, 2708).to(at::kDouble);
  const Tensor back =
      at::zeros({2708}, at::kDouble)
          .index_add_(0, target,
                      1 / (degrees.index_select(0, target) * degrees.index_select(0, source)));
  EXPECT_TRUE(train.at("rwse@node").select(1, 1).to(at::kDouble).allclose(back, 0, 1e-6));
  EXPECT_GT(back.max().item<double>(), 0.5);
}

}  // namespace
}  // namespace attnlab::planetoid_test
