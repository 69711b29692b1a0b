// What follows an update of the parameters (`after_step`): when it is called, of what, and that an
// attention can keep a parameter at norm 1 by it.
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/config/compose.h"
#include "framework/train/costs.h"
#include "framework/train/ensemble.h"
#include "framework/train/step.h"
#include "framework/train/training.h"
#include "tests/support/plugins.h"
#include "tests/support/tiny_parts.h"

namespace attnlab::after_step_test {
namespace {

using ::testing::ElementsAre;
using testing::Line;
using testing::Sorting;
using testing::tiny_options;
using testing::tiny_run;

/// Who was called after a step, and with what.
struct Call {
  std::string who;
  StepFacts facts;
  bool gradients = false;
};

std::vector<Call>& calls() {
  static std::vector<Call> all;
  return all;
}

void note(const std::string& who, const StepFacts& facts) {
  calls().push_back({who, facts, at::GradMode::is_enabled()});
}

class Layer final : public Attention {
 public:
  explicit Layer(std::string name)
      : Attention({.heads = 1, .head_dim = 1}, {}), name_(std::move(name)) {}
  void after_step(const StepFacts& facts) override { note(name_, facts); }

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext&) override { return input.values; }

 private:
  std::string name_;
};

/// A line that sets its weight after each step. The first of its layers stands in it twice.
class Setting final : public Line {
 public:
  Setting() : Line(/*dropout=*/0) {
    const auto first = register_module("first", std::make_shared<Layer>("first"));
    register_module("second", std::make_shared<Layer>("second"));
    register_module("tied", first);
  }
  void after_step(const StepFacts& facts) override {
    note("model", facts);
    EXPECT_TRUE(weight_.grad().defined());
    moved.push_back(weight_.clone());
    weight_.fill_(0.25);
  }

  std::vector<Tensor> moved;  ///< by the optimiser
};

class Noting : public Sorting {
 public:
  void after_step(const StepFacts& facts) override { note("task", facts); }
};

std::vector<std::string> callers() {
  std::vector<std::string> all;
  for (const Call& call : calls()) all.push_back(call.who);
  return all;
}

class AfterAStep : public testing::TinyRuns {
 protected:
  AfterAStep() { calls().clear(); }
};

TEST_F(AfterAStep, LayersModelAndTaskAreCalledOnceEach) {
  TrainOptions options = tiny_options();
  options.accumulate = 2;
  options.schedule.shape = "step";
  options.schedule.milestones = {0.5};  // step 3 of 6
  BuiltRun run = tiny_run(testing::clouds<Noting, Setting>(), options);
  const auto model = std::static_pointer_cast<Setting>(run.model);
  ASSERT_EQ(train(std::move(run), "run").state, RunState::done);
  ASSERT_EQ(calls().size(), 6U * 4);
  for (std::size_t i = 0; i < calls().size(); ++i) {
    const Call& call = calls()[i];
    const char* const order[] = {"first", "second", "model", "task"};
    EXPECT_EQ(call.who, order[i % 4]);
    EXPECT_EQ(call.facts.step, std::int64_t(i / 4));
    EXPECT_EQ(call.facts.learning_rate, lines("run", "train")[i / 4].at("lr").get<double>());
    EXPECT_FALSE(call.gradients);
  }
  EXPECT_LT(calls().back().facts.learning_rate, calls().front().facts.learning_rate);
  for (const Tensor& moved : model->moved) {
    EXPECT_FALSE(moved.equal(at::full({2, 4}, 0.25))) << "it comes after the optimiser";
  }
  EXPECT_TRUE(checkpoint("run").tensors.at("model.weight").equal(at::full({2, 4}, 0.25)));
}

// mean <- mean / 2 + w / 2 with w = 1/4 after every step.
TEST_F(AfterAStep, MeansOfTheWeightsSeeWhatItLeft) {
  TrainOptions options = tiny_options();
  options.average.decay = 0.5;
  BuiltRun run = tiny_run(testing::clouds<Noting, Setting>(), options);
  Tensor mean = run.model->named_parameters()["weight"].detach().clone();
  ASSERT_EQ(train(std::move(run), "run").state, RunState::done);
  for (int step = 0; step < 6; ++step) mean = mean / 2 + 0.125;
  const Tensor found = checkpoint("run").tensors.at("average.model.weight");
  EXPECT_LT((found - mean).abs().max().item<double>(), 1e-6);
  EXPECT_EQ(calls().size(), 6U * 4) << "the means' own modules are not called";
}

/// Has no loss from the third step on.
class Failing final : public Noting {
 public:
  Tensor step(TrainingStep& step) override {
    const Tensor loss = Noting::step(step);
    return step.number < 2 ? loss : loss * std::numeric_limits<double>::infinity();
  }
};

TEST_F(AfterAStep, NothingIsCalledWhereNothingWasUpdated) {
  const RunStatus status =
      train(tiny_run(testing::clouds<Failing, Setting>(), tiny_options()), "run");
  EXPECT_EQ(status.state, RunState::diverged);
  EXPECT_EQ(calls().size(), 2U * 4);
}

TEST_F(AfterAStep, ItIsPartOfWhatAStepCosts) {
  BuiltRun run = tiny_run(testing::clouds<Noting, Setting>(), tiny_options());
  probe_run(run, 1);
  EXPECT_THAT(callers(),
              ElementsAre("first", "second", "model", "task", "first", "second", "model", "task"))
      << "one step, after one that is not counted";
}

TEST_F(AfterAStep, ItResumesAnywhere) {
  TrainOptions options = tiny_options();
  options.average.decay = 0.9;
  expect_resumes_anywhere(testing::clouds<Noting, Setting>(), options);
}

// ---- a plugin's

const std::string kToy = R"(schema: 1
model: toy_transformer
attention: unit_channels
task: sequence_classification
dataset: {use: spurious_retrieval, train: 40, test: 20, tokens: 4, key_dim: 3, classes: 3, data_seed: 0}
train:
  {epochs: 2, batch_size: 16, drop_last: false, threads: 1, workers: 0, tensorboard: false, log_every: 1,
   optimizer: {lr: 1.0e-3, weight_decay: 0.05}, schedule: {shape: constant}}
)";

/// Runs with the attention of the file, whose parameter `channels` [H, D] has rows of norm 1.
class UnitNorms : public testing::TinyRuns {
 protected:
  UnitNorms()
      : registry_(Catalogue::with_file(Installation::of_this_program().root +
                                       "/test_plugins/unit_channels.so")) {}

  BuiltRun built(std::int64_t seed = 0) {
    return build_run(resolve_experiment(parse_yaml(kToy, "toy.yaml"), registry_.catalogue(), "toy"),
                     seed, registry_);
  }

  void expect_unit_norms(const std::string& folder) const {
    int found = 0;
    for (const auto& [name, tensor] : checkpoint(folder).tensors) {
      if (name.rfind("model.", 0) != 0 || name.find(".channels") == std::string::npos) continue;
      ++found;
      const Tensor norms = tensor.to(at::kDouble).norm(2, -1);
      EXPECT_LT((norms - 1).abs().max().item<double>(), 5e-7) << folder << ": " << name;
      EXPECT_GT(tensor.std().item<double>(), 0) << folder << ": " << name << " is what it was";
    }
    EXPECT_GT(found, 0) << folder;
  }

  Registry registry_;
};

TEST_F(UnitNorms, AreKeptAndResumedBitForBit) {
  ASSERT_EQ(train(built(), "whole").state, RunState::done);
  expect_unit_norms("whole");
  for (std::int64_t step = 1; step < 6; ++step) {
    const std::string folder = "stopped-" + std::to_string(step);
    ASSERT_EQ(train(built(), folder, step).state, RunState::interrupted);
    ASSERT_EQ(train(built(), folder).state, RunState::done);
    expect_same("whole", folder);
  }
}

TEST_F(UnitNorms, AreKeptInAnEnsembleAsAlone) {
  std::vector<Member> members;
  for (const std::int64_t seed : {0, 1}) {
    members.push_back({built(seed), place("together-" + std::to_string(seed))});
    members.back().run.together = 2;
  }
  testing::StopAfter sink;
  train_ensemble(members, registry_, sink, sink.stop);
  for (const std::int64_t seed : {0, 1}) {
    const std::string together = "together-" + std::to_string(seed);
    const std::string alone = "alone-" + std::to_string(seed);
    ASSERT_EQ(train(built(seed), alone).state, RunState::done);
    ASSERT_EQ(place(together).status().state, RunState::done);
    expect_unit_norms(together);
    const auto steps = lines(alone, "train"), beside = lines(together, "train");
    ASSERT_EQ(steps.size(), beside.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      EXPECT_NEAR(steps[i].at("loss").get<double>(), beside[i].at("loss").get<double>(), 1e-4) << i;
    }
    const TensorFile one = checkpoint(alone), other = checkpoint(together);
    for (const auto& [name, tensor] : one.tensors) {
      if (name.rfind("model.", 0) != 0 || name.find(".channels") == std::string::npos) continue;
      EXPECT_LT((tensor - other.tensors.at(name)).abs().max().item<double>(), 1e-3) << name;
    }
  }
}

}  // namespace
}  // namespace attnlab::after_step_test
