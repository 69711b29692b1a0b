// One run on several processes: the same bits on any number, stopped and resumed on another one.
#include "framework/train/parts.h"

#include <atomic>
#include <cmath>

#include "framework/base/work_to_save.h"
#include "framework/train/evaluation.h"
#include "framework/train/training.h"
#include "tests/support/data_files.h"
#include "tests/support/thread_world.h"
#include "tests/support/tiny_parts.h"

namespace attnlab::parts_test {
namespace {

using attnlab::testing::mentions;
using attnlab::testing::says;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::in_world;
using testing::Line;
using testing::message_of;
using testing::Sorting;
using testing::StopAfter;
using testing::tiny_options;
using testing::tiny_run;
using testing::TinyParts;

std::vector<std::int64_t> sizes_of(std::int64_t size, std::int64_t parts) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t part = 0; part < parts; ++part) {
    sizes.push_back(part_begin(size, part + 1, parts) - part_begin(size, part, parts));
  }
  return sizes;
}

TEST(Parts, AreNearlyEqualAndTheFirstIsNeverEmpty) {
  EXPECT_THAT(sizes_of(8, 4), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(sizes_of(5, 4), ElementsAre(2, 1, 1, 1));
  EXPECT_THAT(sizes_of(3, 4), ElementsAre(1, 1, 1, 0));
  EXPECT_THAT(sizes_of(2, 4), ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(sizes_of(1, 8), ElementsAre(1, 0, 0, 0, 0, 0, 0, 0));
}

TEST(Parts, OfAPlanAreEachOnesOwn) {
  EpochPlan plan;
  for (std::int64_t i = 0; i < 14; ++i) plan.order.push_back(100 + i);
  plan.ends = {5, 12, 14};
  const PartPlan whole = cut_into_parts(plan, 4, {0, 4});
  EXPECT_THAT(whole.plan.ends, ElementsAre(2, 3, 4, 5, 7, 9, 11, 12, 13, 14));
  EXPECT_THAT(whole.own, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(whole.parts, ElementsAre(0, 1, 2, 3, 0, 1, 2, 3, 0, 2));
  EXPECT_THAT(whole.ends, ElementsAre(4, 8, 10));
  EXPECT_EQ(whole.plan.order, plan.order);
  const PartPlan last = cut_into_parts(plan, 4, {3, 1});
  EXPECT_EQ(last.plan.ends, whole.plan.ends);
  EXPECT_THAT(last.own, ElementsAre(3, 7)) << "none of the last batch, which has two examples";
  EXPECT_THAT(last.parts, ElementsAre(3, 3));
  EXPECT_THAT(last.ends, ElementsAre(1, 2, 2));
}

/// A buffer of each kind.
struct Counted : torch::nn::Module {
  Counted() {
    mean = register_buffer("mean", at::full({2}, 10.0));
    steps = register_buffer("steps", at::scalar_tensor(3, at::kLong));
    mask = register_buffer("mask", at::full({2}, -INFINITY));
  }
  Tensor mean, steps, mask;
};

TEST(PartBuffers, BecomeTheMeansOfWhatPartsLeave) {
  Counted module;
  PartBuffers buffers({&module});
  for (std::int64_t part = 0; part < 4; ++part) {
    EXPECT_EQ(module.mean[0].item<float>(), 10) << "each begins as the step did";
    if (part > 1) module.mean.add_(static_cast<double>(part));
    module.steps.add_(1);
    buffers.end_part(part);
  }
  EXPECT_THAT(buffers.changed(), ElementsAre(0, 1)) << "the mask was not touched";
  buffers.set_means({0, 1}, buffers.sums({0, 1}), 4);
  EXPECT_EQ(module.mean[0].item<float>(), 10 + (0 + 0 + 2 + 3) / 4.0F);
  EXPECT_EQ(module.steps.item<std::int64_t>(), 4);
  EXPECT_TRUE(at::isinf(module.mask).all().item<bool>());
}

/// A line of x without its running mean; `spare` has a gradient only in parts with a large x, and
/// `idle` never.
class Centred : public Line {
 public:
  Centred() : Line(/*dropout=*/0) {
    mean_ = register_buffer("mean", at::zeros({4}));
    spare_ = register_parameter("spare", at::ones({2}));
    register_parameter("idle", at::ones({1}));
  }
  NamedTensors forward(const Batch& batch, ForwardPass&) override {
    const Tensor& x = batch.fields.at("x");
    if (is_training()) {
      const at::NoGradGuard no_gradients;
      mean_.mul_(0.9).add_(x.mean(0), 0.1);
    } else {
      ++evaluated;
      if (fails_evaluating) throw DataError("a hole in the model");
    }
    Tensor logits = of(x - mean_);
    if (x.max().item<float>() > 1.5) logits = logits + spare_;
    return {{"logits", logits}};
  }
  void after_step(const StepFacts& facts) override {
    if (facts.step == drifts_at) weight_.add_(1e-6);
  }
  std::int64_t evaluated = 0, drifts_at = -1;
  bool fails_evaluating = false;

 private:
  Tensor mean_, spare_;
};

/// Windows of four streams, of which a model carries the sum.
class Streams final : public testing::Clouds {
 public:
  EpochPlan plan(const PlanRequest& request) const override {
    EpochPlan plan;
    const std::int64_t windows = size(request.split) / 4;
    for (std::int64_t window = 0; window < windows; ++window) {
      for (std::int64_t stream = 0; stream < 4; ++stream) {
        plan.order.push_back(stream * windows + window);
      }
      plan.ends.push_back(std::int64_t(plan.order.size()));
    }
    plan.continues = true;
    return plan;
  }
};

class Summing final : public Line {
 public:
  Summing() : Line(/*dropout=*/0) {}
  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    Tensor sum = batch.fields.at("x");
    if (pass.carried != nullptr) {
      const Tensor* before = pass.carried->find("sum");
      if (before != nullptr) sum = sum + *before * 0.5;
      pass.carried->set("sum", sum.detach());
    }
    return {{"logits", of(sum)}};
  }
};

/// Draws when it is evaluated.
class Drawing final : public Line {
 public:
  Drawing() : Line(/*dropout=*/0) {}
  NamedTensors forward(const Batch& batch, ForwardPass&) override {
    Tensor logits = of(batch.fields.at("x"));
    if (!is_training()) {
      const Tensor noise = at::rand_like(logits);
      drawn.push_back(noise[0][0].item<float>());
      logits = logits + noise;
    }
    return {{"logits", logits}};
  }
  std::vector<float> drawn;  ///< the first number of each pass
};

/// Notes whether a process that is asked to stop would wait while it reads for training.
class Noting final : public testing::Clouds {
 public:
  NamedTensors make_example(Split split, std::int64_t index, Random* augmentation) const override {
    if (augmentation != nullptr) ++(WorkToSave::any() ? waits : ends);
    return Clouds::make_example(split, index, augmentation);
  }
  mutable std::atomic<int> waits{0}, ends{0};
};

/// Loses its connection, or fails, in a step.
class Failing final : public Sorting {
 public:
  Tensor step(TrainingStep& step) override {
    if (step.number == fails_at) {
      if (lost) throw WorldError("the connection broke");
      throw DataError("a hole in the data");
    }
    return Sorting::step(step);
  }
  std::int64_t fails_at = -1;
  bool lost = false;
};

class Processes : public testing::TinyRuns {
 protected:
  Processes() {
    options_.epochs = 2;
    options_.parts = 4;
    options_.drop_last = false;
    options_.clip_norm = 0.5;
  }

  TinyParts parts() const {
    return {std::make_shared<testing::Clouds>(/*train=*/43, /*validation=*/13),
            [] { return std::make_shared<Centred>(); }, [] { return std::make_shared<Failing>(); }};
  }

  /// @param stop_after  the step after which process 1 is asked to stop; 0: before it begins; -1:
  ///                    none
  RunStatus train_on(std::int64_t size, const TinyParts& parts, const std::string& folder,
                     std::int64_t stop_after = -1,
                     const std::function<void(std::vector<BuiltRun>&)>& change = {}) {
    runs_.clear();
    for (std::int64_t i = 0; i < size; ++i) runs_.push_back(tiny_run(parts, options_));
    if (change) change(runs_);
    std::vector<RunStatus> all(runs_.size());
    const RunFolder here = place(folder);
    in_world(size, [&](const std::shared_ptr<World>& world) {
      const auto rank = static_cast<std::size_t>(world->rank());
      runs_[rank].world = world;
      const bool asked = world->rank() == std::min<std::int64_t>(1, size - 1);
      StopAfter sink(asked ? stop_after : -1);
      if (asked && stop_after == 0) sink.stop = true;
      all[rank] = train_run(runs_[rank], here, sink, sink.stop);
    });
    for (const RunStatus& status : all) {
      EXPECT_EQ(status.step, all.front().step);
      EXPECT_EQ(status.state, all.front().state);
    }
    return all.front();
  }

  TrainOptions options_ = tiny_options();
  std::vector<BuiltRun> runs_;
};

TEST_F(Processes, OfAnyNumberGiveTheSameBits) {
  ASSERT_EQ(train_on(1, parts(), "1").state, RunState::done);
  for (const std::int64_t size : {2, 4}) {
    const std::string folder = std::to_string(size);
    const RunStatus status = train_on(size, parts(), folder);
    ASSERT_EQ(status.state, RunState::done) << status.reason;
    expect_same("1", folder);
    for (const BuiltRun& run : runs_) {
      EXPECT_TRUE(run.model->parameters()[0].equal(runs_[0].model->parameters()[0]));
    }
  }
  options_.parts = 1;
  train_on(1, parts(), "whole");
  EXPECT_FALSE(checkpoint("whole")
                   .tensors.at("model.weight")
                   .equal(checkpoint("1").tensors.at("model.weight")))
      << "another number of parts is another run, and this one tells";
}

/// Couples no rows, and drops nothing.
struct PlainLine final : Line {
  PlainLine() : Line(/*dropout=*/0) {}
};

TEST_F(Processes, AddUpToTheRunWithoutParts) {
  const TinyParts plain = {std::make_shared<testing::Clouds>(43),
                           [] { return std::make_shared<PlainLine>(); },
                           [] { return std::make_shared<Sorting>(); }};
  options_.optimizer.use = "sgd";
  train_on(1, plain, "parts");
  options_.parts = 1;
  train_on(1, plain, "whole");
  for (const char* name : {"model.weight", "model.bias"}) {
    const Tensor with = checkpoint("parts").tensors.at(name);
    EXPECT_TRUE(at::allclose(with, checkpoint("whole").tensors.at(name), 1e-4, 1e-5)) << name;
  }
  EXPECT_EQ(checkpoint("parts").metadata.at("units"), checkpoint("whole").metadata.at("units"));
}

TEST_F(Processes, GoOnWithAnotherNumber) {
  train_on(1, parts(), "whole");
  ASSERT_EQ(train_on(4, parts(), "stopped", 3).state, RunState::interrupted);
  ASSERT_EQ(train_on(2, parts(), "stopped", 8).state, RunState::interrupted);
  ASSERT_EQ(train_on(1, parts(), "stopped").state, RunState::done);
  expect_same("whole", "stopped");
}

TEST_F(Processes, CarryTheRowsOfTheirParts) {
  const TinyParts streams = {std::make_shared<Streams>(),
                             [] { return std::make_shared<Summing>(); },
                             [] { return std::make_shared<Sorting>(); }};
  ASSERT_EQ(train_on(1, streams, "1").state, RunState::done);
  ASSERT_EQ(train_on(4, streams, "4").state, RunState::done);
  expect_same("1", "4");
  ASSERT_EQ(train_on(2, streams, "stopped", 5).state, RunState::interrupted);
  EXPECT_EQ(checkpoint("stopped").tensors.at("carried.sum").size(0), 4) << "of all processes";
  ASSERT_EQ(train_on(2, streams, "stopped", 0).state, RunState::interrupted);
  EXPECT_EQ(checkpoint("stopped").tensors.at("carried.sum").size(0), 4) << "before any step";
  ASSERT_EQ(train_on(4, streams, "stopped").state, RunState::done);
  expect_same("1", "stopped");
  options_.parts = 8;
  EXPECT_THAT(message_of<ConfigError>([&] { train_on(1, streams, "many"); }),
              AllOf(HasSubstr("train.parts: 8"), HasSubstr("4 rows"), HasSubstr("batch_size")));
}

TEST_F(Processes, KeepAverageBestEpochAndAShareOfEvaluation) {
  options_.average.decay = 0.9;
  options_.protocol = "sound";
  options_.eval_batch_size = 2;
  train_on(1, parts(), "1");
  const std::int64_t passes = dynamic_cast<Centred&>(*runs_[0].model).evaluated;
  train_on(4, parts(), "4");
  expect_same("1", "4");
  EXPECT_EQ(read_safetensors(place("1").file("best.safetensors")).metadata.at("epoch"),
            read_safetensors(place("4").file("best.safetensors")).metadata.at("epoch"));
  std::int64_t shared = 0;
  for (const BuiltRun& run : runs_) shared += dynamic_cast<Centred&>(*run.model).evaluated;
  EXPECT_LT(dynamic_cast<Centred&>(*runs_[3].model).evaluated, passes);
  EXPECT_GE(shared, passes);
  EXPECT_LT(shared, 2 * passes) << "the passes are shared out, not repeated";
}

TEST_F(Processes, EndWithACheckpointWhereOneIsLost) {
  train_on(1, parts(), "whole");
  const std::string message = message_of<WorldError>([&] {
    train_on(4, parts(), "lost", -1, [](std::vector<BuiltRun>& runs) {
      dynamic_cast<Failing&>(*runs[2].task).fails_at = 4;
      dynamic_cast<Failing&>(*runs[2].task).lost = true;
    });
  });
  EXPECT_THAT(message, AllOf(HasSubstr("at step "), HasSubstr("--resume"), HasSubstr("parts")));
  const RunStatus status = place("lost").status();
  EXPECT_EQ(status.state, RunState::interrupted);
  // 3 where the connection breaks before process 0 has read the last message of the fourth step.
  EXPECT_THAT(status.step, AnyOf(3, 4));
  EXPECT_EQ(checkpoint("lost").metadata.at("step"), std::to_string(status.step));
  ASSERT_EQ(train_on(2, parts(), "lost").state, RunState::done);
  expect_same("whole", "lost");
}

TEST_F(Processes, WithMomentsInSharesGiveTheSameBitsAndTheSameFile) {
  options_.average.decay = 0.9;
  ASSERT_EQ(train_on(1, parts(), "whole").state, RunState::done);
  options_.zero = 1;
  for (const std::int64_t size : {1, 2, 4}) {
    const std::string folder = std::to_string(size);
    const RunStatus status = train_on(size, parts(), folder);
    ASSERT_EQ(status.state, RunState::done) << status.reason;
    expect_same("whole", folder);
  }
  // With another number of processes, with shares and without.
  ASSERT_EQ(train_on(4, parts(), "stopped", 3).state, RunState::interrupted);
  options_.zero = 0;
  ASSERT_EQ(train_on(2, parts(), "stopped", 5).state, RunState::interrupted);
  options_.zero = 1;
  ASSERT_EQ(train_on(2, parts(), "stopped", 8).state, RunState::interrupted);
  ASSERT_EQ(train_on(1, parts(), "stopped").state, RunState::done);
  expect_same("whole", "stopped");
}

TEST_F(Processes, WithMomentsInSharesGoOnFromTheCheckpointBeforeWhereOneIsLost) {
  train_on(1, parts(), "whole");
  options_.zero = 1;
  message_of<WorldError>([&] {
    train_on(4, parts(), "lost", -1, [](std::vector<BuiltRun>& runs) {
      dynamic_cast<Failing&>(*runs[2].task).fails_at = 8;
      dynamic_cast<Failing&>(*runs[2].task).lost = true;
    });
  });
  EXPECT_EQ(place("lost").status().step, 8);
  EXPECT_EQ(checkpoint("lost").metadata.at("step"), "6") << "the moments of two steps are gone";
  ASSERT_EQ(train_on(2, parts(), "lost").state, RunState::done);
  expect_same("whole", "lost");
}

TEST_F(Processes, SayWhichOneFailedAndWhy) {
  const std::string message = message_of<DataError>([&] {
    train_on(2, parts(), "failed", -1, [](std::vector<BuiltRun>& runs) {
      dynamic_cast<Failing&>(*runs[1].task).fails_at = 2;
    });
  });
  EXPECT_EQ(message, "a hole in the data");
  const RunStatus status = place("failed").status();
  EXPECT_EQ(status.state, RunState::failed) << "as where process 0 fails";
  EXPECT_THAT(status.reason, mentions("process 1 of 2:", "a hole in the data", "at step 2"));
  EXPECT_EQ(checkpoint("failed").metadata.at("step"), "2");
}

TEST_F(Processes, FailTogetherWhereOneCannotEvaluate) {
  const std::string message = message_of<AgreedError>([&] {
    train_on(2, parts(), "failed", -1, [](std::vector<BuiltRun>& runs) {
      dynamic_cast<Centred&>(*runs[1].model).fails_evaluating = true;
    });
  });
  EXPECT_THAT(message, says({"process 1 of 2:", "a hole in the model"}));
  const RunStatus status = place("failed").status();
  EXPECT_EQ(status.state, RunState::failed);
  EXPECT_EQ(status.reason, message);
}

TEST_F(Processes, WaitForABatchBeforeTheyStop) {
  const auto data = std::make_shared<Noting>();
  TinyParts noted = parts();
  noted.dataset = data;
  ASSERT_EQ(train_on(1, noted, "noted").state, RunState::done);
  EXPECT_GT(data->waits, 0);
  EXPECT_EQ(data->ends, 0) << "others would lose the process, and the run its steps";
}

TEST_F(Processes, DrawTheSameInAnEvaluationWhateverTheyDidBefore) {
  const TinyParts drawing = {std::make_shared<testing::Clouds>(),
                             [] { return std::make_shared<Drawing>(); },
                             [] { return std::make_shared<Sorting>(); }};
  const std::atomic<bool> stop{false};
  const auto drawn = [&](std::int64_t size, std::uint64_t before) {
    runs_.clear();
    for (std::int64_t i = 0; i < size; ++i) runs_.push_back(tiny_run(drawing, options_));
    at::manual_seed(before);
    in_world(size, [&](const std::shared_ptr<World>& world) {
      BuiltRun& run = runs_[static_cast<std::size_t>(world->rank())];
      run.world = world;
      evaluate_split(run, Split::test, stop);
    });
    return dynamic_cast<Drawing&>(*runs_.front().model).drawn;
  };
  const std::vector<float> two = drawn(1, 1);
  ASSERT_EQ(two.size(), 2U);
  EXPECT_NE(two[0], two[1]) << "each pass draws its own numbers";
  EXPECT_EQ(drawn(1, 2), two);
  options_.eval_batch_size = 16;  // one batch: threads share a generator
  EXPECT_EQ(drawn(1, 3), drawn(2, 4));
  options_.parts = 1;
  EXPECT_NE(drawn(1, 3), drawn(1, 4)) << "and these tests tell";
}

TEST_F(Processes, RefuseToBeginAtDifferentWeights) {
  const std::string message = message_of<DataError>([&] {
    train_on(2, parts(), "other", -1, [](std::vector<BuiltRun>& runs) {
      const at::NoGradGuard no_gradients;
      runs[1].model->parameters()[0].add_(1);
    });
  });
  EXPECT_THAT(message,
              mentions("process 1 of 2 begins at step 0", "weights", "a disk", "all processes"));
}

TEST_F(Processes, EndWhereTheirWeightsDriftApart) {
  const std::string message = message_of<DataError>([&] {
    train_on(2, parts(), "drift", -1, [](std::vector<BuiltRun>& runs) {
      dynamic_cast<Centred&>(*runs[1].model).drifts_at = 3;
    });
  });
  EXPECT_THAT(message, AllOf(HasSubstr("process 1 of 2 stands at step 6"), HasSubstr("weights"),
                             HasSubstr("machines that are alike")));
  EXPECT_EQ(place("drift").status().state, RunState::failed);
}

}  // namespace
}  // namespace attnlab::parts_test
