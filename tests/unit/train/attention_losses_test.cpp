// Losses that attention layers add (`train.attention_losses`): what they make of a step's loss and
// gradients, where they are asked for, and what is refused.
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "framework/config/compose.h"
#include "framework/train/step.h"
#include "framework/train/training.h"
#include "tests/support/plugins.h"
#include "tests/support/tiny_parts.h"

namespace attnlab::attention_losses_test {
namespace {

using attnlab::testing::mentions;
using attnlab::testing::says;
using nlohmann::json;
using ::testing::HasSubstr;
using testing::message_of;
using testing::Sorting;
using testing::tiny_options;
using testing::tiny_run;
using testing::TinyParts;

/// Gives the values; adds the mean of their squares, and another loss that may not be asked for.
class Penalised final : public Attention {
 public:
  explicit Penalised(bool detaches)
      : Attention({.heads = 1, .head_dim = 4}, {}), detaches_(detaches) {}

  int calls = 0, asked = 0;

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext& context) override {
    ++calls;
    if (context.losses != nullptr) {
      ++asked;
      const Tensor square = input.values.square().mean();
      context.losses->add("square", detaches_ ? square.detach() : square);
      context.losses->add("spare", input.values.abs().mean());
    }
    return input.values;
  }

 private:
  bool detaches_;
};

/// y_l = s_l y_{l-1} through attention, y_0 = x; logits = W y_2. Models hand nothing on.
class TwoLayers final : public Model {
 public:
  explicit TwoLayers(bool detaches = false) {
    scales_ = register_parameter("scales", at::randn({2, 4}));
    head_ = register_parameter("head", at::randn({2, 4}));
    layers = {register_module("first", std::make_shared<Penalised>(detaches)),
              register_module("second", std::make_shared<Penalised>(detaches))};
  }
  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    Tensor y = batch.fields.at("x");
    for (std::int64_t l = 0; l < 2; ++l) {
      AttentionInput input;
      input.queries = input.keys = input.values = (y * scales_[l]).view({-1, 1, 1, 4});
      AttentionContext context{l, nullptr, pass.trace};
      y = layers[static_cast<std::size_t>(l)]->forward(input, context).view({-1, 4});
    }
    return {{"logits", at::linear(y, head_)}};
  }

  std::vector<std::shared_ptr<Penalised>> layers;

 private:
  Tensor scales_, head_;
};

TinyParts parts() {
  return {std::make_shared<testing::Clouds>(), [] { return std::make_shared<TwoLayers>(); },
          [] { return std::make_shared<Sorting>(); }};
}

TrainOptions weighing(const std::string& name, double weight) {
  TrainOptions options = tiny_options();
  options.attention_losses = {{name, weight}};
  return options;
}

Batch random_batch(std::int64_t size) {
  Batch batch;
  batch.size = size;
  batch.fields.set("x", at::randn({size, 4}));
  batch.fields.set("class", at::arange(size).remainder(2));
  return batch;
}

/// The two losses of a batch by the formulas, with leaves of their own.
struct Plain {
  Tensor scales, head, task, square;

  Plain(const Model& model, const Batch& batch)
      : scales(model.named_parameters()["scales"].detach().clone().requires_grad_()),
        head(model.named_parameters()["head"].detach().clone().requires_grad_()) {
    const Tensor first = batch.fields.at("x") * scales[0], second = first * scales[1];
    task = at::cross_entropy_loss(at::linear(second, head), batch.fields.at("class"));
    square = (first.square().mean() + second.square().mean()) / 2;
  }
};

class AttentionLoss : public testing::TinyRuns {};

TEST_F(AttentionLoss, CountsByItsWeightAsTheMeanOverTheLayers) {
  for (const double weight : {0.5, -2.0}) {
    BuiltRun run = tiny_run(parts(), weighing("square", weight));
    const Batch batch = random_batch(6);
    const Plain plain(*run.model, batch);
    const StepResult step = backward(run, batch, {.record = true});
    const Tensor loss = plain.task + weight * plain.square;
    loss.backward();
    EXPECT_NEAR(step.loss, loss.item<double>(), 1e-5) << weight;
    EXPECT_NEAR(step.parts.at("attention/square"), plain.square.item<double>(), 1e-5);
    EXPECT_EQ(step.parts.size(), 1U) << "what is not weighed is not recorded";
    EXPECT_EQ(step.attention_losses, (std::set<std::string>{"spare", "square"}));
    const auto found = run.model->named_parameters();
    EXPECT_TRUE(at::allclose(found["scales"].grad(), plain.scales.grad(), 1e-4, 1e-5)) << weight;
    EXPECT_TRUE(at::allclose(found["head"].grad(), plain.head.grad(), 1e-4, 1e-5)) << weight;
  }
}

TEST_F(AttentionLoss, OfWeightZeroIsRecordedAndChangesNothing) {
  const Batch batch = random_batch(6);
  BuiltRun none = tiny_run(parts(), tiny_options());
  BuiltRun zero = tiny_run(parts(), weighing("square", 0));
  const StepResult without = backward(none, batch, {.record = true});
  const StepResult with = backward(zero, batch, {.record = true});
  EXPECT_EQ(with.loss, without.loss);
  EXPECT_GT(with.parts.at("attention/square"), 0);
  EXPECT_TRUE(without.parts.empty());
  for (const auto& item : none.model->named_parameters()) {
    EXPECT_TRUE(item.value().grad().equal(zero.model->named_parameters()[item.key()].grad()));
  }
}

TEST_F(AttentionLoss, OfAStepInPartsIsThatOfTheWhole) {
  TrainOptions options = weighing("square", 0.5);
  const Batch batch = random_batch(8);
  BuiltRun whole = tiny_run(parts(), options);
  options.accumulate = 4;
  BuiltRun split = tiny_run(parts(), options);
  const StepResult one = backward(whole, batch, {.record = true});
  const StepResult four = backward(split, batch, {.record = true});
  EXPECT_NEAR(four.loss, one.loss, 1e-5);
  EXPECT_NEAR(four.parts.at("attention/square"), one.parts.at("attention/square"), 1e-5);
  for (const auto& item : whole.model->named_parameters()) {
    EXPECT_TRUE(at::allclose(split.model->named_parameters()[item.key()].grad(),
                             item.value().grad(), 1e-4, 1e-5))
        << item.key();
  }
}

int total(const TwoLayers& model, int Penalised::*count) {
  return *model.layers[0].*count + *model.layers[1].*count;
}

TEST_F(AttentionLoss, IsAskedForInStepsOfTrainingAlone) {
  for (const bool weighed : {false, true}) {
    BuiltRun run = tiny_run(parts(), weighed ? weighing("square", 0.5) : tiny_options());
    const auto model = std::static_pointer_cast<TwoLayers>(run.model);
    const std::string folder = weighed ? "weighed" : "plain";
    ASSERT_EQ(train(std::move(run), folder).state, RunState::done);
    EXPECT_EQ(total(*model, &Penalised::asked), weighed ? 2 * 6 : 0);
    EXPECT_GT(total(*model, &Penalised::calls), 2 * 6) << "it was evaluated, too";
    for (const json& line : lines(folder, "train")) {
      EXPECT_EQ(line.contains("loss/attention/square"), weighed);
    }
  }
}

/// Looks at the batch without gradients, and in evaluation mode, before its step.
class Peeking final : public Sorting {
 public:
  Tensor step(TrainingStep& step) override {
    ForwardPass pass;
    {
      const at::NoGradGuard no_gradients;
      step.model.forward(step.batch, pass);
    }
    step.model.eval();
    step.model.forward(step.batch, pass);
    step.model.train();
    return Sorting::step(step);
  }
};

TEST_F(AttentionLoss, IsNotAskedForWithoutGradientsOrInEvaluationMode) {
  TinyParts peeking = parts();
  peeking.task = [] { return std::make_shared<Peeking>(); };
  BuiltRun run = tiny_run(peeking, weighing("square", 0.5));
  const auto model = std::static_pointer_cast<TwoLayers>(run.model);
  backward(run, random_batch(6));
  EXPECT_EQ(total(*model, &Penalised::calls), 6);
  EXPECT_EQ(total(*model, &Penalised::asked), 2);
  ForwardPass pass;
  model->forward(random_batch(6), pass);
  EXPECT_EQ(total(*model, &Penalised::asked), 2) << "not after the step either";
}

TEST_F(AttentionLoss, ResumesAnywhereBitForBit) {
  TrainOptions options = weighing("square", 0.5);
  options.accumulate = 2;
  options.epochs = 2;
  expect_resumes_anywhere(parts(), options);
}

TEST_F(AttentionLoss, ThatNoLayerAddsEndsTheRunAtItsFirstStep) {
  const auto misspelt = [] {
    BuiltRun run = tiny_run(parts(), weighing("sqare", 1));
    run.experiment.resolved = parse_yaml("train:\n  attention_losses: {sqare: 1}\n", "f.yaml");
    return run;
  };
  const auto expected = says(
      {"f.yaml:2:29:", "train.attention_losses.sqare:", "'tiny'", "spare, square", "leave it out"});
  EXPECT_THAT(message_of<ConfigError>([&] { train(misspelt(), "run"); }), expected);
  EXPECT_EQ(place("run").status().state, RunState::failed);
  EXPECT_EQ(place("run").status().step, 0);
  BuiltRun rehearsed = misspelt();
  EXPECT_THAT(message_of<ConfigError>([&] { rehearse_run(rehearsed, place("dry")); }), expected);
  EXPECT_TRUE(std::filesystem::is_empty(place("dry").path()));
}

TEST_F(AttentionLoss, NeedsAnAttentionThatAddsOne) {
  EXPECT_THAT(message_of<ConfigError>(
                  [&] { train(tiny_run(testing::clouds(), weighing("entropy", 1)), "run"); }),
              says({"train.attention_losses.entropy:", "'tiny'", "leave it out"}));
}

TEST_F(AttentionLoss, MustHaveAGradient) {
  TinyParts detaching = parts();
  detaching.model = [] { return std::make_shared<TwoLayers>(/*detaches=*/true); };
  EXPECT_THAT(
      message_of<ShapeError>([&] { train(tiny_run(detaching, weighing("square", 1)), "run"); }),
      mentions("train.attention_losses.square:", "no gradient", "'square'"));
}

// ---- the key

std::string toy(const std::string& attention, const std::string& train) {
  return "schema: 1\nmodel: toy_transformer\nattention: " + attention +
         "\ntask: sequence_classification\ndataset: {use: spurious_retrieval, train: 40, test: 20, "
         "tokens: 4, key_dim: 3, classes: 3, data_seed: 0}\ntrain:\n  {epochs: 4, batch_size: 8, "
         "threads: 1, workers: 0, tensorboard: false, log_every: 1,\n   optimizer: {lr: 1.0e-2, "
         "weight_decay: 0}, schedule: {shape: constant}" +
         train + "}\n";
}

Experiment resolved(const std::string& train) {
  return resolve_experiment(parse_yaml(toy("qknorm", train), "toy.yaml"),
                            testing::registry().catalogue(), "toy");
}

TEST(AttentionLossKey, IsNotThereWithoutLosses) {
  const Experiment none = resolved("");
  EXPECT_EQ(none.resolved.at("train").find("attention_losses"), nullptr);
  for (const char* empty : {", attention_losses: {}", ", attention_losses: ~"}) {
    const Experiment same = resolved(empty);
    EXPECT_EQ(same.hash(), none.hash()) << empty;
    EXPECT_EQ(to_yaml(same.resolved), to_yaml(none.resolved)) << empty;
  }
}

TEST(AttentionLossKey, CountsForTheHash) {
  const Experiment one = resolved(", attention_losses: {entropy: 0.01, balance: 1}");
  EXPECT_EQ(one.train.attention_losses, (OptionMap<double>{{"entropy", 0.01}, {"balance", 1}}));
  EXPECT_EQ(one.hash(), resolved(", attention_losses: {entropy: 1e-2, balance: 1.0}").hash());
  EXPECT_NE(one.hash(), resolved(", attention_losses: {balance: 1}").hash());
  EXPECT_NE(one.hash(), resolved("").hash());
  const Experiment again = frozen_experiment(one.resolved, testing::registry().catalogue(), "toy");
  EXPECT_EQ(again.hash(), one.hash()) << "a frozen file loads again";
}

TEST(AttentionLossKey, TakesFiniteNumbers) {
  const auto message = [](const std::string& losses) {
    return message_of<ConfigError>([&] { resolved(", attention_losses: " + losses); });
  };
  EXPECT_THAT(message("{entropy: much}"),
              mentions("train.attention_losses.entropy:", "a number", "found much"));
  EXPECT_THAT(message("{entropy: {weight: 1}}"),
              mentions("train.attention_losses.entropy:", "a number", "found {weight: 1}"));
  EXPECT_THAT(message("{entropy: .inf}"), HasSubstr("is not finite"));
  EXPECT_THAT(message("[entropy]"),
              mentions("train.attention_losses:", "a map of names", "found [entropy]"));
}

// ---- a plugin's

/// The mean entropy of the weights in the last step.
double last_entropy(const std::vector<json>& lines) {
  return lines.back().at("loss/attention/entropy").get<double>();
}

// The attention and the model come from files: nothing but the contract is between them.
TEST_F(AttentionLoss, OfAPluginReachesItsModelsParameters) {
  Registry registry(
      Catalogue::with_file(Installation::of_this_program().root + "/test_plugins/entropy_loss.so"));
  const auto trained = [&](const std::string& folder, const std::string& losses) {
    const Experiment experiment = resolve_experiment(
        parse_yaml(toy("entropy_loss", losses), "toy.yaml"), registry.catalogue(), "toy");
    const RunStatus status = train(build_run(experiment, 0, registry), folder);
    EXPECT_EQ(status.state, RunState::done) << status.reason;
    return lines(folder, "train");
  };
  const double lowered = last_entropy(trained("lowered", ", attention_losses: {entropy: 10}"));
  const double recorded = last_entropy(trained("recorded", ", attention_losses: {entropy: 0}"));
  const double raised = last_entropy(trained("raised", ", attention_losses: {entropy: -10}"));
  EXPECT_LT(lowered, recorded);
  EXPECT_LT(recorded, raised);
  std::vector<json> plain = trained("plain", ""), watched = lines("recorded", "train");
  ASSERT_EQ(plain.size(), watched.size());
  for (json& line : watched) line.erase("loss/attention/entropy");
  EXPECT_EQ(watched, plain) << "weight 0 changes no number";
}

}  // namespace
}  // namespace attnlab::attention_losses_test
