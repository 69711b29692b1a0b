// The smallest real users of what a training can do beside a plain step: uneven examples, batches
// that continue each other, a task with a head of its own, a running mean as teacher.
#include <cmath>

#include "framework/base/files.h"
#include "framework/train/costs.h"
#include "framework/train/environment.h"
#include "framework/train/evaluation.h"
#include "framework/train/training.h"
#include "tests/support/tiny_parts.h"

namespace attnlab::extensions_test {
namespace {

using attnlab::testing::mentions;
using nlohmann::json;
using testing::clouds;
using testing::Clouds;
using ::testing::HasSubstr;
using testing::Line;
using testing::Sorting;
using testing::tiny_options;
using testing::tiny_run;
using testing::TinyParts;

class Extensions : public testing::TinyRuns {};

// ---- uneven examples

/// Sets of 1 to 5 points; all points of a set lie on one side, and its class says which.
class Sets final : public Clouds {
 public:
  Sets() {
    info_.fields = {{.name = "x@point", .shape = {-1, 4}},
                    {.name = "class", .shape = {}, .dtype = at::kLong, .categories = 2}};
    info_.unit = "points";
    info_.unit_field = "point";
  }
  static std::int64_t points(std::int64_t index) { return 1 + index * 7 % 5; }
  std::int64_t cost(Split, std::int64_t index) const override { return points(index); }
  NamedTensors make_example(Split split, std::int64_t index, Random* augmentation) const override {
    std::vector<Tensor> rows;
    for (std::int64_t i = 0; i < points(index); ++i) {
      rows.push_back(
          Clouds::make_example(split, index % 2 + 2 * (index + i), augmentation).at("x"));
    }
    return {{"x@point", at::stack(rows)}, {"class", at::scalar_tensor(index % 2, at::kLong)}};
  }
};

/// The mean over a set's points of a line's logits.
class SetMean final : public Line {
 public:
  NamedTensors forward(const Batch& batch, ForwardPass&) override {
    const Tensor logits = of(batch.fields.at("x@point"));
    const auto* offsets = batch.offsets.at("point").data_ptr<std::int64_t>();
    std::vector<Tensor> means;
    for (std::int64_t i = 0; i < batch.size; ++i) {
      means.push_back(logits.slice(0, offsets[i], offsets[i + 1]).mean(0));
    }
    return {{"logits", at::stack(means)}};
  }
};

TinyParts sets() {
  return {std::make_shared<Sets>(), [] { return std::make_shared<SetMean>(); },
          [] { return std::make_shared<Sorting>(); }};
}

std::int64_t points_of_all() {
  std::int64_t all = 0;
  for (std::int64_t i = 0; i < 48; ++i) all += Sets::points(i);
  return all;
}

TEST_F(Extensions, TrainOnUnevenSetsInBatchesOfABudget) {
  TrainOptions options = tiny_options();
  options.epochs = 4;
  options.batching.budget = 20;
  const RunStatus status = train(tiny_run(sets(), options), "run");
  EXPECT_EQ(status.state, RunState::done) << status.reason;
  EXPECT_EQ(status.metrics.at("accuracy"), 1.0);
  EXPECT_GT(status.metrics.at("points_per_second"), 0);
  EXPECT_EQ(status.metrics.count("examples_per_second"), 0U);
  EXPECT_EQ(checkpoint("run").metadata.at("units"), std::to_string(4 * points_of_all()));
}

TEST_F(Extensions, ResumeUnevenSetsAnywhereAlsoInParts) {
  TrainOptions options = tiny_options();
  options.batch_size = 16;
  options.accumulate = 4;
  expect_resumes_anywhere(sets(), options);
}

TEST_F(Extensions, CountOperationsPerExampleOverTheFirstPlannedBatch) {
  TrainOptions options = tiny_options();
  const std::int64_t rows = [] {
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < 8; ++i) sum += Sets::points(i);
    return sum;
  }();
  EXPECT_EQ(forward_flops(tiny_run(sets(), options)), rows * 2 * 4 * 2 / 8);
  EXPECT_EQ(forward_flops(tiny_run(clouds(), options)), 2 * 4 * 2);
}

TEST_F(Extensions, ProbeRunsOfABudget) {
  TrainOptions options = tiny_options();
  options.batching.budget = 20;
  BuiltRun run = tiny_run(sets(), options);
  const RunForecast result = probe_run(run, run.steps_per_epoch + 3);  // more than an epoch has
  EXPECT_EQ(result.steps, run.steps_per_epoch);
  EXPECT_GT(result.step_seconds, 0);
}

// ---- batches that continue each other

/// Four streams of twelve windows each; the class is whether the sum of all x so far is positive.
class Streams final : public Dataset {
 public:
  Streams() {
    info_.name = "streams";
    info_.fields = {{.name = "x", .shape = {1}},
                    {.name = "class", .shape = {}, .dtype = at::kLong, .categories = 2}};
    info_.fingerprint = "streams";
    info_.unit = "tokens";
    info_.unit_field = "x";
  }
  const DatasetInfo& info() const override { return info_; }
  std::int64_t size(Split split) const override { return split == Split::validation ? 0 : 48; }
  NamedTensors make_example(Split, std::int64_t index, Random*) const override {
    double sum = 0, x = 0;
    for (std::int64_t i = index - index % 12; i <= index; ++i) {
      x = RandomStreams(9).stream("stream", std::uint64_t(i)).normal();
      sum += x;
    }
    return {{"x", at::full({1}, x)}, {"class", at::scalar_tensor(sum > 0 ? 1 : 0, at::kLong)}};
  }
  EpochPlan plan(const PlanRequest&) const override {
    EpochPlan plan;
    for (std::int64_t window = 0; window < 12; ++window) {
      for (std::int64_t stream = 0; stream < 4; ++stream) {
        plan.order.push_back(stream * 12 + window);
      }
      plan.ends.push_back(std::int64_t(plan.order.size()));
    }
    plan.continues = true;
    return plan;
  }

 private:
  DatasetInfo info_;
};

/// Carries the sum of x; its logits are a line's, of x and the sum.
class Counter final : public Line {
 public:
  Counter() : Line(/*dropout=*/0.1, /*inputs=*/2) {}
  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    const Tensor& x = batch.fields.at("x");
    Tensor sum = x;
    if (pass.carried != nullptr) {
      const Tensor* before = pass.carried->find("sum");
      EXPECT_EQ(before != nullptr, batch.continues) << "what came before, and only that";
      if (before != nullptr) sum = sum + *before;
      pass.carried->set("sum", sum.detach());
    }
    if (pass.trace != nullptr) record(*pass.trace, sum);
    return {{"logits", of(at::cat({x, sum}, 1))}};
  }

 private:
  /// The largest sum, as if it were an attention's logit.
  static void record(const AttentionTrace& trace, const Tensor& sum) {
    LayerTrace seen;
    seen.logits = sum.reshape({-1, 1, 1, 1});
    trace.on_layer(seen);
  }
};

TinyParts streams() {
  return {std::make_shared<Streams>(), [] { return std::make_shared<Counter>(); },
          [] { return std::make_shared<Sorting>(); }};
}

TEST_F(Extensions, CarryFromBatchToBatchAndBeginAnewWithTheEpoch) {
  TrainOptions options = tiny_options();
  options.epochs = 15;
  const RunStatus status = train(tiny_run(streams(), options), "run");
  EXPECT_EQ(status.state, RunState::done) << status.reason;
  EXPECT_GT(status.metrics.at("accuracy"), 0.85) << "which a model without the sum cannot have";
  EXPECT_EQ(checkpoint("run").metadata.at("units"), std::to_string(15 * 48));
  double expected = 0;
  const Streams data;
  for (std::int64_t i = 0; i < 12; ++i) {
    expected += data.example(Split::train, i, nullptr).at("x").item<double>();
  }
  const Tensor carried = checkpoint("run").tensors.at("carried.sum");
  EXPECT_EQ(carried.sizes(), at::IntArrayRef({4, 1}));
  EXPECT_NEAR(carried[0].item<double>(), expected, 1e-5) << "of the last epoch alone";
}

TEST_F(Extensions, ResumeAStreamAnywhereBitForBit) {
  TrainOptions options = tiny_options();
  options.epochs = 2;
  expect_resumes_anywhere(streams(), options);
}

TEST_F(Extensions, CarryTheRowsOfEachPartOfAStep) {
  TrainOptions options = tiny_options();
  TinyParts parts = streams();
  options.accumulate = 2;
  options.batch_size = 4;
  ASSERT_EQ(train(tiny_run(parts, options), "parts").state, RunState::done);
  options.accumulate = 1;
  train(tiny_run(parts, options), "whole");
  EXPECT_TRUE(checkpoint("parts")
                  .tensors.at("carried.sum")
                  .equal(checkpoint("whole").tensors.at("carried.sum")));
}

TEST_F(Extensions, LookAtAStreamWithoutMovingIt) {
  const TrainOptions options = tiny_options();
  train(tiny_run(streams(), options), "plain");
  BuiltRun traced = tiny_run(streams(), options);
  traced.experiment.trace = {.every = 5, .record = {"logit_max"}};
  train(std::move(traced), "traced");
  EXPECT_EQ(lines("traced", "trace").size(), 3U);
  EXPECT_EQ(lines("traced", "train"), lines("plain", "train"));
  EXPECT_TRUE(checkpoint("traced")
                  .tensors.at("carried.sum")
                  .equal(checkpoint("plain").tensors.at("carried.sum")));
  // Step 5's line is of the sums after five windows.
  double largest = -1e9;
  const Streams data;
  for (std::int64_t stream = 0; stream < 4; ++stream) {
    double sum = 0;
    for (std::int64_t i = 0; i < 5; ++i) {
      sum += data.example(Split::train, stream * 12 + i, nullptr).at("x").item<double>();
    }
    largest = std::max(largest, sum);
  }
  EXPECT_NEAR(lines("traced", "trace")[1].at("logit_max").get<double>(), largest, 1e-5);
}

/// Forgets to detach what it carries.
class Leaking final : public Line {
 public:
  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    const Tensor logits = at::linear(batch.fields.at("x").expand({-1, 4}), weight_);
    if (pass.carried != nullptr) pass.carried->set("memory", logits);
    return {{"logits", logits}};
  }
};

TEST_F(Extensions, NameWhatIsCarriedWithAGradient) {
  TinyParts parts = streams();
  parts.model = [] { return std::make_shared<Leaking>(); };
  EXPECT_THAT(
      testing::message_of<ShapeError>([&] { train(tiny_run(parts, tiny_options()), "run"); }),
      mentions("'memory' [4, 2] float32", "gradient", "detach"));
}

// ---- a head of the task's own

/// Takes the model's logits for features, and sorts by a head of its own.
class Headed final : public Sorting {
 public:
  Headed() { head_ = register_parameter("head", at::randn({2, 2})); }
  Tensor loss(const NamedTensors& outputs, const Batch& batch) const override {
    const Tensor logits = at::dropout(outputs.at("logits").matmul(head_), 0.1, is_training());
    return at::cross_entropy_loss(logits, batch.fields.at("class"));
  }

 private:
  Tensor head_;
};

TEST_F(Extensions, TrainSaveAndRestoreATasksHead) {
  const TrainOptions options = tiny_options();
  const TinyParts parts = clouds<Headed>();
  const Tensor first = tiny_run(parts, options).task->parameters().front().clone();
  expect_resumes_anywhere(parts, options);
  const TensorFile file = checkpoint("whole");
  EXPECT_FALSE(file.tensors.at("task.head").equal(first)) << "it is trained";
  EXPECT_NE(file.tensors.find("optimizer.exp_avg.task.head"), nullptr);
  BuiltRun loaded = tiny_run(parts, options);
  load_model(loaded, place("whole"));
  EXPECT_TRUE(loaded.task->parameters().front().equal(file.tensors.at("task.head")));
  EXPECT_EQ(loaded.parameter_count(), 2 * 4 + 2 + 4) << "model and task";
}

TEST_F(Extensions, GiveATasksHeadAGroupOfItsOwn) {
  TrainOptions options = tiny_options();
  ParameterGroupOptions still;
  still.match = {"task.*"};
  still.lr_scale = 0;
  options.optimizer.groups.emplace_back("head", still);
  const TinyParts parts = clouds<Headed>();
  const Tensor first = tiny_run(parts, options).task->parameters().front().clone();
  ASSERT_EQ(train(tiny_run(parts, options), "run").state, RunState::done);
  EXPECT_TRUE(checkpoint("run").tensors.at("task.head").equal(first));
}

// ---- a teacher

/// Pulls the model's logits to those of its own running mean, and keeps what it saw of both.
class Taught final : public Sorting {
 public:
  Tensor step(TrainingStep& step) override {
    EXPECT_FALSE(step.average_model->is_training());
    EXPECT_FALSE(step.average_task->is_training());
    weights.push_back(step.model.named_parameters()["weight"].detach().clone());
    means.push_back(step.average_model->named_parameters()["weight"].detach().clone());
    ForwardPass pass;
    const Tensor logits = step.model.forward(step.batch, pass).at("logits");
    const Tensor teacher = [&] {
      const at::NoGradGuard no_gradients;
      return step.average_model->forward(step.batch, pass).at("logits");
    }();
    return at::cross_entropy_loss(logits, step.batch.fields.at("class")) +
           (logits - teacher).square().mean();
  }

  std::vector<Tensor> weights, means;  ///< before each step
};

TEST_F(Extensions, KeepTheMeanOfTheWeightsForATeacher) {
  TrainOptions options = tiny_options();
  options.average = {.decay = 0.5, .end = 1.0};
  BuiltRun run = tiny_run(clouds<Taught>(), options);
  const auto task = std::static_pointer_cast<Taught>(run.task);
  ASSERT_EQ(train(std::move(run), "run").state, RunState::done);
  ASSERT_EQ(task->weights.size(), 6U);
  Tensor mean = task->weights.front();
  for (std::size_t step = 0; step < 6; ++step) {
    EXPECT_LT((task->means[step] - mean).abs().max().item<double>(), 1e-6) << step;
    const double decay = 1.0 - 0.5 * (1 + std::cos(M_PI * double(step) / 6)) / 2;
    const Tensor after =
        step < 5 ? task->weights[step + 1] : checkpoint("run").tensors.at("model.weight");
    mean = decay * mean + (1 - decay) * after;
  }
  const Tensor saved = checkpoint("run").tensors.at("average.model.weight");
  EXPECT_LT((saved - mean).abs().max().item<double>(), 1e-6);
}

TEST_F(Extensions, ResumeATeacherAnywhere) {
  TrainOptions options = tiny_options();
  options.average.decay = 0.9;
  expect_resumes_anywhere(clouds<Taught>(), options);
}

// A step is clipped by the gradients that it applies, from its first one on.
TEST_F(Extensions, ResumeBehindTheEpochInWhichAGroupWasFrozen) {
  TrainOptions options = tiny_options();
  options.epochs = 3;
  options.clip_norm = 0.01;
  options.optimizer.use = "sgd";
  ParameterGroupOptions early;
  early.match = {"bias"};
  early.epochs = {0, 1};
  options.optimizer.groups.emplace_back("early", early);
  expect_resumes_anywhere(clouds(), options);
}

// ---- what a run ran on

TEST_F(Extensions, KeepTheFirstEnvironmentAndAddLaterOnes) {
  const TinyParts parts = clouds();
  const TrainOptions options = tiny_options();
  train(tiny_run(parts, options), "run", 2);
  const json first = json::parse(read_text(folder_ / "run/environment.json"));
  BuiltRun again = tiny_run(parts, options);
  again.accepted = {"the framework changed"};
  train(std::move(again), "run");
  json both = json::parse(read_text(folder_ / "run/environment.json"));
  ASSERT_EQ(both.at("resumed").size(), 1U);
  EXPECT_EQ(both.at("resumed")[0].at("step"), 2);
  EXPECT_EQ(both.at("resumed")[0].at("accepted"), json::array({"the framework changed"}));
  both.erase("resumed");
  EXPECT_EQ(both, first);
  EXPECT_EQ(first.at("metrics")[0].at("name"), "accuracy");
}

TEST_F(Extensions, NameWhatChangedSinceARunBegan) {
  const TinyParts parts = clouds();
  const TrainOptions options = tiny_options();
  EXPECT_TRUE(changes_since_start(tiny_run(parts, options), place("run")).empty());
  train(tiny_run(parts, options), "run", 2);
  EXPECT_TRUE(changes_since_start(tiny_run(parts, options), place("run")).empty());
  BuiltRun other = tiny_run(parts, options);
  other.experiment.attention.path = folder_.write("other.so", "another file");
  EXPECT_THAT(changes_since_start(other, place("run")),
              ::testing::ElementsAre(HasSubstr("attention 'tiny' changed")));
  json environment = json::parse(read_text(folder_ / "run/environment.json"));
  environment["framework"]["revision"] = "0";
  environment["data"]["fingerprint"] = "other";
  folder_.write("run/environment.json", environment.dump());
  EXPECT_THAT(changes_since_start(tiny_run(parts, options), place("run")),
              ::testing::ElementsAre(HasSubstr("dataset 'tiny' changed"), "the framework changed"));
  // What was accepted once is not asked again.
  BuiltRun accepting = tiny_run(parts, options);
  accepting.accepted = {"the framework changed"};
  train(std::move(accepting), "run", 4);
  EXPECT_TRUE(changes_since_start(tiny_run(parts, options), place("run")).empty());
}

}  // namespace
}  // namespace attnlab::extensions_test
