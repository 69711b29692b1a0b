// Links between papers, learnt from made-up files by a run of its own.
#include "tests/support/planetoid_files.h"
#include "tests/support/plugins.h"
#include "tests/support/tiny_run.h"

namespace attnlab::link_training_test {
namespace {

using testing::make_dataset;
using testing::make_model;
using testing::make_task;

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
}  // namespace attnlab::link_training_test
