// Training in float16: the loss is scaled so that its gradients can be held.
#include "framework/train/loss_scale.h"

#include <cmath>
#include <memory>
#include <string>

#include "framework/train/training.h"
#include "tests/unit/train/training_loop.h"

namespace attnlab::loss_scale_test {
namespace {

using testing::clouds;
using testing::clouds_with;
using ::testing::HasSubstr;
using testing::Sorting;
using testing::tiny_options;
using testing::tiny_run;
using testing::TinyParts;
using testing::TrainingLoop;

TEST(LossScale, DoublesAfter2000SoundStepsAndHalvesAtOnce) {
  LossScale scale;
  for (int i = 0; i < 1999; ++i) scale.update(true);
  EXPECT_EQ(scale.value, 65536);
  scale.update(true);
  EXPECT_EQ(scale.value, 131072);
  for (int i = 0; i < 1000; ++i) scale.update(true);
  scale.update(false);
  EXPECT_EQ(scale.value, 65536);
  for (int i = 0; i < 1999; ++i) scale.update(true);
  EXPECT_EQ(scale.value, 65536) << "steps before the break do not count";
  for (int i = 0; i < 100; ++i) scale.update(false);
  EXPECT_FALSE(scale.exhausted());
  for (int i = 0; i < 20; ++i) scale.update(false);
  EXPECT_TRUE(scale.exhausted());
}

/// The gradient of the loss, times a factor, goes through float16: infinite from 65520 on, 0 below
/// 3e-8.
class InHalf final : public Sorting {
 public:
  explicit InHalf(double factor) : factor_(factor) {}
  Tensor step(TrainingStep& step) override {
    const Tensor loss = Sorting::step(step) * 1;
    loss.register_hook([factor = factor_](const Tensor& gradient) {
      return (gradient * factor).to(at::kHalf).to(at::kFloat) / factor;
    });
    return loss;
  }

 private:
  double factor_;
};

BuiltRun narrow_run(const TinyParts& parts, const TrainOptions& options) {
  BuiltRun run = tiny_run(parts, options);
  run.products = Precision::float16;
  return run;
}

Tensor weight_of(const TensorFile& file) { return file.tensors.at("model.weight"); }

TEST_F(TrainingLoop, ScalesTheLossWithoutChangingABit) {
  TrainOptions options = tiny_options();
  for (const double clip : {0.0, 0.1}) {
    options.clip_norm = clip;
    options.accumulate = clip > 0 ? 2 : 1;
    const std::string wide = "wide-" + std::to_string(clip > 0), narrow = "narrow-" + wide;
    train(tiny_run(clouds(), options), wide);
    train(narrow_run(clouds(), options), narrow);
    EXPECT_TRUE(weight_of(checkpoint(wide)).equal(weight_of(checkpoint(narrow)))) << clip;
    EXPECT_EQ(lines(wide, "train").back().at("gradient_norm"),
              lines(narrow, "train").back().at("gradient_norm"));
    EXPECT_FALSE(lines(wide, "train").back().contains("loss_scale"));
    EXPECT_EQ(lines(narrow, "train").back().at("loss_scale"), 65536);
  }
}

TEST_F(TrainingLoop, ScalesPartsAsTheirMeans) {
  TrainOptions options = tiny_options();
  options.parts = 2;  // of four examples each
  train(tiny_run(clouds(), options), "wide");
  train(narrow_run(clouds(), options), "narrow");
  EXPECT_TRUE(weight_of(checkpoint("wide")).equal(weight_of(checkpoint("narrow"))));
  const TinyParts parts = clouds_with<InHalf>(0.4);  // infinite at four times 65536
  train(narrow_run(parts, options), "run");
  EXPECT_EQ(std::stod(checkpoint("run").metadata.at("loss_scale")), 65536);
}

TEST_F(TrainingLoop, KeepsGradientsThatFloat16CannotHold) {
  const TinyParts parts = clouds_with<InHalf>(1e-9);
  train(tiny_run(parts, tiny_options()), "unscaled", 1);
  train(narrow_run(parts, tiny_options()), "scaled", 1);
  train(tiny_run(clouds(), tiny_options()), "plain", 1);
  const Tensor unscaled = weight_of(checkpoint("unscaled")), plain = weight_of(checkpoint("plain"));
  EXPECT_LT((weight_of(checkpoint("scaled")) - plain).abs().max().item<double>(), 1e-3);
  EXPECT_GT((unscaled - plain).abs().max().item<double>(), 1e-2) << "no gradient came through";
}

TEST_F(TrainingLoop, LeavesOutStepsWhoseGradientsAreNotFiniteAndHalvesTheScale) {
  TrainOptions options = tiny_options();
  options.average.decay = 0.5;
  const TinyParts parts = clouds_with<InHalf>(2.0);  // infinite at 65536 and 32768, not at 16384
  train(narrow_run(parts, options), "run", 2);
  const TensorFile begun = checkpoint("run");
  BuiltRun fresh = tiny_run(parts, options);
  EXPECT_TRUE(weight_of(begun).equal(fresh.model->named_parameters()["weight"]));
  EXPECT_EQ(std::stod(begun.metadata.at("loss_scale")), 16384);
  EXPECT_EQ(begun.tensors.at("optimizer.step").item<std::int64_t>(), 0);

  const RunStatus status = train(narrow_run(parts, options), "run");
  EXPECT_EQ(status.state, RunState::done) << status.reason;
  EXPECT_EQ(status.step, 6);
  const TensorFile ended = checkpoint("run");
  EXPECT_EQ(ended.tensors.at("optimizer.step").item<std::int64_t>(), 4);
  EXPECT_EQ(ended.metadata.at("loss_scale_steps"), "4");
  EXPECT_FALSE(weight_of(ended).equal(weight_of(begun)));
  EXPECT_EQ(lines("run", "train").front().at("loss_scale"), 32768);

  train(narrow_run(parts, options), "whole");
  expect_same("whole", "run");
}

TEST_F(TrainingLoop, EndsAsDivergedWhereNoScaleHelps) {
  TrainOptions options = tiny_options();
  options.epochs = 30;
  options.log_every = 1000;
  const RunStatus status = train(narrow_run(clouds_with<InHalf>(HUGE_VAL), options), "run");
  EXPECT_EQ(status.state, RunState::diverged);
  EXPECT_THAT(status.reason, HasSubstr("the gradients were not finite at step 116"));
}

}  // namespace
}  // namespace attnlab::loss_scale_test
