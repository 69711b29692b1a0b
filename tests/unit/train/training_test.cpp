// The training loop, on parts of a few numbers: losses, steps, resuming, selection, accumulation.
#include "framework/train/training.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "framework/data/formats/safetensors.h"
#include "tests/unit/train/training_loop.h"

namespace attnlab::training_test {
namespace {

using nlohmann::json;
using testing::clouds;
using testing::Clouds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::mentions;
using testing::says;
using testing::Sorting;
using testing::tiny_options;
using testing::tiny_run;
using testing::TinyParts;
using testing::TrainingLoop;

TEST_F(TrainingLoop, LowersTheLossAndSortsTheTestSplit) {
  TrainOptions options = tiny_options();
  options.epochs = 4;
  const RunStatus status = train(tiny_run(clouds(), options), "run");
  EXPECT_EQ(status.state, RunState::done);
  EXPECT_EQ(status.step, 24);
  EXPECT_EQ(status.metrics.at("accuracy"), 1.0);
  const std::vector<json> steps = lines("run", "train");
  ASSERT_EQ(steps.size(), 24U);
  EXPECT_LT(status.metrics.at("train_loss"), 0.5 * steps.front().at("loss").get<double>());
  EXPECT_GT(status.metrics.at("examples_per_second"), 0);
}

TEST_F(TrainingLoop, IsRehearsedUpToItsFirstStepAndWritesNothing) {
  BuiltRun run = tiny_run(clouds(), tiny_options());
  rehearse_run(run, place("run"));
  EXPECT_TRUE(std::filesystem::is_empty(place("run").path()));
  run = tiny_run(clouds(), tiny_options());
  run.experiment.trace.every = 1;
  EXPECT_THAT(testing::message_of<ConfigError>([&] { rehearse_run(run, place("run")); }),
              mentions("no attention layer", "recorded"));
  train(tiny_run(clouds(), tiny_options()), "run", 3);
  std::filesystem::resize_file(place("run").file("checkpoint.safetensors"), 100);
  run = tiny_run(clouds(), tiny_options());
  EXPECT_THAT(testing::message_of<DataError>([&] { rehearse_run(run, place("run")); }),
              HasSubstr("checkpoint.safetensors: "));
}

TEST_F(TrainingLoop, EndsTheSameWhereverItWasStopped) {
  TrainOptions options = tiny_options();
  options.epochs = 2;
  options.schedule.shape = "cosine";
  expect_resumes_anywhere(clouds(), options);
}

TEST_F(TrainingLoop, DoesTheStepsThatWereAskedForAndEvaluatesAfterTheLast) {
  TrainOptions options = tiny_options();
  options.epochs = 1;
  options.steps = 9;
  const RunStatus status = train(tiny_run(clouds(), options), "run");
  EXPECT_EQ(status.state, RunState::done);
  EXPECT_EQ(status.step, 9);
  EXPECT_EQ(status.epoch, 1.5);
  std::vector<int> evaluated;
  for (const json& line : lines("run", "test")) evaluated.push_back(line.at("step"));
  EXPECT_THAT(evaluated, ElementsAre(6, 9));
  EXPECT_EQ(checkpoint("run").metadata.at("units"), "72");
  double sum = 0;
  const std::vector<json> steps = lines("run", "train");
  for (std::size_t i = 6; i < 9; ++i) sum += steps[i].at("loss").get<double>();
  EXPECT_NEAR(status.metrics.at("train_loss"), sum / 3, 1e-12) << "of the epoch that was cut";
}

TEST_F(TrainingLoop, ResumesWithinAnEpochThatIsCut) {
  TrainOptions options = tiny_options();
  options.steps = 8;
  expect_resumes_anywhere(clouds(), options);
}

TEST_F(TrainingLoop, SeesEachExampleAsOftenAsIsAskedFor) {
  TrainOptions options = tiny_options();
  options.batching.repeat = 3;
  EXPECT_EQ(train(tiny_run(clouds(), options), "run").step, 18);
  EXPECT_EQ(checkpoint("run").metadata.at("units"), "144");
}

/// One batch fewer in each epoch.
class Shrinking final : public Clouds {
 public:
  EpochPlan plan(const PlanRequest& request) const override {
    EpochPlan plan = default_plan(*this, request);
    if (request.training) plan.ends.resize(plan.ends.size() - request.epoch);
    return plan;
  }
};

TEST_F(TrainingLoop, RefusesPlansOfUnequallyManyBatches) {
  TinyParts parts = clouds();
  parts.dataset = std::make_shared<Shrinking>();
  TrainOptions options = tiny_options();
  options.epochs = 2;
  EXPECT_THAT(testing::message_of<DataError>([&] { train(tiny_run(parts, options), "run"); }),
              says({"dataset 'tiny'", "5 batches for epoch 1 and 6 for epoch 0", "plan()"}));
  EXPECT_EQ(place("run").status().state, RunState::failed);
}

// ---- selection

/// An evaluation gives the next of some accuracies.
class Scripted final : public Sorting {
 public:
  Metrics evaluate(Evaluation& evaluation) const override {
    if (evaluation.split == Split::test) return Sorting::evaluate(evaluation);
    static const std::vector<double> kValues = {0.1, 0.6, 0.6, 0.5, 0.4, 0.9};
    return {{"accuracy", kValues.at(next_++)}};
  }

 private:
  mutable std::size_t next_ = 0;
};

TEST_F(TrainingLoop, KeepsTheBestEpochAndStopsWhenPatienceRunsOut) {
  TrainOptions options = tiny_options();
  options.epochs = 6;
  options.protocol = "sound";
  options.early_stop.patience = 2;
  const TinyParts parts = clouds<Scripted>(48, 8);
  const RunStatus status = train(tiny_run(parts, options), "run");
  EXPECT_EQ(status.state, RunState::done);
  EXPECT_EQ(status.step, 30) << "two evaluations after the best";
  EXPECT_EQ(status.steps, 30);
  EXPECT_EQ(status.metrics.at("best_epoch"), 3) << "of equal ones the last";
  // What the best epoch left is what a run of three epochs ends with.
  options.epochs = 3;
  options.protocol = "last";
  options.early_stop.patience = 0;
  train(tiny_run(parts, options), "three");
  const TensorFile best = read_safetensors(folder_ / "run/best.safetensors");
  EXPECT_TRUE(
      best.tensors.at("model.weight").equal(checkpoint("three").tensors.at("model.weight")));
  BuiltRun loaded = tiny_run(parts, options);
  loaded.experiment.train.protocol = "sound";
  load_model(loaded, place("run"));
  EXPECT_TRUE(loaded.model->named_parameters()["weight"].equal(best.tensors.at("model.weight")));
}

// ---- parts of a step

TEST_F(TrainingLoop, AccumulatesToTheGradientOfTheWholeBatch) {
  expect_parts_equal_whole(clouds(), 4);
}

/// The mean over the examples with a label, and says of how many.
class HalfLabelled final : public Sorting {
 public:
  static Tensor labels(const Batch& batch) {
    const Tensor x = batch.fields.at("x").select(1, 0);
    return at::where(x > -1.0, batch.fields.at("class"), at::scalar_tensor(-100, at::kLong));
  }
  Tensor loss(const NamedTensors& outputs, const Batch& batch) const override {
    return at::cross_entropy_loss(outputs.at("logits"), labels(batch));
  }
  double weight(const Batch& batch) const override {
    return labels(batch).ge(0).sum().item<double>();
  }
};

TEST_F(TrainingLoop, WeighsPartsByTheTermsOfTheirMeans) {
  // One example a part: some have no label, and their mean is not a number.
  expect_parts_equal_whole(clouds<HalfLabelled>(), 8);
}

/// Says what its loss is made of, and draws from the step's numbers.
class Recording final : public Sorting {
 public:
  Tensor step(TrainingStep& step) override {
    const Tensor loss = Sorting::step(step);
    const double share = step.random.uniform();
    if (step.record) {
      step.record("plain", loss.detach());
      step.record("drawn", at::scalar_tensor(share, at::kDouble));
    }
    return loss * (1 + 0.1 * share);
  }
};

TEST_F(TrainingLoop, WritesThePartsOfALossWhereALineIsDue) {
  TrainOptions options = tiny_options();
  options.log_every = 2;
  train(tiny_run(clouds<Recording>(), options), "run");
  const std::vector<json> steps = lines("run", "train");
  ASSERT_EQ(steps.size(), 3U);
  for (const json& line : steps) {
    const double drawn = line.at("loss/drawn");
    Random random =
        RandomStreams(1).stream("step", std::uint64_t(line.at("step").get<std::int64_t>() - 1));
    EXPECT_EQ(drawn, random.uniform());
    EXPECT_NEAR(line.at("loss").get<double>(),
                line.at("loss/plain").get<double>() * (1 + 0.1 * drawn), 1e-6);
  }
  options.epochs = 2;
  expect_resumes_anywhere(clouds<Recording>(), options);
}

TEST_F(TrainingLoop, DrawsOtherNumbersForEachPartAndRecordsTheirMean) {
  TrainOptions options = tiny_options();
  options.accumulate = 2;
  train(tiny_run(clouds<Recording>(), options), "run");
  const json line = lines("run", "train").front();
  Random first = RandomStreams(1).stream("step", 0, 0),
         second = RandomStreams(1).stream("step", 0, 1);
  EXPECT_NEAR(line.at("loss/drawn").get<double>(), (first.uniform() + second.uniform()) / 2, 1e-12);
}

}  // namespace
}  // namespace attnlab::training_test
