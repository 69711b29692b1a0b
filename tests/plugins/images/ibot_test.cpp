// Steps of iBOT: their loss, gradients and metrics, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "framework/config/compose.h"
#include "plugins/tasks/images/ibot/head.h"
#include "tests/plugins/images/ibot_loops.h"
#include "tests/plugins/images/ibot_parts.h"
#include "tests/support/message_of.h"

namespace attnlab::ibot_test {
namespace {

using attnlab::testing::mentions;
using ibot_loops::cross_entropy;
using ibot_loops::dot;
using ibot_loops::Row;
using ibot_loops::Rows;
using ibot_loops::rows_of;
using ibot_loops::softmax;
using ibot_parts::built;
using ibot_parts::features;
using ibot_parts::first_batch;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

/// Heads by loops over named parameters.
class NaiveHead {
 public:
  explicit NaiveHead(const Task& task) {
    for (const auto& item : task.named_parameters()) {
      parameters_.emplace_back(item.key(), item.value().detach().to(at::kDouble));
    }
  }

  /// Of unit length.
  Row point(Row x) const {
    for (const char* layer : {"first", "second", "third"}) {
      const Rows weight = rows_of(at(std::string("head.") + layer + ".weight"));
      const Row bias = rows_of(at(std::string("head.") + layer + ".bias").unsqueeze(0))[0];
      Row y(weight.size());
      for (std::size_t i = 0; i < y.size(); ++i) {
        y[i] = dot(weight[i], x) + bias[i];
        if (layer != std::string("third")) y[i] *= (1 + std::erf(y[i] / std::sqrt(2.0))) / 2;
      }
      x = y;
    }
    const double length = std::sqrt(dot(x, x));
    for (double& value : x) value /= length;
    return x;
  }

  /// w_k z / temperature, and with vmf the normaliser.
  Row scores(const Row& z, double temperature, bool vmf) const {
    const Rows directions = rows_of(at("last.directions"));
    const Row norms = rows_of(at("last.norms").t())[0];
    Row out(directions.size());
    for (std::size_t k = 0; k < out.size(); ++k) {
      const double length = std::sqrt(dot(directions[k], directions[k]));
      out[k] = dot(directions[k], z) / length * norms[k] / temperature;
      if (!vmf) continue;
      const Tensor kappa = at::full({}, norms[k] / temperature, at::kDouble);
      out[k] += vmf_log_normaliser(kappa, std::int64_t(z.size())).item<double>();
    }
    return out;
  }

 private:
  const Tensor& at(const std::string& name) const {
    for (const auto& [key, value] : parameters_) {
      if (key == name) return value;
    }
    throw Error("no parameter " + name);
  }

  std::vector<std::pair<std::string, Tensor>> parameters_;
};

class WholeStep : public ::testing::TestWithParam<const char*> {};

TEST_P(WholeStep, HasTheLossOfLoops) {
  const bool vmf = std::string(GetParam()) == "vmf";
  BuiltRun run = built({std::string("task.last_layer=") + GetParam(), "task.patch_weight=0.5",
                        "task.temperature=[0.05,0.07]", "task.patch_temperature=[0.06,0.09]"});
  for (Trainable* part :
       {static_cast<Trainable*>(run.model.get()), static_cast<Trainable*>(run.task.get()),
        static_cast<Trainable*>(run.average_model.get()),
        static_cast<Trainable*>(run.average_task.get())}) {
    part->to(at::kDouble);
  }
  {  // a student that has left its teacher, and a centre
    const at::NoGradGuard no_gradients;
    at::manual_seed(7);
    for (Tensor& one : run.model->parameters()) one.add_(at::randn_like(one) * 0.05);
    for (Tensor& one : run.task->parameters()) one.add_(at::randn_like(one) * 0.05);
    for (const char* centre : {"centre", "patch_centre"}) {
      Tensor& one = run.task->named_buffers()[centre];
      one.add_(at::randn_like(one) * 0.1);
    }
  }
  Batch batch = first_batch(run, 3);
  NamedTensors fields;
  for (const auto& [name, tensor] : batch.fields) {
    fields.set(name, tensor.is_floating_point() ? tensor.to(at::kDouble) : tensor);
  }
  batch.fields = fields;
  ASSERT_GT(fields.at("masked@global").sum().item<double>(), 0);
  TrainingStep step{.model = *run.model,
                    .batch = batch,
                    .number = 4,
                    .steps = 8,
                    .steps_per_epoch = 4,
                    .average_model = run.average_model.get(),
                    .average_task = run.average_task.get()};
  const double found = run.task->step(step).item<double>();

  const NaiveHead student(*run.task), teacher(*run.average_task);
  const Tensor& masked = fields.at("masked@global");
  const LayerFeatures taught = features(*run.average_model, fields.at("crop@global"), nullptr);
  const LayerFeatures seen = features(*run.model, fields.at("crop@global"), &masked);
  const LayerFeatures local = features(*run.model, fields.at("crop@local"), nullptr);
  const Row centre = rows_of(run.task->named_buffers()["centre"].unsqueeze(0))[0];
  const Row patch_centre = rows_of(run.task->named_buffers()["patch_centre"].unsqueeze(0))[0];
  // Epoch 1 of temperature_epochs 1: the last temperatures.
  const auto target = [&](const Row& token, const Row& around, double temperature) {
    Row logits = teacher.scores(teacher.point(token), temperature, vmf);
    for (std::size_t k = 0; k < logits.size(); ++k) {
      logits[k] -= vmf ? around[k] : around[k] / temperature;
    }
    return softmax(logits);
  };
  const Rows teachers = rows_of(taught.class_token), students = rows_of(seen.class_token);
  const Rows locals = rows_of(local.class_token);
  double of_classes = 0, of_patches = 0;
  int pairs = 0;
  for (std::size_t b = 0; b < 3; ++b) {
    for (std::size_t q = 0; q < 2; ++q) {
      const Row p = target(teachers[2 * b + q], centre, 0.07);
      for (std::size_t v = 0; v < 4; ++v) {
        if (v == q) continue;
        const Row& token = v < 2 ? students[2 * b + v] : locals[2 * b + v - 2];
        of_classes += cross_entropy(p, student.scores(student.point(token), 0.1, vmf));
        ++pairs;
      }
    }
  }
  const std::int64_t patches = masked.size(1);
  const Rows teacher_patches = rows_of(taught.tokens), student_patches = rows_of(seen.tokens);
  for (std::int64_t crop = 0; crop < 6; ++crop) {
    double sum = 0, count = 0;
    for (std::int64_t i = 0; i < patches; ++i) {
      if (!masked[crop][i].item<bool>()) continue;
      const auto row = std::size_t(crop * patches + i);
      sum += cross_entropy(target(teacher_patches[row], patch_centre, 0.09),
                           student.scores(student.point(student_patches[row]), 0.1, vmf));
      ++count;
    }
    of_patches += sum / std::max(count, 1.0) / 6;
  }
  EXPECT_NEAR(found, of_classes / pairs + 0.5 * of_patches, 1e-8);

  // Afterwards the centre has gone a tenth of the way to the teacher's tokens.
  const Row before = centre;
  run.task->after_step({});
  const Row after = rows_of(run.task->named_buffers()["centre"].unsqueeze(0))[0];
  Row mean(centre.size(), 0);
  for (const Row& token : teachers) {
    Row scores = teacher.scores(teacher.point(token), vmf ? 0.07 : 1, vmf);
    if (vmf) scores = softmax(scores);
    for (std::size_t k = 0; k < mean.size(); ++k) mean[k] += scores[k] / 6;
  }
  for (std::size_t k = 0; k < mean.size(); ++k) {
    EXPECT_NEAR(after[k], 0.9 * before[k] + 0.1 * (vmf ? std::log(mean[k]) : mean[k]), 1e-9);
  }
  EXPECT_EQ(run.task->named_buffers()["seen"].abs().max().item<double>(), 0)
      << "of that step alone";
}

INSTANTIATE_TEST_SUITE_P(Ibot, WholeStep, ::testing::Values("free", "vmf"),
                         [](const auto& kind) { return std::string(kind.param); });

TEST(Ibot, OnlyTheStudentGetsGradients) {
  BuiltRun run = built();
  backward(run, first_batch(run, 8), {.number = 0});
  for (const torch::nn::Module* teacher :
       {static_cast<const torch::nn::Module*>(run.average_model.get()),
        static_cast<const torch::nn::Module*>(run.average_task.get())}) {
    for (const auto& item : teacher->named_parameters()) {
      EXPECT_FALSE(item.value().requires_grad()) << item.key();
      EXPECT_FALSE(item.value().grad().defined()) << item.key();
    }
  }
  for (const auto& item : run.model->named_parameters()) {
    const bool head = item.key().rfind("head.", 0) == 0;  // of classes, which nothing asks
    EXPECT_EQ(item.value().grad().defined(), !head) << item.key();
  }
  for (const auto& item : run.task->named_parameters()) {
    EXPECT_TRUE(item.value().grad().defined()) << item.key();
  }
  for (const OptimizedParameter& one : trained_parameters(run)) {
    for (const torch::nn::Module* teacher :
         {static_cast<const torch::nn::Module*>(run.average_model.get()),
          static_cast<const torch::nn::Module*>(run.average_task.get())}) {
      for (const Tensor& other : teacher->parameters()) {
        EXPECT_FALSE(one.parameter.is_same(other)) << one.name;
      }
    }
  }
}

TEST(Ibot, IsDinoWithoutPatches) {
  BuiltRun run = built({"task.patch_weight=0", "dataset.multi_crop.patch_size=0",
                        "model.mask_token=false", "task.last_layer=unit"});
  EXPECT_FALSE(run.task->named_buffers().contains("patch_centre"));
  EXPECT_FALSE(run.task->named_parameters().contains("last.norms"));
  const Batch batch = first_batch(run, 4);
  EXPECT_EQ(batch.fields.find("masked@global"), nullptr);
  std::vector<std::string> recorded;
  TrainingStep step{
      .model = *run.model,
      .batch = batch,
      .steps = 8,
      .steps_per_epoch = 4,
      .average_model = run.average_model.get(),
      .average_task = run.average_task.get(),
      .record = [&](std::string_view part, const Tensor&) { recorded.emplace_back(part); }};
  EXPECT_TRUE(run.task->step(step).requires_grad());
  EXPECT_THAT(recorded, ::testing::UnorderedElementsAre("class", "teacher_entropy"));
}

TEST(Ibot, PatchesMayHaveAHeadOfTheirOwn) {
  BuiltRun run = built({"task.shared_head=false", "task.patch_prototypes=9"});
  EXPECT_EQ(run.task->named_parameters()["patch_last.directions"].size(0), 9);
  EXPECT_EQ(run.task->named_buffers()["patch_centre"].size(0), 9);
  backward(run, first_batch(run, 8), {.number = 0});
  EXPECT_GT(run.task->named_parameters()["patch_last.directions"].grad().abs().max().item<float>(),
            0);
}

TEST(Ibot, TemperatureRisesByEpochs) {
  // With a student that is its teacher the targets' entropy says how warm the teacher is.
  BuiltRun run = built({"task.temperature=[0.04,0.2]", "task.temperature_epochs=3",
                        "train.epochs=4", "task.last_layer=unit"});
  const Batch batch = first_batch(run, 8);
  const auto entropy = [&](std::int64_t number) {
    double out = 0;
    TrainingStep step{.model = *run.model,
                      .batch = batch,
                      .number = number,
                      .steps = 16,
                      .steps_per_epoch = 4,
                      .average_model = run.average_model.get(),
                      .average_task = run.average_task.get(),
                      .record = [&](std::string_view part, const Tensor& value) {
                        if (part == "teacher_entropy") out = value.item<double>();
                      }};
    run.task->step(step);
    return out;
  };
  const auto expected = [&](double temperature) {
    const NaiveHead unused(*run.average_task);
    const LayerFeatures taught =
        features(*run.average_model, batch.fields.at("crop@global"), nullptr);
    const Rows directions =
        rows_of(run.average_task->named_parameters()["last.directions"].detach());
    double sum = 0;
    const Rows tokens = rows_of(taught.class_token);
    for (const Row& token : tokens) {
      const Row z = unused.point(token);
      Row logits(directions.size());
      for (std::size_t k = 0; k < logits.size(); ++k) {
        logits[k] =
            dot(directions[k], z) / std::sqrt(dot(directions[k], directions[k])) / temperature;
      }
      for (const double share : softmax(logits)) sum -= share * std::log(share);
    }
    return sum / double(tokens.size());
  };
  EXPECT_NEAR(entropy(0), expected(0.04), 1e-4);
  EXPECT_NEAR(entropy(3), expected(0.04), 1e-4);
  EXPECT_NEAR(entropy(4), expected(0.12), 1e-4);
  EXPECT_NEAR(entropy(8), expected(0.2), 1e-4);
  EXPECT_NEAR(entropy(15), expected(0.2), 1e-4);
}

TEST(Ibot, MetricsTellThatEveryPictureIsTheSame) {
  BuiltRun run = built();
  const auto measured = [&] {
    run.model->eval();
    run.task->eval();
    Evaluation evaluation{*run.model, run.dataset->info(), Split::test, run.streams, {}};
    evaluation.batches = [&](Split, const std::function<void(const Batch&)>& use) {
      for (std::int64_t i = 0; i < 8; i += 4) {
        std::vector<NamedTensors> examples;
        for (std::int64_t j = i; j < i + 4; ++j) {
          examples.push_back(run.dataset->example(Split::test, j, nullptr));
        }
        use(run.dataset->collate(examples));
      }
    };
    return run.task->evaluate(evaluation);
  };
  const Metrics healthy = measured();
  EXPECT_GT(healthy.at("feature_std"), 1e-3);
  EXPECT_EQ(measured(), healthy) << "an evaluation draws nothing anew";
  {
    const at::NoGradGuard no_gradients;
    auto parameters = run.model->named_parameters();
    parameters["norm.weight"].zero_();  // the last norm then gives its bias whatever it sees
    parameters["norm.bias"].normal_();
  }
  const Metrics collapsed = measured();
  EXPECT_LT(collapsed.at("feature_std"), 1e-5);
  EXPECT_NEAR(collapsed.at("prototypes_used"), 1.0 / 12, 1e-9);
  EXPECT_NEAR(collapsed.at("mean_entropy"), collapsed.at("entropy"), 1e-5);
}

std::string refusal(const std::vector<std::string>& more) {
  return message_of<Error>([&] { built(more); });
}

TEST(Ibot, RefusesBeforeTrainingWhatCannotBe) {
  EXPECT_THAT(
      refusal({"task.temperature_epochs=3"}),
      mentions("temperature_epochs:", "3", "run's 2", "task.temperature_epochs=3", "at most 2"));
  EXPECT_THAT(refusal({"train.average={decay: 0, end: -1}", "evaluate=null"}),
              AllOf(HasSubstr("there is no teacher"), HasSubstr("set train.average")));
  EXPECT_THAT(refusal({"dataset.multi_crop.local_size=20"}),
              mentions("local_size:", "20", "16 x 16", "dataset.multi_crop.local_size=20"));
  EXPECT_THAT(refusal({"dataset.multi_crop.mask_ratio=[0, 1.5]"}),
              AllOf(HasSubstr("mask_ratio"), HasSubstr("1.5 is out of range")));
  EXPECT_THAT(refusal({"dataset.multi_crop.mask_ratio=[0, 0.9]"}),
              HasSubstr("mask_ratio: 0.9 may become 0.7 to 1.1"));
  EXPECT_THAT(refusal({"dataset.multi_crop.global_crops=0", "task.patch_weight=0"}),
              HasSubstr("'crop@global'"));
  EXPECT_THAT(refusal({"model.mask_token=false"}),
              AllOf(HasSubstr("mask_token"), HasSubstr("set it to true")));
  EXPECT_THAT(refusal({"model.patch_size=8", "dataset.multi_crop.patch_size=4"}),
              AllOf(HasSubstr("patch_size: 8 makes 4 patches"), HasSubstr("hides some of 16")));
  EXPECT_THAT(refusal({"dataset.multi_crop.local_size=6"}),
              mentions("not divide local crops", "6 pixels"));
  EXPECT_THAT(refusal({"dataset.multi_crop.patch_size=0"}),
              AllOf(HasSubstr("patch_weight: 1"), HasSubstr("hides no patches")));
  EXPECT_THAT(refusal({"task.class_weight=0", "task.patch_weight=0"}),
              HasSubstr("nothing would be learned"));
  EXPECT_THAT(refusal({"task.temperature=[0.04]"}), HasSubstr("temperature: needs two numbers"));
  EXPECT_THAT(refusal({"model.pool=mean"}), HasSubstr("set model.pool to class_token"));
  BuiltRun dino = built({"model.pool=mean", "model.mask_token=false", "task.patch_weight=0",
                         "dataset.multi_crop.patch_size=0"});
  EXPECT_THAT(message_of<ConfigError>([&] { backward(dino, first_batch(dino, 4), {.number = 0}); }),
              HasSubstr("set model.pool to class_token"));
}

TEST(Ibot, ChangesNoHashOfRunsWithoutCrops) {
  Experiment experiment = resolve_experiment(
      parse_yaml("schema: 1\nmodel: vit\nattention: standard\ntask: image_classification\n"
                 "dataset: synthetic_images\n",
                 "made.yaml"),
      testing::registry().catalogue(), "made");
  const std::string hash = experiment.hash();
  experiment.resolved.find("dataset")->erase("multi_crop");
  experiment.resolved.find("model")->erase("mask_token");
  EXPECT_EQ(experiment.hash(), hash);
  experiment.resolved.find("model")->set("mask_token", Node::scalar("true"));
  EXPECT_NE(experiment.hash(), hash);
}

}  // namespace
}  // namespace attnlab::ibot_test
