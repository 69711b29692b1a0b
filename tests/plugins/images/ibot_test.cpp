// Self-supervised training: losses, heads, the teacher, what a run keeps, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "framework/config/compose.h"
#include "framework/train/step.h"
#include "plugins/tasks/images/ibot/head.h"
#include "plugins/tasks/images/ibot/loss.h"
#include "tests/support/naive_attention.h"
#include "tests/support/plugins.h"
#include "tests/support/thread_world.h"
#include "tests/support/tiny_run.h"

namespace attnlab::ibot_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::largest_difference;
using testing::message_of;

using Row = std::vector<double>;
using Rows = std::vector<Row>;

// --- loops, without the code that they check ---

Rows rows_of(const Tensor& tensor) {
  const Tensor flat = tensor.detach().to(at::kDouble).reshape({-1, tensor.size(-1)}).contiguous();
  Rows rows;
  for (std::int64_t i = 0; i < flat.size(0); ++i) {
    const double* row = flat.data_ptr<double>() + i * flat.size(1);
    rows.emplace_back(row, row + flat.size(1));
  }
  return rows;
}

double dot(const Row& a, const Row& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Row softmax(Row x) {
  double sum = 0;
  for (double& value : x) sum += value = std::exp(value);
  for (double& value : x) value /= sum;
  return x;
}

double cross_entropy(const Row& target, const Row& logits) {
  const Row shares = softmax(logits);
  double sum = 0;
  for (std::size_t k = 0; k < target.size(); ++k) sum -= target[k] * std::log(shares[k]);
  return sum;
}

/// log C_p(k) by the power series of the Bessel function.
double log_normaliser(double kappa, std::int64_t dimensions) {
  const double order = double(dimensions) / 2 - 1;
  double most = -1e300;
  std::vector<double> terms;
  for (int m = 0; m < 2000; ++m) {
    terms.push_back((2 * m + order) * std::log(kappa / 2) - std::lgamma(m + 1) -
                    std::lgamma(m + order + 1));
    most = std::max(most, terms.back());
  }
  double sum = 0;
  for (const double term : terms) sum += std::exp(term - most);
  return order * std::log(kappa) - double(dimensions) / 2 * std::log(2 * std::numbers::pi) -
         (most + std::log(sum));
}

// --- heads ---

TEST(VonMisesFisher, NormaliserIsThatOfThePowerSeries) {
  for (const std::int64_t p : {16, 64, 256}) {
    const double order = double(p) / 2 - 1;
    const auto found = [&](double kappa) {
      return vmf_log_normaliser(at::full({}, kappa, at::kDouble), p).item<double>();
    };
    for (const double kappa : {0.5, 4.0, 25.0, 60.0, 200.0}) {
      EXPECT_NEAR(found(kappa) - found(10), log_normaliser(kappa, p) - log_normaliser(10, p),
                  1 / (8 * order))  // the next term is (3 t - 5 t^3) / (24 order), 0 < t < 1
          << p << " " << kappa;
    }
  }
  // It has a slope everywhere, at 0 too.
  const Tensor zero = at::zeros({1}, at::kDouble).requires_grad_(true);
  vmf_log_normaliser(zero, 16).sum().backward();
  EXPECT_EQ(zero.grad().item<double>(), 0);
}

class EveryKind : public ::testing::TestWithParam<const char*> {
 protected:
  EveryKind() {
    at::manual_seed(3);
    prototypes = std::make_shared<Prototypes>(6, 5, kind());
    prototypes->to(at::kDouble);
    const at::NoGradGuard no_gradients;
    for (auto& item : prototypes->named_parameters()) {
      if (item.key() == "norms") item.value().uniform_(0.5, 2);
    }
    z = at::randn({7, 6}, at::kDouble);
    z = z / z.norm(2, 1, true);
    centre = at::randn({5}, at::kDouble) * 0.1;
  }

  Prototypes::Kind kind() const {
    const std::string name = GetParam();
    return name == "unit"   ? Prototypes::Kind::unit
           : name == "free" ? Prototypes::Kind::free
                            : Prototypes::Kind::vmf;
  }
  bool vmf() const { return kind() == Prototypes::Kind::vmf; }

  /// w_k z of each row, and |w_k|.
  Rows products() const {
    const auto parameters = prototypes->named_parameters();
    const Rows directions = rows_of(parameters["directions"]), tokens = rows_of(z);
    Rows all(tokens.size(), Row(5));
    for (std::size_t k = 0; k < 5; ++k) {
      const double length = std::sqrt(dot(directions[k], directions[k]));
      for (std::size_t r = 0; r < tokens.size(); ++r) {
        all[r][k] = dot(directions[k], tokens[r]) / length * norms()[k];
      }
    }
    return all;
  }
  Row norms() const {
    const auto parameters = prototypes->named_parameters();
    if (!parameters.contains("norms")) return Row(5, 1);
    const Tensor values = parameters["norms"].detach().reshape({1, 5});
    return rows_of(values)[0];
  }
  /// Without what is equal for all prototypes, exactly as `vmf_log_normaliser` says it.
  Row corrections(double temperature) const {
    Row out(5, 0);
    if (!vmf()) return out;
    const Row lengths = norms();
    for (std::size_t k = 0; k < 5; ++k) {
      out[k] =
          vmf_log_normaliser(at::full({}, lengths[k] / temperature, at::kDouble), 6).item<double>();
    }
    return out;
  }

  std::shared_ptr<Prototypes> prototypes;
  Tensor z, centre;
};

TEST_P(EveryKind, ScoresTokensAsLoopsDo) {
  const Rows scores = products();
  const Row around = rows_of(centre.unsqueeze(0))[0];
  const Rows student = rows_of(prototypes->student(z, 0.1));
  const Rows teacher = rows_of(prototypes->teacher(z, 0.05, centre));
  const Row of_student = corrections(0.1), of_teacher = corrections(0.05);
  for (std::size_t r = 0; r < scores.size(); ++r) {
    Row logits(5);
    for (std::size_t k = 0; k < 5; ++k) {
      EXPECT_NEAR(student[r][k], scores[r][k] / 0.1 + of_student[k], 1e-9);
      logits[k] = vmf() ? scores[r][k] / 0.05 + of_teacher[k] - around[k]
                        : (scores[r][k] - around[k]) / 0.05;
    }
    const Row expected = softmax(logits);
    for (std::size_t k = 0; k < 5; ++k) EXPECT_NEAR(teacher[r][k], expected[k], 1e-9);
  }
}

TEST_P(EveryKind, CentreIsOfAllTokensHoweverTheyAreDivided) {
  const Rows scores = products();
  const Row of_teacher = corrections(0.05);
  Row expected(5, 0);
  for (const Row& row : scores) {
    Row logits(5);
    for (std::size_t k = 0; k < 5; ++k) logits[k] = row[k] / 0.05 + of_teacher[k];
    const Row shares = softmax(logits);
    for (std::size_t k = 0; k < 5; ++k) expected[k] += (vmf() ? shares[k] : row[k]) / 7;
  }
  if (vmf()) {
    for (double& value : expected) value = std::log(value);
  }
  const Tensor whole = prototypes->centre_of(prototypes->sum_of(z, 0.05), 7);
  const Tensor sum =
      prototypes->sum_of(z.narrow(0, 0, 2), 0.05) + prototypes->sum_of(z.narrow(0, 2, 5), 0.05);
  const Tensor parts = prototypes->centre_of(sum, 7);
  for (std::int64_t k = 0; k < 5; ++k) {
    EXPECT_NEAR(whole[k].item<double>(), expected[std::size_t(k)], 1e-9);
  }
  EXPECT_LT(largest_difference(parts.detach(), whole.detach()), 1e-12);
}

/// Where float32 holds no share of a prototype any more.
TEST(Prototypes, KnowTheCentreOfPrototypesThatNoTokenIsLike) {
  Prototypes prototypes(4, 3, Prototypes::Kind::vmf);
  const at::NoGradGuard no_gradients;
  auto parameters = prototypes.named_parameters();
  parameters["directions"].zero_();
  for (int k = 0; k < 3; ++k) parameters["directions"][k][0] = k == 2 ? -1 : 1;
  parameters["norms"].fill_(3);
  const Tensor z = at::tensor({1.0F, 0.0F, 0.0F, 0.0F}).view({1, 4});
  const Tensor centre = prototypes.centre_of(prototypes.sum_of(z, 0.05), 1);
  EXPECT_NEAR(centre[0].item<double>(), std::log(0.5), 1e-6);
  EXPECT_NEAR(centre[2].item<double>(), std::log(0.5) - 2 * 3 / 0.05, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Prototypes, EveryKind, ::testing::Values("unit", "free", "vmf"),
                         [](const auto& kind) { return std::string(kind.param); });

TEST(ClassTokenLoss, IsTheMeanOverPairsOfDifferentViews) {
  at::manual_seed(1);
  const Tensor target = at::randn({3, 2, 6}, at::kDouble).softmax(-1);
  const Tensor logits = at::randn({3, 5, 6}, at::kDouble) * 3;
  double sum = 0;
  int pairs = 0;
  for (std::int64_t b = 0; b < 3; ++b) {
    for (std::int64_t q = 0; q < 2; ++q) {
      for (std::int64_t v = 0; v < 5; ++v) {
        if (v == q) continue;
        sum += cross_entropy(rows_of(target[b][q])[0], rows_of(logits[b][v])[0]);
        ++pairs;
      }
    }
  }
  EXPECT_NEAR(class_token_loss(target, logits).item<double>(), sum / pairs, 1e-10);
}

TEST(HiddenPatches, WeighEachCropAlike) {
  const Tensor masked = at::zeros({3, 4}, at::kBool);
  masked[0][1] = true;
  masked[2][0] = masked[2][2] = masked[2][3] = true;
  const HiddenPatches hidden = hidden_patches(masked, at::kDouble);
  EXPECT_TRUE(hidden.rows.equal(at::tensor({1, 8, 10, 11}, at::kLong)));
  const Tensor expected = at::tensor({1.0 / 3, 1.0 / 9, 1.0 / 9, 1.0 / 9}, at::kDouble);
  EXPECT_LT(largest_difference(hidden.weights, expected), 1e-12);
  EXPECT_EQ(hidden_patches(at::zeros({3, 4}, at::kBool), at::kDouble).rows.size(0), 0);
}

// --- whole steps ---

constexpr const char* kSmoke = ATTNLAB_TEST_CONFIGS "/experiments/smoke/ibot_synthetic.yaml";

const std::vector<std::string> kSmall = {"train.workers=0",
                                         "train.threads=1",
                                         "train.tensorboard=false",
                                         "dataset.train=32",
                                         "dataset.test=8",
                                         "train.batch_size=8",
                                         "train.log_every=1",
                                         "task.prototypes=12",
                                         "model.drop_path=0",
                                         "train.eval_batch_size=4",
                                         "train.checkpoint_seconds=3600"};

BuiltRun built(std::vector<std::string> more = {}) {
  more.insert(more.begin(), kSmall.begin(), kSmall.end());
  return build_run(load_experiment(kSmoke, more, testing::registry().catalogue()), 1,
                   testing::registry());
}

Batch first_batch(const BuiltRun& run, std::int64_t size) {
  std::vector<NamedTensors> examples;
  for (std::int64_t i = 0; i < size; ++i) {
    Random random(std::uint64_t(i) + 11);
    examples.push_back(run.dataset->example(Split::train, i, &random));
  }
  return run.dataset->collate(examples);
}

/// The model's class tokens and patches, by the contract of features.
LayerFeatures features(Model& model, const Tensor& image, const Tensor* masked) {
  Batch batch;
  batch.size = image.size(0);
  batch.fields.set("image", image);
  if (masked != nullptr) batch.fields.set("masked", *masked);
  FeatureTrace trace;
  trace.layers = {-1};
  ForwardPass pass;
  pass.features = &trace;
  model.forward(batch, pass);
  return trace.found.at(0);
}

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

// --- runs ---

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

// --- the model's part ---

TEST(MaskToken, StandsInThePlaceOfHiddenPatches) {
  BuiltRun run = built();
  run.model->eval();
  const at::NoGradGuard no_gradients;
  auto parameters = run.model->named_parameters();
  EXPECT_EQ(parameters["mask_token"].abs().max().item<float>(), 0);
  parameters["mask_token"].normal_();
  at::manual_seed(2);
  const Tensor image = at::randn({2, 3, 16, 16});
  Tensor masked = at::zeros({2, 16}, at::kBool);
  masked[0][5] = true;
  const auto tokens = [&](const Tensor& of, const Tensor* hidden) {
    return features(*run.model, of, hidden).tokens;
  };
  Tensor other = image.clone();
  other.narrow(2, 4, 4).narrow(3, 4, 4).add_(1);  // patch 5 of both
  const Tensor a = tokens(image, &masked), b = tokens(other, &masked);
  EXPECT_TRUE(a[0].equal(b[0])) << "what is hidden is not seen";
  EXPECT_FALSE(a[1].equal(b[1]));
  const Tensor whole = tokens(image, nullptr);
  EXPECT_FALSE(whole[0].equal(a[0]));
  EXPECT_TRUE(whole[1].equal(a[1]));
  EXPECT_THAT(message_of<ShapeError>([&] {
                const Tensor wrong = at::zeros({2, 15}, at::kBool);
                tokens(image, &wrong);
              }),
              HasSubstr("masked must be [2, 16] bool"));
}

TEST(OtherSizes, ResizePositions) {
  BuiltRun run = built();
  run.model->eval();
  const at::NoGradGuard no_gradients;
  const auto parameters = run.model->named_parameters();
  const Tensor image = at::randn({2, 3, 8, 24});
  const LayerFeatures found = features(*run.model, image, nullptr);
  EXPECT_EQ(found.tokens.sizes(), at::IntArrayRef({2, 12, 32}));
  EXPECT_EQ(found.rows, 2);
  EXPECT_EQ(found.columns, 6);
  // A model whose own size this is, with resized positions, gives the same.
  DatasetInfo data;
  data.name = "wide images";
  data.fields = {{"image", {3, 8, 24}, at::kFloat}};
  data.classes = 10;
  const auto wide =
      testing::make_model("vit", data, "{patch_size: 4, dim: 32, depth: 2, heads: 2}");
  wide->eval();
  for (auto& item : wide->named_parameters()) {
    const Tensor& saved = parameters[item.key()];
    item.value().copy_(wide->adapt(item.key(), saved));
  }
  EXPECT_LT(largest_difference(features(*wide, image, nullptr).tokens, found.tokens), 1e-5);
}

// --- what is refused, with its place ---

std::string refusal(const std::vector<std::string>& more) {
  return message_of<Error>([&] { built(more); });
}

TEST(Ibot, RefusesBeforeTrainingWhatCannotBe) {
  EXPECT_THAT(refusal({"task.temperature_epochs=3"}),
              AllOf(HasSubstr("temperature_epochs: 3 are more than the run's 2"),
                    HasSubstr("task.temperature_epochs=3"), HasSubstr("at most 2")));
  EXPECT_THAT(refusal({"train.average={decay: 0, end: -1}", "evaluate=null"}),
              AllOf(HasSubstr("there is no teacher"), HasSubstr("set train.average")));
  EXPECT_THAT(refusal({"dataset.multi_crop.local_size=20"}),
              AllOf(HasSubstr("local_size: 20 is larger than the images, 16 x 16"),
                    HasSubstr("dataset.multi_crop.local_size=20")));
  EXPECT_THAT(refusal({"dataset.multi_crop.mask_ratio=[0, 1.5]"}),
              AllOf(HasSubstr("mask_ratio"), HasSubstr("1.5 is out of range")));
  EXPECT_THAT(refusal({"dataset.multi_crop.mask_ratio=[0, 0.9]"}),
              HasSubstr("mask_ratio: 0.9 may become 0.7 to 1.1"));
  EXPECT_THAT(refusal({"dataset.multi_crop.global_crops=0", "task.patch_weight=0"}),
              HasSubstr("takes 'crop@global', which the data of"));
  EXPECT_THAT(refusal({"model.mask_token=false"}),
              AllOf(HasSubstr("mask_token"), HasSubstr("set it to true")));
  EXPECT_THAT(refusal({"model.patch_size=8", "dataset.multi_crop.patch_size=4"}),
              AllOf(HasSubstr("patch_size: 8 makes 4 patches"), HasSubstr("hides some of 16")));
  EXPECT_THAT(refusal({"dataset.multi_crop.local_size=6"}),
              HasSubstr("does not divide local crops of 6 pixels"));
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
