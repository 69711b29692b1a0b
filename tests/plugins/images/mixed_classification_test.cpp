// Image classification with mixed images and other losses.
#include <cmath>

#include "framework/data/image/mixing.h"
#include "tests/support/data_files.h"
#include "tests/support/plugins.h"

namespace attnlab::mixed_classification_test {
namespace {

using ::testing::HasSubstr;
using testing::make_task;
using testing::message_of;

DatasetInfo images() {
  DatasetInfo info;
  info.name = "toy";
  info.classes = 3;
  info.fields = {{"image", {1, 4, 4}, at::kFloat}, {"class", {}, at::kLong}};
  return info;
}

/// Logits that are linear in the image, and keeps what it was given.
class Probe final : public Model {
 public:
  Probe() {
    weight_ = register_parameter("weight", at::sin(at::arange(48.0, at::kDouble)).view({3, 16}));
  }
  NamedTensors forward(const Batch& batch, ForwardPass&) override {
    seen = batch.fields.at("image");
    return {{"logits", at::linear(seen.flatten(1).to(at::kDouble), weight_)}};
  }
  Tensor seen;

 private:
  Tensor weight_;
};

Batch some_batch() {
  Batch batch;
  batch.size = 4;
  batch.fields.set("image", at::cos(at::arange(64.0)).view({4, 1, 4, 4}).to(at::kFloat));
  batch.fields.set("class", at::tensor({0, 2, 1, 1}, at::kLong));
  return batch;
}

double step_loss(Task& task, Probe& model, std::uint64_t seed = 3) {
  const Batch batch = some_batch();
  TrainingStep step{model, batch};
  step.random = Random(seed);
  return task.step(step).item<double>();
}

TEST(MixedClassification, IsTheCrossEntropyOfMixedTargets) {
  const auto task = make_task("image_classification", images(),
                              "{mixup: 0.8, cutmix: 1.0, label_smoothing: 0.1}");
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    Probe model;
    const double found = step_loss(*task, model, seed);
    Random random(seed);
    const MixedBatch expected = mixed(some_batch().fields.at("image"),
                                      class_targets(some_batch().fields.at("class"), 3, 0.1),
                                      {.mixup = 0.8, .cutmix = 1}, random);
    EXPECT_TRUE(model.seen.equal(expected.images));
    ForwardPass pass;
    Batch batch = some_batch();
    batch.fields.set("image", expected.images);
    const Tensor log_p = model.forward(batch, pass).at("logits").log_softmax(-1);
    EXPECT_NEAR(found, -(expected.targets * log_p).sum().item<double>() / 4, 1e-6);
  }
}

TEST(MixedClassification, IsBinaryForEveryClassThatIsThere) {
  const auto task = make_task("image_classification", images(), "{mixup: 0.8, loss: binary}");
  Probe model;
  const double found = step_loss(*task, model);
  ForwardPass pass;
  Batch batch = some_batch();
  batch.fields.set("image", model.seen);
  const Tensor z = model.forward(batch, pass).at("logits");
  const int there[4][3] = {
      {1, 1, 0}, {0, 1, 1}, {0, 1, 1}, {1, 1, 0}};  // classes 0 2 1 1, reversed
  double expected = 0;
  for (int i = 0; i < 4; ++i) {
    for (int k = 0; k < 3; ++k) {
      const double logit = z[i][k].item<double>();
      expected += std::log1p(std::exp(there[i][k] == 1 ? -logit : logit)) / 12;
    }
  }
  EXPECT_NEAR(found, expected, 1e-9);
}

TEST(MixedClassification, WithoutMixingIsTheLossOfOnePass) {
  for (const char* options :
       {"{}", "{label_smoothing: 0.1}", "{loss: binary}", "{mixup: 0.8, mix_probability: 0}"}) {
    const auto task = make_task("image_classification", images(), options);
    Probe model;
    const double found = step_loss(*task, model);
    ForwardPass pass;
    const Batch batch = some_batch();
    EXPECT_EQ(found, task->loss(model.forward(batch, pass), batch).item<double>()) << options;
  }
}

TEST(MixedClassification, OfMembersIsRefusedOrEachOnesOwn) {
  Probe model;
  ForwardPass pass;
  const Batch batch = some_batch();
  const NamedTensors outputs = model.forward(batch, pass);
  const auto mixing = make_task("image_classification", images(), "{cutmix: 1.0}");
  EXPECT_THAT(message_of<OptionError>([&] { mixing->losses(outputs, batch, 2); }),
              HasSubstr("one by one"));
  const auto binary = make_task("image_classification", images(), "{loss: binary}");
  const Tensor losses = binary->losses(outputs, batch, 2);
  for (std::int64_t m = 0; m < 2; ++m) {
    const NamedTensors own = {{"logits", outputs.at("logits").narrow(0, 2 * m, 2)}};
    EXPECT_NEAR(losses[m].item<double>(), binary->loss(own, slice(batch, 2 * m, 2)).item<double>(),
                1e-12);
  }
}

TEST(MixedClassification, RefusesOptionsWithoutMeaning) {
  EXPECT_THAT(message_of<ConfigError>([] {
                make_task("image_classification", images(), "{loss: binary, label_smoothing: 0.1}");
              }),
              HasSubstr("label_smoothing"));
  DatasetInfo series = images();
  series.fields = {{"series", {4, 1}, at::kFloat}, {"class", {}, at::kLong}};
  EXPECT_THAT(
      message_of<DataError>([&] { make_task("image_classification", series, "{mixup: 0.2}"); }),
      HasSubstr("image"));
}

}  // namespace
}  // namespace attnlab::mixed_classification_test
