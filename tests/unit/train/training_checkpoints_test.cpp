// What of a run is on the disk, and when: nothing is lost with a process that ends.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "framework/data/formats/safetensors.h"
#include "framework/train/checkpoint.h"
#include "framework/train/training.h"
#include "tests/unit/train/training_loop.h"

namespace attnlab::training_checkpoints_test {
namespace {

using testing::clouds;
using ::testing::ElementsAre;
using testing::mentions;
using testing::Sorting;
using testing::tiny_options;
using testing::tiny_run;
using testing::TinyParts;
using testing::TrainingLoop;

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

}  // namespace
}  // namespace attnlab::training_checkpoints_test
