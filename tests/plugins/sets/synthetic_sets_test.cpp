// Made-up sets of points: what they are, and that batches of them stay within a budget.
#include <cmath>

#include "framework/data/loader.h"
#include "tests/support/data_files.h"
#include "tests/support/plugins.h"

namespace attnlab::synthetic_sets_test {
namespace {

using ::testing::HasSubstr;
using testing::make_dataset;
using testing::message_of;

TEST(SyntheticSets, LieOnTheFlowerOfTheirClass) {
  const auto dataset = make_dataset("synthetic_sets", "{noise: 0}");
  for (std::int64_t i = 0; i < 50; ++i) {
    const NamedTensors set = dataset->example(Split::train, i, nullptr);
    const Tensor x = set.at("x@node").to(at::kDouble);
    const double petals = set.at("class").item<double>() + 2;
    const Tensor angle = at::atan2(x.select(1, 1), x.select(1, 0));
    const Tensor radius = 1 + (petals * angle).cos() / 2;
    EXPECT_TRUE(at::allclose(x.norm(2, 1), radius, 0, 1e-5));
  }
}

TEST(SyntheticSets, AreOutlinesOfUnevenSize) {
  const auto dataset = make_dataset("synthetic_sets", "{least: 3, most: 6}");
  std::map<std::int64_t, int> sizes, classes;
  for (std::int64_t i = 0; i < 400; ++i) {
    const NamedTensors set = dataset->example(Split::train, i, nullptr);
    const std::int64_t n = set.at("x@node").size(0);
    EXPECT_EQ(dataset->cost(Split::train, i), n);
    const Tensor edges = set.at("edges@edge>node");
    EXPECT_TRUE(edges.select(1, 0).equal(at::arange(n)));
    EXPECT_TRUE(edges.select(1, 1).equal((at::arange(n) + 1).remainder(n)));
    ++sizes[n];
    ++classes[set.at("class").item<std::int64_t>()];
  }
  EXPECT_EQ(sizes.size(), 4U);
  EXPECT_EQ(classes.size(), 4U);
  for (const auto& [size, count] : sizes) EXPECT_GT(count, 60) << size;
}

TEST(SyntheticSets, FillBatchesUpToABudgetOfNodes) {
  const auto dataset = make_dataset("synthetic_sets", "{train: 300, least: 2, most: 20}");
  EXPECT_EQ(dataset->info().unit, "nodes");
  const EpochPlan plan = dataset->plan({.training = true, .budget = 100});
  Loader loader(*dataset, RandomStreams(0), plan, {.workers = 0});
  std::int64_t sets = 0, batches = 0, nodes = 0;
  while (const std::optional<Batch> batch = loader.next()) {
    EXPECT_LE(units_of(dataset->info(), *batch), 100);
    EXPECT_EQ(rows_of(*batch, "edge"), rows_of(*batch, "node"));
    EXPECT_LT(batch->fields.at("edges@edge>node").max().item<std::int64_t>(),
              rows_of(*batch, "node"));
    sets += batch->size;
    nodes += units_of(dataset->info(), *batch);
    ++batches;
  }
  EXPECT_EQ(sets, 300);
  EXPECT_GT(nodes, 80 * (batches - 1)) << "batches are not filled";
}

// A classifier without attention, on sums of cos(m a) r over the points, tells the classes apart.
TEST(SyntheticSets, CanBeTold) {
  const auto dataset = make_dataset("synthetic_sets", "{least: 64, most: 96}");
  int right = 0;
  for (std::int64_t i = 0; i < 200; ++i) {
    const NamedTensors set = dataset->example(Split::train, i, nullptr);
    const Tensor x = set.at("x@node"), radius = x.norm(2, 1) - 1;
    const Tensor angle = at::atan2(x.select(1, 1), x.select(1, 0));
    std::int64_t best = 0;
    double most = -1;
    for (std::int64_t k = 0; k < 4; ++k) {
      const double fit = (radius * (angle * double(k + 2)).cos()).mean().item<double>();
      if (fit > most) best = k;
      most = std::max(most, fit);
    }
    right += best == set.at("class").item<std::int64_t>() ? 1 : 0;
  }
  EXPECT_GT(right, 190);
}

TEST(SyntheticSets, RefuseSizesThatContradict) {
  EXPECT_THAT(
      message_of<ConfigError>([] { make_dataset("synthetic_sets", "{least: 9, most: 8}"); }),
      HasSubstr("least: 9 is above most, 8"));
}

}  // namespace
}  // namespace attnlab::synthetic_sets_test
