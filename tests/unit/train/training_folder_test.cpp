// Runs during which something changes the working folder: nothing is written where it leads.
#include <atomic>
#include <filesystem>
#include <functional>
#include <string>

#include "framework/train/training.h"
#include "tests/unit/train/training_loop.h"

namespace attnlab::training_folder_test {
namespace {

using testing::clouds;
using testing::Line;
using testing::mentions;
using testing::Sorting;
using testing::tiny_options;
using testing::tiny_run;
using testing::TrainingLoop;

/// A run's folder by its relative path, in a folder that is the working one for a while.
struct RelativeRun {
  explicit RelativeRun(const testing::TempFolder& temporary)
      : inside(temporary.path()), folder(made()) {}
  static std::string made() {
    std::filesystem::create_directory("run");
    return "run";
  }

  testing::InFolder inside;
  RunFolder folder;
};

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
  const RelativeRun given(folder_);
  testing::StopAfter sink;
  BuiltRun run = tiny_run(clouds<Sorting, LostWanderer>(), tiny_options());
  EXPECT_EQ(testing::message_of<DataError>([&] { train_run(run, given.folder, sink, sink.stop); }),
            "lost its way");
  EXPECT_EQ(std::filesystem::current_path(), std::filesystem::canonical(folder_.path()));
  EXPECT_EQ(place("run").status().state, RunState::failed);
}

TEST_F(TrainingLoop, SaysWhereTheRunIsThatItWasAbandoned) {
  const RelativeRun given(folder_);
  testing::StopAfter sink;
  BuiltRun run = tiny_run(clouds(), tiny_options());
  Training training(run, given.folder, sink, sink.stop);
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
  const RelativeRun given(folder_);
  testing::StopAfter sink;
  BuiltRun run = tiny_run(clouds<LateWanderer>(), tiny_options());
  EXPECT_THAT(
      testing::message_of<PluginError>([&] { train_run(run, given.folder, sink, sink.stop); }),
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
  const RelativeRun given(folder_);
  WanderingSink sink;
  const std::atomic<bool> stop{false};
  BuiltRun run = tiny_run(clouds(), tiny_options());
  EXPECT_THAT(testing::message_of<PluginError>([&] { train_run(run, given.folder, sink, stop); }),
              mentions("training changed", "working folder to /,"));
  EXPECT_EQ(place("run").status().state, RunState::failed);
}

}  // namespace
}  // namespace attnlab::training_folder_test
