// Runs of iBOT: the teacher, resuming, several processes, and what is recorded.
#include <cmath>
#include <numbers>

#include "tests/plugins/images/ibot_parts.h"
#include "tests/support/naive_attention.h"
#include "tests/support/thread_world.h"
#include "tests/support/tiny_run.h"

namespace attnlab::ibot_runs_test {
namespace {

using ibot_parts::built;
using testing::largest_difference;

class IbotRuns : public testing::TinyRuns {
 protected:
  static std::vector<std::string> options() {
    return {"train.steps=6", "train.average={decay: 0.9, end: 1}", "model.drop_path=0.1",
            "task.shared_head=false"};
  }
};

TEST_F(IbotRuns, TeacherIsTheMeanThatItsMomentumSays) {
  constexpr int kSteps = 6;
  std::vector<TensorFile> files;
  for (int step = 1; step <= kSteps; ++step) {
    const std::string folder = "stopped-" + std::to_string(step);
    const RunStatus status = train(built(options()), folder, step < kSteps ? step : -1);
    ASSERT_EQ(status.step, step) << status.reason;
    files.push_back(checkpoint(folder));
  }
  int checked = 0;
  for (const auto& [name, mean] : files[0].tensors) {
    if (name.rfind("average.", 0) != 0) continue;
    const std::string live = name.substr(8);
    const bool buffer = live.find("centre") != std::string::npos;
    for (int step = 1; step < kSteps; ++step) {
      const double momentum = 1 - (1 - 0.9) * (std::cos(std::numbers::pi * step / kSteps) + 1) / 2;
      const TensorFile& now = files[std::size_t(step)];
      const Tensor before = files[std::size_t(step - 1)].tensors.at(name).to(at::kDouble);
      const Tensor student = now.tensors.at(live).to(at::kDouble);
      const Tensor expected = buffer ? student : before * momentum + student * (1 - momentum);
      EXPECT_LT(largest_difference(now.tensors.at(name), expected), 2e-6) << name << " " << step;
    }
    ++checked;
  }
  EXPECT_GT(checked, 20);
  for (const auto& [name, tensor] : files.back().tensors) {
    if (name.rfind("optimizer.", 0) == 0) {
      EXPECT_EQ(name.find("average."), std::string::npos) << name;
    }
  }
  // The last layer stands still in the first epoch, which has 4 steps, and learns in the second.
  const auto last = [&](int step) {
    return files[std::size_t(step - 1)].tensors.at("task.last.directions");
  };
  EXPECT_TRUE(last(1).equal(last(4)));
  EXPECT_FALSE(last(4).equal(last(5)));
  EXPECT_FALSE(files[0]
                   .tensors.at("task.head.first.weight")
                   .equal(files[3].tensors.at("task.head.first.weight")));
  EXPECT_FALSE(files[0].tensors.at("task.centre").equal(files[1].tensors.at("task.centre")));
}

TEST_F(IbotRuns, ResumedEndsAsOneThatWasNotStopped) {
  ASSERT_EQ(train(built(options()), "whole").state, RunState::done);
  ASSERT_EQ(train(built(options()), "stopped", 3).state, RunState::interrupted);
  ASSERT_EQ(train(built(options()), "stopped").state, RunState::done);
  expect_same("whole", "stopped");
}

TEST_F(IbotRuns, HaveTheSameBitsOnTwoProcesses) {
  const std::vector<std::string> parts = {"train.steps=5", "train.parts=2",
                                          "task.shared_head=false"};
  ASSERT_EQ(train(built(parts), "1").state, RunState::done);
  std::vector<BuiltRun> runs;
  for (int rank = 0; rank < 2; ++rank) runs.push_back(built(parts));
  const RunFolder here = place("2");
  testing::in_world(2, [&](const std::shared_ptr<World>& world) {
    BuiltRun& run = runs[static_cast<std::size_t>(world->rank())];
    run.world = world;
    testing::StopAfter sink;
    EXPECT_EQ(train_run(run, here, sink, sink.stop).state, RunState::done);
  });
  expect_same("1", "2");
  for (const char* centre : {"centre", "patch_centre"}) {
    const Tensor alone = checkpoint("1").tensors.at(std::string("task.") + centre);
    EXPECT_GT(alone.abs().max().item<float>(), 0) << centre;
    for (const BuiltRun& run : runs) {
      EXPECT_TRUE(run.task->named_buffers()[centre].equal(alone)) << centre;
    }
  }
}

TEST_F(IbotRuns, RecordsWhatTellsOfCollapse) {
  const RunStatus status = train(built(), "run");
  ASSERT_EQ(status.state, RunState::done) << status.reason;
  for (const nlohmann::json& line : lines("run", "train")) {
    EXPECT_GT(line.at("loss/class").get<double>(), 0);
    EXPECT_GE(line.at("loss/patch").get<double>(), 0);
    EXPECT_GT(line.at("loss/teacher_entropy").get<double>(), 0);
  }
  const Metrics& metrics = status.metrics;
  const double most = std::log(12.0) + 1e-6;
  EXPECT_GT(metrics.at("entropy"), 0);
  EXPECT_LE(metrics.at("entropy"), metrics.at("mean_entropy") + 1e-9);
  EXPECT_LE(metrics.at("mean_entropy"), most);
  EXPECT_NEAR(metrics.at("loss"), metrics.at("kl") + metrics.at("entropy"), 1e-9);
  EXPECT_GT(metrics.at("prototypes_used"), 0);
  EXPECT_LE(metrics.at("prototypes_used"), 1);
  EXPECT_GT(metrics.at("feature_std"), 0);
  EXPECT_LT(metrics.at("feature_std"), 1.01);
}

}  // namespace
}  // namespace attnlab::ibot_runs_test
