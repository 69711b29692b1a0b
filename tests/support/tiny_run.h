// Runs of parts that a test defines itself: no plugins, no compositions, no other process.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/base/json.h"
#include "framework/data/formats/safetensors.h"
#include "framework/train/run.h"
#include "tests/support/compositions.h"

namespace attnlab::testing {

/// What a run is made of. Model and task are made anew for each run, and twice for an average.
struct TinyParts {
  std::shared_ptr<Dataset> dataset;
  std::function<std::shared_ptr<Model>()> model;
  std::function<std::shared_ptr<Task>()> task;
};

/// Options that keep a tiny run quick: one epoch, batches of 8, a constant learning rate.
inline TrainOptions tiny_options() {
  TrainOptions train;
  train.epochs = 1;
  train.batch_size = 8;
  train.eval_batch_size = 8;
  train.optimizer.lr = 0.05;
  train.optimizer.weight_decay = 0;
  train.schedule.shape = "constant";
  train.log_every = 1;
  train.tensorboard = false;
  train.checkpoint_seconds = 3600;
  train.workers = 0;
  train.threads = 1;
  return train;
}

/// As `build_run` builds one of plugins.
inline BuiltRun tiny_run(const TinyParts& parts, const TrainOptions& train) {
  BuiltRun run;
  run.experiment.name = "tiny";
  run.experiment.attention.label = "none";
  run.experiment.model.kind = Kind::model;
  run.experiment.task.kind = Kind::task;
  run.experiment.dataset.kind = Kind::dataset;
  for (Part* part : {&run.experiment.model, &run.experiment.attention, &run.experiment.task,
                     &run.experiment.dataset}) {
    part->name = "tiny";
    part->path = "/proc/version";  // a regular file that stays the same
  }
  run.experiment.train = train;
  run.experiment.resolved = Node::map();
  run.seed = 1;
  run.streams = RandomStreams(1);
  run.dataset = parts.dataset;
  run.steps_per_epoch = run.dataset->plan(training_request(run, 0)).batches();
  const auto build = [&](std::shared_ptr<Model>& model, std::shared_ptr<Task>& task) {
    at::manual_seed(5);
    model = parts.model();
    task = parts.task();
  };
  build(run.model, run.task);
  if (train.average.decay > 0) {
    build(run.average_model, run.average_task);
    run.average_model->eval();
    run.average_task->eval();
  }
  return run;
}

/// Says nothing, and stops a run when so many steps are done.
class StopAfter final : public ProgressSink {
 public:
  explicit StopAfter(std::int64_t step = -1) : step_(step) {}
  void report(const ProgressEvent& event) override {
    if (event.kind == ProgressEvent::Kind::step && event.step == step_) stop = true;
  }
  void say(const std::string&) override {}

  std::atomic<bool> stop{false};

 private:
  std::int64_t step_;
};

/// A finished run, filed in a folder.
inline BuiltRun trained_run(const Experiment& experiment, const RunFolder& folder,
                            Registry& registry) {
  BuiltRun run = build_run(experiment, 0, registry);
  folder.freeze(experiment, 0);
  StopAfter sink;
  EXPECT_EQ(train_run(run, folder, sink, sink.stop).state, RunState::done);
  return run;
}

/// Tiny runs in folders of their own.
class TinyRuns : public ::testing::Test {
 protected:
  RunFolder place(const std::string& folder) const {
    std::filesystem::create_directories(folder_ / folder);
    return RunFolder(folder_ / folder);
  }

  /// Trains from where the folder stands, to the end or until so many steps are done.
  RunStatus train(BuiltRun run, const std::string& folder, std::int64_t stop_after = -1) const {
    StopAfter sink(stop_after);
    return train_run(run, place(folder), sink, sink.stop);
  }

  TensorFile checkpoint(const std::string& folder) const {
    return read_safetensors(folder_ / folder + "/checkpoint.safetensors");
  }

  std::vector<std::string> lines(const std::string& folder) const {
    std::ifstream file(folder_ / folder + "/metrics.jsonl");
    std::vector<std::string> all;
    for (std::string line; std::getline(file, line);) all.push_back(line);
    return all;
  }

  /// The lines of one split.
  std::vector<nlohmann::json> lines(const std::string& folder, const std::string& split) const {
    std::vector<nlohmann::json> all;
    for (const std::string& text : lines(folder)) {
      const nlohmann::json line = nlohmann::json::parse(text);
      if (line.at("split") == split) all.push_back(line);
    }
    return all;
  }

  /// Two runs went through the same numbers and ended at the same, to the last bit.
  void expect_same(const std::string& one, const std::string& other) const {
    const TensorFile a = checkpoint(one), b = checkpoint(other);
    ASSERT_EQ(a.tensors.size(), b.tensors.size());
    for (const auto& [name, tensor] : a.tensors) {
      EXPECT_TRUE(tensor.equal(b.tensors.at(name))) << other << ": " << name;
    }
    for (const char* name : {"step", "units", "epoch_loss", "last_epoch_loss", "best_epoch"}) {
      EXPECT_EQ(a.metadata.at(name), b.metadata.at(name)) << other << ": " << name;
    }
    EXPECT_EQ(lines(one), lines(other)) << other;
  }

  /// A run stopped after each of its steps and resumed ends as one that never was.
  void expect_resumes_anywhere(const TinyParts& parts, const TrainOptions& train) const {
    const RunStatus whole = this->train(tiny_run(parts, train), "whole");
    ASSERT_EQ(whole.state, RunState::done) << whole.reason;
    for (std::int64_t step = 1; step < whole.steps; ++step) {
      const std::string folder = "stopped-" + std::to_string(step);
      const RunStatus stopped = this->train(tiny_run(parts, train), folder, step);
      ASSERT_EQ(stopped.state, RunState::interrupted);
      ASSERT_EQ(stopped.step, step);
      ASSERT_EQ(this->train(tiny_run(parts, train), folder).state, RunState::done);
      expect_same("whole", folder);
    }
  }

  TempFolder folder_;
};

}  // namespace attnlab::testing
