// The training loop, on parts of a few numbers: losses, ends, resuming, selection, accumulation.
#include "framework/train/training.h"

#include <cmath>
#include <functional>
#include <limits>
#include <thread>

#include "framework/data/formats/safetensors.h"
#include "tests/support/tiny_parts.h"

namespace attnlab::training_test {
namespace {

using attnlab::testing::mentions;
using attnlab::testing::says;
using nlohmann::json;
using testing::clouds;
using testing::Clouds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Line;
using testing::Sorting;
using testing::tiny_options;
using testing::tiny_run;
using testing::TinyParts;

class TrainingLoop : public testing::TinyRuns {};

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

/// Where it goes, results by relative paths would go, too.
class Wanderer : public Line {
 public:
  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    std::filesystem::current_path("/");
    return Line::forward(batch, pass);
  }
};

TEST_F(TrainingLoop, EndsWhereThePartsChangeTheWorkingFolder) {
  const testing::InFolder inside(folder_.path());
  const std::string message = testing::message_of<PluginError>(
      [&] { train(tiny_run(clouds<Sorting, Wanderer>(), tiny_options()), "run"); });
  EXPECT_THAT(message, mentions("step of training", "working folder to /,"));
  EXPECT_EQ(std::filesystem::current_path(), std::filesystem::canonical(folder_.path()));
  EXPECT_EQ(place("run").status().state, RunState::failed);
}

/// Goes away and throws there.
class LostWanderer final : public Line {
 public:
  NamedTensors forward(const Batch&, ForwardPass&) override {
    std::filesystem::current_path("/");
    throw DataError("lost its way");
  }
};

TEST_F(TrainingLoop, NotesAFailureWhereTheRunIsWhereverItWasThrown) {
  const testing::InFolder inside(folder_.path());
  std::filesystem::create_directory("run");
  const RunFolder relative("run");
  testing::StopAfter sink;
  BuiltRun run = tiny_run(clouds<Sorting, LostWanderer>(), tiny_options());
  EXPECT_EQ(testing::message_of<DataError>([&] { train_run(run, relative, sink, sink.stop); }),
            "lost its way");
  EXPECT_EQ(std::filesystem::current_path(), std::filesystem::canonical(folder_.path()));
  EXPECT_EQ(place("run").status().state, RunState::failed);
}

TEST_F(TrainingLoop, SaysWhereTheRunIsThatItWasAbandoned) {
  const testing::InFolder inside(folder_.path());
  std::filesystem::create_directory("run");
  const RunFolder relative("run");
  testing::StopAfter sink;
  BuiltRun run = tiny_run(clouds(), tiny_options());
  Training training(run, relative, sink, sink.stop);
  training.begin();
  std::filesystem::current_path("/");
  training.abandon("another member failed");
  EXPECT_EQ(place("run").status().state, RunState::interrupted);
}

/// Goes away when the run has been measured, before its result is written.
class LateWanderer final : public Sorting {
 public:
  Metrics conclude(const std::function<Metrics()>&, const Metrics&) const override {
    std::filesystem::current_path("/");
    return {};
  }
};

TEST_F(TrainingLoop, EndsWhereTheTasksConclusionChangesTheWorkingFolder) {
  const testing::InFolder inside(folder_.path());
  std::filesystem::create_directory("run");
  const RunFolder relative("run");
  testing::StopAfter sink;
  BuiltRun run = tiny_run(clouds<LateWanderer>(), tiny_options());
  EXPECT_THAT(testing::message_of<PluginError>([&] { train_run(run, relative, sink, sink.stop); }),
              mentions("conclusion", "working folder to /,"));
  EXPECT_EQ(place("run").status().state, RunState::failed) << "written where the run is";
}

/// Goes away when the last epoch's checkpoint is written: as a thread might at any time.
class WanderingSink final : public ProgressSink {
 public:
  void report(const ProgressEvent& event) override {
    if (event.kind == ProgressEvent::Kind::evaluation) std::filesystem::current_path("/");
  }
  void say(const std::string&) override {}
};

TEST_F(TrainingLoop, WritesCheckpointsAndStatusOnlyWhereItBegan) {
  const testing::InFolder inside(folder_.path());
  std::filesystem::create_directory("run");
  const RunFolder relative("run");
  WanderingSink sink;
  const std::atomic<bool> stop{false};
  BuiltRun run = tiny_run(clouds(), tiny_options());
  EXPECT_THAT(testing::message_of<PluginError>([&] { train_run(run, relative, sink, stop); }),
              mentions("training changed", "working folder to /,"));
  EXPECT_EQ(place("run").status().state, RunState::failed);
}

/// Reads the status while the second step is told.
class StatusReader final : public ProgressSink {
 public:
  explicit StatusReader(std::string path) : path_(std::move(path)) {}
  void report(const ProgressEvent& event) override {
    if (event.kind == ProgressEvent::Kind::step && event.step == 2) {
      status = nlohmann::json::parse(read_text(path_));
    }
  }
  void say(const std::string&) override {}

  nlohmann::json status;

 private:
  std::string path_;
};

// Else a run that was killed in its first epoch would begin anew without a word where its
// checkpoint is gone.
TEST_F(TrainingLoop, SaysInItsStatusThatThereIsACheckpointOnceThereIs) {
  TrainOptions options = tiny_options();
  options.checkpoint_seconds = 0;
  BuiltRun run = tiny_run(clouds(), options);
  StatusReader sink(place("run").file("status.json"));
  const std::atomic<bool> stop{false};
  train_run(run, place("run"), sink, stop);
  EXPECT_EQ(sink.status.at("state"), "running");
  EXPECT_EQ(sink.status.at("checkpoint"), true);
}

TEST_F(TrainingLoop, EndsTheSameWhereverItWasStopped) {
  TrainOptions options = tiny_options();
  options.epochs = 2;
  options.schedule.shape = "cosine";
  expect_resumes_anywhere(clouds(), options);
}

TEST_F(TrainingLoop, AddsTheProcessorTimeOfAllTimesThatItWasBegun) {
  const std::string path = place("run").file("checkpoint.safetensors");
  const auto goes_on_from = [&](const std::function<void(TensorFile&)>& change) {
    train(tiny_run(clouds(), tiny_options()), "run", 3);
    TensorFile file = read_safetensors(path);
    file.metadata.erase("checksum");
    change(file);
    write_safetensors(path, file);
    const RunStatus status = train(tiny_run(clouds(), tiny_options()), "run");
    EXPECT_EQ(place("run").status().processor_seconds, status.processor_seconds);
    EXPECT_EQ(status.device_seconds, 0);
    std::filesystem::remove_all(place("run").path());
    return status.processor_seconds;
  };
  constexpr double kLong = 1e6, kWholeTest = 1e5;
  const double added =
      goes_on_from([&](TensorFile& file) { file.metadata["processor_seconds"] = "1e6"; });
  EXPECT_GT(added, kLong);
  EXPECT_LT(added, kLong + kWholeTest);
  const double earlier = goes_on_from([](TensorFile& file) {  // of an earlier version
    file.metadata.erase("processor_seconds");
    file.metadata.erase("device_seconds");
  });
  EXPECT_GT(earlier, 0);
  EXPECT_LT(earlier, kWholeTest);
}

/// Asks to stop at the `last` example that is read for a step. It then lasts until the run's status
/// says that it was interrupted, or five seconds.
class SlowClouds final : public testing::Clouds {
 public:
  SlowClouds(int last, RunFolder folder) : last_(last), folder_(std::move(folder)) {}

  NamedTensors make_example(Split split, std::int64_t index, Random* augmentation) const override {
    if (augmentation != nullptr && ++read == last_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the step before it ends
      stop = true;
      for (int tries = 0; tries < 500 && !told_meanwhile; ++tries) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        told_meanwhile = folder_.status().state == RunState::interrupted;
      }
    }
    return Clouds::make_example(split, index, augmentation);
  }

  mutable std::atomic<bool> stop{false}, told_meanwhile{false};
  mutable std::atomic<int> read{0};

 private:
  int last_;
  RunFolder folder_;
};

TEST_F(TrainingLoop, SavesItsStepsAtOnceWhereTheNextBatchTakesLong) {
  TrainOptions options = tiny_options();
  options.workers = 1;
  options.prefetch = 1;
  const auto data = std::make_shared<SlowClouds>(3 * 8 + 5, place("run"));
  testing::TinyParts parts = clouds();
  parts.dataset = data;
  BuiltRun run = tiny_run(parts, options);
  testing::StopAfter sink;
  const RunStatus status = train_run(run, place("run"), sink, data->stop);
  EXPECT_EQ(status.state, RunState::interrupted);
  EXPECT_EQ(status.step, 3);
  EXPECT_TRUE(data->told_meanwhile) << "three steps waited for the fourth one's batch";
  EXPECT_EQ(checkpoint("run").metadata.at("step"), "3");
}

TEST_F(TrainingLoop, StopsBetweenTwoExamplesThatItReadsItself) {
  const auto data = std::make_shared<SlowClouds>(3 * 8 + 5, place("done"));
  RunStatus interrupted;
  interrupted.state = RunState::interrupted;
  place("done").write_status(interrupted);
  testing::TinyParts parts = clouds();
  parts.dataset = data;
  BuiltRun run = tiny_run(parts, tiny_options());
  testing::StopAfter sink;
  const RunStatus status = train_run(run, place("run"), sink, data->stop);
  EXPECT_EQ(status.state, RunState::interrupted);
  EXPECT_EQ(status.step, 3);
  EXPECT_EQ(data->read, 3 * 8 + 5) << "examples were read that nobody waits for";
  EXPECT_EQ(checkpoint("run").metadata.at("step"), "3");
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

// ---- nothing is lost with a process that ends

/// Notes at the first evaluation what is on the disk by then.
class Watching final : public Sorting {
 public:
  explicit Watching(std::function<void()> look) : look_(std::move(look)) {}
  Metrics evaluate(Evaluation& evaluation) const override {
    look_();
    return Sorting::evaluate(evaluation);
  }

 private:
  std::function<void()> look_;
};

TEST_F(TrainingLoop, HasItsStepsOnTheDiskBeforeItEvaluates) {
  std::vector<std::string> steps;
  TinyParts parts = clouds();
  parts.task = [&] {
    return std::make_shared<Watching>([&] {
      const bool there = std::filesystem::exists(place("run").file("checkpoint.safetensors"));
      steps.push_back(there ? checkpoint("run").metadata.at("step") : "none");
    });
  };
  train(tiny_run(parts, tiny_options()), "run");
  EXPECT_THAT(steps, ElementsAre("6"));
}

TEST_F(TrainingLoop, RefusesACheckpointBehindItsOwnEnd) {
  for (const auto& [name, value] : {std::pair{"step", "7"}, std::pair{"evaluated_epochs", "2"}}) {
    const std::string folder = name;
    ASSERT_EQ(train(tiny_run(clouds(), tiny_options()), folder, 3).state, RunState::interrupted);
    TensorFile file = checkpoint(folder);
    file.metadata[name] = value;
    file.metadata.erase("checksum");
    write_safetensors(place(folder).file("checkpoint.safetensors"), file);
    EXPECT_THAT(
        testing::message_of<DataError>([&] { train(tiny_run(clouds(), tiny_options()), folder); }),
        mentions("6 steps", "1 epochs"));
  }
}

// ---- ends that are none

/// The loss stays what it is; its gradient is not a number at one step.
class BrokenGradient final : public Sorting {
 public:
  explicit BrokenGradient(std::int64_t step) : step_(step) {}
  Tensor step(TrainingStep& step) override {
    const Tensor loss = Sorting::step(step);
    if (step.number != step_) return loss;
    return loss + (step.model.parameters().front().sum() * 0).sqrt();
  }

 private:
  std::int64_t step_;
};

TEST_F(TrainingLoop, EndsAsDivergedWhereTheLastUpdateLeavesNoNumbers) {
  for (const std::int64_t broken : {5, 11}) {  // the last of an epoch, the last of all
    TinyParts parts = clouds();
    parts.task = [broken] { return std::make_shared<BrokenGradient>(broken); };
    TrainOptions options = tiny_options();
    options.epochs = 2;
    const std::string folder = "run-" + std::to_string(broken);
    const RunStatus status = train(tiny_run(parts, options), folder);
    EXPECT_EQ(status.state, RunState::diverged);
    EXPECT_THAT(status.reason,
                ::testing::AllOf(HasSubstr("the parameters"),
                                 ::testing::EndsWith(" after step " + std::to_string(broken + 1))));
    EXPECT_TRUE(status.metrics.empty());
  }
}

/// Finite parameters whose result is not a number.
class NoNumber final : public Sorting {
 public:
  Metrics evaluate(Evaluation&) const override {
    return {{"accuracy", std::numeric_limits<double>::quiet_NaN()}};
  }
};

TEST_F(TrainingLoop, EndsAsDivergedWhereTheResultIsNoNumber) {
  const RunStatus status = train(tiny_run(clouds<NoNumber>(), tiny_options()), "run");
  EXPECT_EQ(status.state, RunState::diverged);
  EXPECT_THAT(status.reason, mentions("accuracy", "not finite after step"));
  EXPECT_TRUE(status.metrics.empty());
}

/// Its headline is a number; what else it measures is none.
class HalfANumber final : public Sorting {
 public:
  explicit HalfANumber(std::string name = "nll") : name_(std::move(name)) {}
  std::vector<MetricInfo> metrics() const override {
    return {{"accuracy", Better::higher, "share"}, {"nll", Better::lower, "nats"}};
  }
  Metrics evaluate(Evaluation&) const override {
    return {{"accuracy", 0.0}, {name_, std::numeric_limits<double>::infinity()}};
  }

 private:
  std::string name_;
};

TEST_F(TrainingLoop, EndsAsDivergedWhereAnyMetricOfTheTaskIsNoNumber) {
  const RunStatus status = train(tiny_run(clouds<HalfANumber>(), tiny_options()), "run");
  EXPECT_EQ(status.state, RunState::diverged);
  EXPECT_THAT(status.reason, mentions("nll", "not finite after step"));
  EXPECT_TRUE(status.metrics.empty());
  TinyParts parts = clouds();
  parts.task = [] { return std::make_shared<HalfANumber>("of a class without examples"); };
  EXPECT_EQ(train(tiny_run(parts, tiny_options()), "other").state, RunState::done)
      << "a value that the task does not declare";
}

/// A mask that is not a number from the beginning, and a statistic that becomes none.
class Counting final : public Sorting {
 public:
  explicit Counting(double growth) : growth_(growth) {
    register_buffer("mask", at::full({2}, -std::numeric_limits<double>::infinity()));
    statistic_ = register_buffer("statistic", at::ones({1}));
  }
  Tensor step(TrainingStep& step) override {
    statistic_.mul_(growth_);
    return Sorting::step(step);
  }

 private:
  double growth_;
  Tensor statistic_;
};

TEST_F(TrainingLoop, EndsAsDivergedWhereABufferIsNoNumberAnyMore) {
  TinyParts parts = clouds();
  parts.task = [] { return std::make_shared<Counting>(1e30); };
  const RunStatus status = train(tiny_run(parts, tiny_options()), "run");
  EXPECT_EQ(status.state, RunState::diverged);
  EXPECT_THAT(status.reason, says({"buffer task.statistic", "not finite", "step 6"}));
  parts.task = [] { return std::make_shared<Counting>(1); };
  EXPECT_EQ(train(tiny_run(parts, tiny_options()), "masked").state, RunState::done);
}

TEST_F(TrainingLoop, EndsAsDivergedWhereTheLossIsNoNumber) {
  TinyParts parts = clouds();
  parts.task = [] { return std::make_shared<BrokenGradient>(2); };
  const RunStatus status = train(tiny_run(parts, tiny_options()), "run");
  EXPECT_EQ(status.state, RunState::diverged);
  EXPECT_EQ(status.step, 3);
  EXPECT_THAT(status.reason, HasSubstr("at step 4"));
}

TEST_F(TrainingLoop, EndsAsDivergedAboveALossThatIsGiven) {
  TrainOptions options = tiny_options();
  options.diverged_above = 1e-6;
  EXPECT_EQ(train(tiny_run(clouds(), options), "run").state, RunState::diverged);
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

class NoGradient final : public Sorting {
 public:
  Tensor step(TrainingStep& step) override { return Sorting::step(step).detach(); }
};

TEST_F(TrainingLoop, NamesTheTaskWhoseLossHasNoGradient) {
  EXPECT_THAT(testing::message_of<ShapeError>(
                  [&] { train(tiny_run(clouds<NoGradient>(), tiny_options()), "run"); }),
              says({"task 'tiny':", "step()", "[] float32", "without a gradient"}));
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

/// Asks to stop once an epoch was evaluated.
class StopAtEvaluation final : public ProgressSink {
 public:
  void report(const ProgressEvent& event) override {
    if (event.kind == ProgressEvent::Kind::evaluation) stop = true;
  }
  void say(const std::string&) override {}

  std::atomic<bool> stop{false};
};

TEST_F(TrainingLoop, HasTheModelOfTheEpochThatItChoseAfterAnyKill) {
  TrainOptions options = tiny_options();
  options.epochs = 3;
  options.protocol = "published";
  BuiltRun begun = tiny_run(clouds(), options);
  const std::int64_t second = begun.steps_per_epoch + 1;
  StopAtEvaluation sink;
  ASSERT_EQ(train_run(begun, place("run"), sink, sink.stop).state, RunState::interrupted);
  const std::string best = place("run").file("best.safetensors"), bytes = read_text(best);
  EXPECT_EQ(epoch_of_weights(best), 1);

  // Killed between the checkpoint and this file, it makes it of the checkpoint.
  const auto go_on = [&] { return train(tiny_run(clouds(), options), "run", second).state; };
  std::filesystem::remove(best);
  ASSERT_EQ(go_on(), RunState::interrupted);
  EXPECT_EQ(read_text(best), bytes);
  std::filesystem::remove_all(place("run").path());
  BuiltRun again = tiny_run(clouds(), options);
  sink.stop = false;
  train_run(again, place("run"), sink, sink.stop);
  write_weights(best, {{"model.", again.model.get()}}, {"another"}, 7);
  ASSERT_EQ(go_on(), RunState::interrupted);
  EXPECT_EQ(read_text(best), bytes) << "that of an epoch which was not chosen goes";

  // Later the checkpoint does not hold that model any more.
  write_weights(best, {{"model.", again.model.get()}}, {"another"}, 7);
  EXPECT_THAT(testing::message_of<DataError>([&] { go_on(); }),
              mentions("best.safetensors:", "of epoch 7", "chose epoch 1"));
  std::filesystem::remove(best);
  EXPECT_THAT(testing::message_of<DataError>([&] { go_on(); }),
              mentions("best.safetensors:", "is missing", "chose epoch 1"));
}

// ---- failures

/// Throws what is not an exception in its third step.
class Thrower final : public Line {
 public:
  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    if (is_training() && ++steps_ == 3) throw 42;
    return Line::forward(batch, pass);
  }

 private:
  int steps_ = 0;
};

TEST_F(TrainingLoop, FailsOfWhatIsNoExceptionAsOfOthers) {
  EXPECT_THAT(testing::message_of<Error>(
                  [&] { train(tiny_run(clouds<Sorting, Thrower>(), tiny_options()), "run"); }),
              HasSubstr("std::exception"));
  EXPECT_EQ(place("run").status().state, RunState::failed);
  EXPECT_THAT(place("run").status().reason, says({"std::exception"}));
}

// ---- parts of a step

TEST_F(TrainingLoop, AccumulatesToTheGradientOfTheWholeBatch) {
  TinyParts parts = clouds();
  parts.model = [] { return std::make_shared<Line>(/*dropout=*/0); };
  TrainOptions options = tiny_options();
  train(tiny_run(parts, options), "whole");
  options.accumulate = 4;
  train(tiny_run(parts, options), "parts");
  const Tensor whole = checkpoint("whole").tensors.at("model.weight");
  const Tensor part = checkpoint("parts").tensors.at("model.weight");
  EXPECT_LT((whole - part).abs().max().item<double>(), 1e-5);
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
  TinyParts parts = clouds<HalfLabelled>();
  parts.model = [] { return std::make_shared<Line>(/*dropout=*/0); };
  TrainOptions options = tiny_options();
  train(tiny_run(parts, options), "whole");
  options.accumulate = 8;  // one example a part: some have no label, and their mean is not a number
  const RunStatus status = train(tiny_run(parts, options), "parts");
  ASSERT_EQ(status.state, RunState::done) << status.reason;
  const Tensor whole = checkpoint("whole").tensors.at("model.weight");
  const Tensor part = checkpoint("parts").tensors.at("model.weight");
  EXPECT_LT((whole - part).abs().max().item<double>(), 1e-5);
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
