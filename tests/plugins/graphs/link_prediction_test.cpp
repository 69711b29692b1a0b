// Link prediction: losses and metrics against cases by hand, and links learnt by a run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plugins/graphs/graph_answers.h"
#include "tests/support/planetoid_files.h"
#include "tests/support/plugins.h"
#include "tests/support/tiny_run.h"

namespace attnlab::link_prediction_test {
namespace {

using graph_answers::Answered;
using graph_answers::cross_entropy;
using graph_answers::data_with;
using graph_answers::measured;
using graph_answers::others;
using testing::make_dataset;
using testing::make_model;
using testing::make_task;

/// Behind a graph of two nodes one of five, whose links (1, 2) and (2, 4) are asked for.
Answered linked_before() {
  Answered answered;
  answered.outputs.set("features@node",
                       at::tensor({7.0, 8.0, 1e-3, 1.0, 2.0, 3.0, 1.5}, at::kDouble).view({7, 1}));
  answered.batch.fields.set("pairs@pair>node", at::tensor({3, 4, 4, 6}, at::kLong).view({2, 2}));
  answered.batch.fields.set("link@pair", at::tensor({1, 1}, at::kLong));
  answered.batch.offsets.set("node", at::tensor({0, 2, 7}, at::kLong));
  answered.batch.offsets.set("pair", at::tensor({0, 0, 2}, at::kLong));
  answered.batch.size = 2;
  return answered;
}

/// Two graphs, of three nodes and of two; the second has no links.
Answered linked() {
  Answered answered;
  answered.outputs.set(
      "features@node",
      at::tensor({1.0, 0.0, 2.0, 1.0, 3.0, 0.0, 5.0, 5.0, 1.0, 1.0}, at::kDouble).view({5, 2}));
  answered.batch.fields.set("pairs@pair>node",
                            at::tensor({0, 1, 0, 2, 1, 0, 3, 4}, at::kLong).view({4, 2}));
  answered.batch.fields.set("link@pair", at::tensor({1, 1, 0, 0}, at::kLong));
  answered.batch.offsets.set("node", at::tensor({0, 3, 5}, at::kLong));
  answered.batch.offsets.set("pair", at::tensor({0, 3, 4}, at::kLong));
  answered.batch.size = 2;
  return answered;
}

TEST(LinkPrediction, RanksTailsAmongTheNodesOfTheirGraph) {
  const auto task = testing::make_task("link_prediction", data_with({}));
  // From node 0 the scores are 1 (itself), 2 and 3: tail 1 is second, tail 2 first. Filtered, tail
  // 1 competes with node 0 alone.
  const Metrics metrics = measured(*task, {linked()});
  EXPECT_DOUBLE_EQ(metrics.at("mrr"), (1.0 / 2 + 1) / 2);
  EXPECT_DOUBLE_EQ(metrics.at("mrr_filtered"), 1);
  EXPECT_DOUBLE_EQ(metrics.at("hits1"), 0.5);
  EXPECT_DOUBLE_EQ(metrics.at("hits3"), 1);
}

TEST(LinkPrediction, TheExtendedFilterLeavesTheHeadOut) {
  const auto task =
      testing::make_task("link_prediction", data_with({}), "{headline: mrr_extended}");
  EXPECT_EQ(task->metrics().front().name, "mrr_extended");
  EXPECT_EQ(task->metrics().size(), 6U);
  // From node 3 a node scores 3 x its number: itself 9, the tail 2 has 6, node 4 4.5. Filtered the
  // tail is second, without the head itself first. From node 2 the tail 4 scores 3: node 3, which a
  // link joins, is out, the head itself (4) is before it, node 1 (2) behind.
  Answered all = linked_before();
  all.batch.fields.at("pairs@pair>node")[0][0] = 5;
  const Metrics metrics = measured(*task, {all});
  EXPECT_DOUBLE_EQ(metrics.at("mrr_filtered"), (1.0 / 2 + 1.0 / 2) / 2);
  EXPECT_DOUBLE_EQ(metrics.at("mrr_extended"), 1);
}

TEST(LinkPrediction, RanksNothingWithoutALink) {
  Answered all = linked();
  all.batch.fields.set("link@pair", at::zeros({4}, at::kLong));
  EXPECT_TRUE(others(*testing::make_task("link_prediction", data_with({})), all).empty());
}

TEST(LinkPrediction, FiltersLinksInWhicheverDirectionTheyAreStored) {
  const auto task = testing::make_task("link_prediction", data_with({}));
  // From node 2 the others score 0.002 2 4 6, and 3 for the tail 4: it is third. Filtered by (1,
  // 2), which stands the other way round, it stays third, since node 1 scores less. From node 1 the
  // tail 2 scores 2 among 0.001 1 3 1.5, second either way.
  const Answered all = linked_before();
  Metrics metrics = measured(*task, {all});
  EXPECT_DOUBLE_EQ(metrics.at("mrr"), (1.0 / 3 + 1.0 / 2) / 2);
  EXPECT_DOUBLE_EQ(metrics.at("mrr_filtered"), (1.0 / 3 + 1.0 / 2) / 2);
  // With (3, 2) instead, node 3 no longer counts for head 2: itself alone is before the tail. From
  // node 3 the tail 2 scores 6 among 0.003 3 9 4.5, second.
  all.batch.fields.at("pairs@pair>node")[0][0] = 5;
  metrics = measured(*task, {all});
  EXPECT_DOUBLE_EQ(metrics.at("mrr"), (1.0 / 3 + 1.0 / 2) / 2);
  EXPECT_DOUBLE_EQ(metrics.at("mrr_filtered"), (1.0 / 2 + 1.0 / 2) / 2);
}

TEST(LinkPrediction, FiltersLinksOfOtherSplits) {
  const auto task = testing::make_task("link_prediction", data_with({}));
  Answered all = linked_before();
  // A training link (3, 2), one of the other graph, and the asked ones, which a dataset lists, too.
  all.batch.fields.set("links@link>node",
                       at::tensor({0, 1, 5, 4, 3, 4, 4, 6}, at::kLong).view({4, 2}));
  all.batch.offsets.set("link", at::tensor({0, 1, 4}, at::kLong));
  const Metrics metrics = measured(*task, {all});
  EXPECT_DOUBLE_EQ(metrics.at("mrr"), (1.0 / 3 + 1.0 / 2) / 2);
  EXPECT_DOUBLE_EQ(metrics.at("mrr_filtered"), (1.0 / 2 + 1.0 / 2) / 2);
  EXPECT_DOUBLE_EQ(metrics.at("hits3"), 1);
}

TEST(LinkPrediction, CountsRanksUpToTenAsHitsAtTen) {
  const auto task = testing::make_task("link_prediction", data_with({}));
  // From node 0 a node i scores i + 1. Of 13 nodes nine score more than node 3 and ten more than
  // node 2.
  Answered all;
  all.outputs.set("features@node", (at::arange(13, at::kDouble) + 1).view({13, 1}));
  all.batch.fields.set("pairs@pair>node", at::tensor({0, 3, 0, 2}, at::kLong).view({2, 2}));
  all.batch.fields.set("link@pair", at::tensor({1, 1}, at::kLong));
  all.batch.offsets.set("node", at::tensor({0, 13}, at::kLong));
  all.batch.offsets.set("pair", at::tensor({0, 2}, at::kLong));
  all.batch.size = 1;
  const Metrics metrics = measured(*task, {all});
  EXPECT_DOUBLE_EQ(metrics.at("mrr"), (1.0 / 10 + 1.0 / 11) / 2);
  EXPECT_DOUBLE_EQ(metrics.at("hits10"), 0.5);
  EXPECT_DOUBLE_EQ(metrics.at("hits3"), 0);
}

TEST(LinkPrediction, TrainsByDotProducts) {
  const auto task = testing::make_task("link_prediction", data_with({}));
  const Answered all = linked();
  const double expected =
      (cross_entropy(2, 1) + cross_entropy(3, 1) + cross_entropy(2, 0) + cross_entropy(10, 0)) / 4;
  EXPECT_NEAR(task->loss(all.outputs, all.batch).item<double>(), expected, 1e-9);
  EXPECT_EQ(task->weight(all.batch), 4);
}

TEST(LinkPrediction, AModelThatSaysNothingRanksInTheMiddle) {
  const auto task = testing::make_task("link_prediction", data_with({}));
  Answered all = linked();
  all.outputs.set("features@node", at::zeros({5, 2}, at::kDouble));
  EXPECT_DOUBLE_EQ(measured(*task, {all}).at("mrr"), 1.0 / 2);
  all.batch.fields.set("link@pair", at::zeros({4}, at::kLong));
  EXPECT_THROW(measured(*task, {all}), DataError);
}

class LinkTraining : public testing::TinyRuns {
 protected:
  static Metrics measured(Model& model, const Task& task, const Dataset& dataset) {
    model.eval();
    const at::NoGradGuard no_gradients;
    const Batch batch = collated({dataset.example(Split::test, 0, nullptr)}, dataset.info().fields);
    ForwardPass pass;
    const auto meter = task.meter();
    meter->add(model.forward(batch, pass), batch);
    return meter->result();
  }

  testing::TempFolder files_;
};

TEST_F(LinkTraining, LearnsWhichPapersAreLinked) {
  // Papers of word k are linked with those of word k + 28, nine of each: a paper's own words say
  // nothing of its links before they are learnt.
  testing::PlanetoidFiles files;
  files.columns = 56;
  files.links.clear();
  for (std::int64_t i = 0; i + 28 < files.known(); ++i) files.links.push_back({i, {i + 28}});
  files.write(files_);
  const auto dataset =
      make_dataset("planetoid", "{name: cora, links: 0.1, root: " + files_.path() + "}");
  testing::TinyParts parts;
  parts.dataset = dataset;
  parts.model = [&] {
    return make_model(
        "graph_gps", dataset->info(),
        "{dim: 32, depth: 2, heads: 2, mpnn: gine, attention_dropout: 0, head: link}");
  };
  parts.task = [&] { return make_task("link_prediction", dataset->info()); };
  at::manual_seed(5);
  const double before = measured(*parts.model(), *parts.task(), *dataset).at("mrr_filtered");
  TrainOptions options = testing::tiny_options();
  options.batch_size = 1;
  options.drop_last = false;
  options.epochs = 60;
  options.evaluate_every = 60;
  options.optimizer.lr = 0.01;
  const RunStatus status = train(testing::tiny_run(parts, options), "run");
  ASSERT_EQ(status.state, RunState::done);
  const auto losses = lines("run", "train");
  EXPECT_LT(losses.back().at("loss").get<double>(), 0.4 * losses.front().at("loss").get<double>());
  const double after = status.metrics.at("mrr_filtered");
  double chance = 0;  // of a rank that is as likely as any other
  for (int rank = 1; rank <= 508; ++rank) chance += 1.0 / rank / 508;
  EXPECT_GT(after, 2 * chance) << "before: " << before;
  EXPECT_GT(after, 4 * before);
  EXPECT_GE(after, status.metrics.at("mrr"));
}

}  // namespace
}  // namespace attnlab::link_prediction_test
