#include <cmath>

#include "framework/eval/classification.h"
#include "tests/support/data_files.h"
#include "tests/support/plugins.h"

namespace attnlab::image_classification_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::make_task;
using testing::message_of;

const std::string kId = "attnlab/image_classification";

DatasetInfo info_of(std::int64_t classes) {
  DatasetInfo info;
  info.name = "toy";
  info.classes = classes;
  return info;
}

Batch batch_of(const std::vector<std::int64_t>& classes) {
  Batch batch;
  batch.size = static_cast<std::int64_t>(classes.size());
  batch.fields.set("class", at::tensor(classes, at::kLong));
  return batch;
}

/// Logits [B, K] without pattern and without ties.
Tensor some_logits(std::int64_t batch, std::int64_t classes) {
  const Tensor count = at::arange(batch * classes, at::kDouble);
  return (3 * at::sin(12.9898 * count + 1)).view({batch, classes});
}

/// - log softmax(z)[k] by its definition.
double naive_nll(const Tensor& logits, std::int64_t k) {
  double sum = 0;
  for (std::int64_t j = 0; j < logits.size(0); ++j) sum += std::exp(logits[j].item<double>());
  return std::log(sum) - logits[k].item<double>();
}

TEST(ImageClassification, LossIsCrossEntropyWithSmoothedTargets) {
  const Tensor logits = some_logits(6, 4);
  const std::vector<std::int64_t> classes = {0, 3, 1, 1, 2, 0};
  for (const double smoothing : {0.0, 0.1, 0.9}) {
    const auto task =
        make_task(kId, info_of(4), "{label_smoothing: " + std::to_string(smoothing) + "}");
    double expected = 0;
    for (std::int64_t i = 0; i < 6; ++i) {
      for (std::int64_t k = 0; k < 4; ++k) {
        const double target = (k == classes[std::size_t(i)] ? 1 - smoothing : 0) + smoothing / 4;
        expected += target * naive_nll(logits[i], k) / 6;
      }
    }
    const Tensor loss = task->loss({{"logits", logits}}, batch_of(classes));
    EXPECT_NEAR(loss.item<double>(), expected, 1e-12) << smoothing;
    EXPECT_EQ(loss.dim(), 0);
  }
}

TEST(ImageClassification, CountsAmongTheClassesThatAreTested) {
  DatasetInfo info = info_of(4);
  info.class_groups["tested"] = {1, 3};
  const Tensor logits = at::tensor({9.0, 2.0, 0.0, 1.0}).view({1, 4});
  const auto accuracy = [&](const std::string& options) {
    const auto meter = make_task(kId, info, options)->meter();
    meter->add({{"logits", logits}}, batch_of({1}));
    return meter->result();
  };
  EXPECT_EQ(accuracy("{}").at("accuracy"), 0);
  EXPECT_EQ(accuracy("{among: tested}").at("accuracy"), 1);
  EXPECT_NEAR(accuracy("{among: tested}").at("nll"), std::log(1 + std::exp(-1.0)), 1e-12);
  // A validation split has images of the other classes, too.
  const auto meter = make_task(kId, info, "{among: tested}")->meter();
  meter->add({{"logits", at::cat({logits, logits})}}, batch_of({1, 0}));
  meter->add({{"logits", logits}}, batch_of({2}));
  EXPECT_EQ(meter->result().at("accuracy"), 1);
  EXPECT_NEAR(meter->result().at("nll"), std::log(1 + std::exp(-1.0)), 1e-12);
  // Image by image, some count for nothing; that is not an empty split.
  const auto none = make_task(kId, info, "{among: tested}")->meter();
  none->add({{"logits", logits}}, batch_of({2}));
  EXPECT_THAT([&] { none->result(); },
              ::testing::ThrowsMessage<UndefinedMetrics>(mentions("no image", "class")));
}

TEST(ImageClassification, LossHasTheGradientOfSoftmaxMinusTarget) {
  const Tensor logits = some_logits(3, 5).set_requires_grad(true);
  const std::vector<std::int64_t> classes = {4, 0, 2};
  make_task(kId, info_of(5))->loss({{"logits", logits}}, batch_of(classes)).backward();
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t k = 0; k < 5; ++k) {
      const double probability = std::exp(-naive_nll(logits.detach()[i], k));
      const double target = k == classes[std::size_t(i)] ? 1 : 0;
      EXPECT_NEAR(logits.grad()[i][k].item<double>(), (probability - target) / 3, 1e-12);
    }
  }
}

TEST(ImageClassification, LossOfHalfPrecisionLogitsIsComputedInFloat) {
  const Tensor logits = some_logits(4, 3).to(at::kBFloat16);
  const auto task = make_task(kId, info_of(3));
  const Tensor loss = task->loss({{"logits", logits}}, batch_of({0, 1, 2, 0}));
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  const Tensor exact = task->loss({{"logits", logits.to(at::kDouble)}}, batch_of({0, 1, 2, 0}));
  EXPECT_NEAR(loss.item<double>(), exact.item<double>(), 1e-6);
}

TEST(ImageClassification, MeterCountsRanksOverAllBatches) {
  constexpr std::int64_t kClasses = 7;
  const auto task = make_task(kId, info_of(kClasses), "{label_smoothing: 0.3}");
  const auto meter = task->meter();
  double top1 = 0, top5 = 0, nll = 0, count = 0;
  for (const std::int64_t size : {5, 1, 12}) {
    const Tensor logits = some_logits(size, kClasses);
    std::vector<std::int64_t> classes;
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t label = (3 * i + 1) % kClasses;
      classes.push_back(label);
      int before = 0;
      for (std::int64_t k = 0; k < kClasses; ++k) {
        before += logits[i][k].item<double>() > logits[i][label].item<double>();
      }
      top1 += before == 0;
      top5 += before < 5;
      nll += naive_nll(logits[i], label);
      count += 1;
    }
    meter->add({{"logits", logits}}, batch_of(classes));
  }
  const Metrics metrics = meter->result();
  ASSERT_GT(top5, top1);  // else the example shows nothing
  ASSERT_LT(top5, count);
  EXPECT_DOUBLE_EQ(metrics.at("accuracy"), top1 / count);
  EXPECT_DOUBLE_EQ(metrics.at("top5"), top5 / count);
  EXPECT_NEAR(metrics.at("nll"), nll / count, 1e-12);
  EXPECT_EQ(task->metrics().front().name, "accuracy");
  EXPECT_EQ(task->metrics().front().better, Better::higher);
}

TEST(ImageClassification, MeterLeavesOutTop5BelowFiveClasses) {
  const auto meter = make_task(kId, info_of(4))->meter();
  meter->add({{"logits", some_logits(2, 4)}}, batch_of({0, 1}));
  EXPECT_EQ(meter->result().count("top5"), 0U);
}

TEST(ImageClassification, MeterIsExactForLogitsFarFromZero) {
  const auto meter = make_task(kId, info_of(2))->meter();
  meter->add({{"logits", at::tensor({1000.0, 1001.0, -5000.0, -5001.0}).view({2, 2})}},
             batch_of({0, 1}));
  EXPECT_NEAR(meter->result().at("nll"), std::log(1 + std::exp(1.0)), 1e-12);
}

// A model that has collapsed must not look right.
TEST(ImageClassification, MeterGivesNoCreditForEqualOrUndefinedLogits) {
  const auto collapsed = make_task(kId, info_of(10))->meter();
  collapsed->add({{"logits", at::zeros({10, 10})}}, batch_of({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_DOUBLE_EQ(collapsed->result().at("accuracy"), 0.1);
  EXPECT_DOUBLE_EQ(collapsed->result().at("top5"), 0.5);

  const auto undefined = make_task(kId, info_of(10))->meter();
  undefined->add({{"logits", at::full({2, 10}, std::nan(""))}}, batch_of({0, 9}));
  EXPECT_EQ(undefined->result().at("accuracy"), 0.0);
  EXPECT_EQ(undefined->result().at("top5"), 0.0);
  EXPECT_TRUE(std::isnan(undefined->result().at("nll")));
}

TEST(ImageClassification, MeterWithoutExamplesIsAnError) {
  EXPECT_THROW(make_task(kId, info_of(3))->meter()->result(), Error);
}

TEST(ImageClassification, RefusesClassesOutOfRange) {
  const auto task = make_task(kId, info_of(3));
  for (const std::int64_t label : {3, -1, -100}) {
    const NamedTensors outputs = {{"logits", some_logits(2, 3)}};
    EXPECT_THAT(
        message_of<DataError>([&] {
          task->loss(outputs, batch_of({0, label}));
        }),
        AllOf(HasSubstr("example 1"), HasSubstr(std::to_string(label)), HasSubstr("3 classes")));
    EXPECT_THROW(task->meter()->add(outputs, batch_of({0, label})), DataError);
  }
}

TEST(ImageClassification, RefusesShapesThatDoNotFit) {
  const auto task = make_task(kId, info_of(3));
  EXPECT_THROW(task->loss({{"logits", some_logits(2, 4)}}, batch_of({0, 1})), ShapeError);
  EXPECT_THROW(task->loss({{"logits", some_logits(3, 3)}}, batch_of({0, 1})), ShapeError);
  EXPECT_THROW(task->loss({{"logits", at::zeros({2})}}, batch_of({0, 1})), ShapeError);
  EXPECT_THAT(message_of<ShapeError>([&] {
                task->loss({{"scores", some_logits(2, 3)}}, batch_of({0, 1}));
              }),
              HasSubstr("logits"));
}

TEST(ImageClassification, RefusesSmoothingThatLeavesNothingAndDataWithoutClasses) {
  EXPECT_THAT(message_of<ConfigError>([] { make_task(kId, info_of(3), "{label_smoothing: 1}"); }),
              HasSubstr("label_smoothing"));
  EXPECT_THROW(make_task(kId, info_of(0)), DataError);
}

/// Gives each image's own value as the logit of class 1.
class Identity final : public Model {
 public:
  NamedTensors forward(const Batch& batch, ForwardPass&) override {
    gradients_on = at::GradMode::is_enabled();
    const Tensor image = batch.fields.at("image");
    return {{"logits", at::stack({at::zeros_like(image), image}, 1)}};
  }
  bool gradients_on = false;
};

TEST(Task, EvaluatesAModelOverAllBatchesWithoutGradients) {
  const auto task = make_task(kId, info_of(2));
  Identity model;
  const DatasetInfo data = info_of(2);
  Evaluation evaluation{model, data, Split::test, RandomStreams(0), {}};
  evaluation.batches = [](Split, const std::function<void(const Batch&)>& use) {
    for (const double value : {-1.0, 2.0, 3.0, 4.0}) {
      Batch batch = batch_of({0});
      batch.fields.set("image", at::tensor({value}, at::kDouble));
      use(batch);
    }
  };
  EXPECT_DOUBLE_EQ(task->evaluate(evaluation).at("accuracy"), 0.25);
  EXPECT_FALSE(model.gradients_on);
}

}  // namespace
}  // namespace attnlab::image_classification_test
