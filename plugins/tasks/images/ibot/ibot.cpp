// iBOT: a student learns to say of a picture what its own running mean, the teacher, says of it.
//
//   loss = class_weight L_class + patch_weight L_patch                          (loss.h)
//
// The teacher sees the global crops whole; the student sees them with hidden patches, and local
// crops. L_class compares class tokens of different crops (DINO), L_patch what both say of a hidden
// patch of the same crop (masked image modelling). DINO is patch_weight: 0 without masks.
//
// The teacher is the running mean of model and task that `train.average` keeps: it gets no
// gradient, is not part of the optimiser, is in the checkpoint, and evaluations ask it with
// `weights: average`. Heads and prototypes (head.h) are this task's parameters; those of its last
// layer are called task.last.* and task.patch_last.*, so that `train.optimizer.groups` can freeze
// them for the first epoch.
//
//   teacher's temperature in epoch e: from temperature[0] to temperature[1] along a line over
//   `temperature_epochs` epochs, then temperature[1]
//   c <- m c + (1 - m) (centre of the step's tokens, of all processes), m = centre_momentum
//
// Metrics, of whatever weights are asked, on the global crops of a split without masks, in nats:
// loss (L_class of the global crops, this model being the teacher, too), kl (of it, without the
// teacher's entropy), entropy (mean of a crop's), mean_entropy (of the mean over crops),
// prototypes_used (share that some crop is most like), feature_std (of the class token's unit
// features, mean over channels, times the root of their number: 1 when spread evenly).
// A collapsed model shows in them: kl near 0 with entropy near log K (all crops alike everywhere)
// or near 0 with mean_entropy near 0 (one prototype); feature_std near 0.
//
// Source: Zhou et al., iBOT, ICLR 2022, arXiv:2111.07832; Caron et al., DINO, ICCV 2021; their
// public code, whose defaults for ViT-S these are. There heads may be shared by the teacher alone;
// here by both or none.
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/base/text.h"
#include "framework/eval/features.h"
#include "framework/nn/kernels/unit.h"
#include "framework/plugin.h"
#include "plugins/tasks/images/ibot/head.h"
#include "plugins/tasks/images/ibot/loss.h"

namespace attnlab {
namespace {

constexpr const char* kNoClassToken =
    "ibot: the model has no class token; set model.pool to class_token";

struct IbotOptions {
  std::int64_t prototypes = 8192, patch_prototypes = 8192;
  bool shared_head = true;
  std::string last_layer = "free";
  std::int64_t hidden = 2048, bottleneck = 256;
  double student_temperature = 0.1;
  std::vector<double> temperature = {0.04, 0.07};
  std::vector<double> patch_temperature = {0.04, 0.07};
  std::int64_t temperature_epochs = 30;
  double centre_momentum = 0.9, patch_centre_momentum = 0.9;
  double class_weight = 1, patch_weight = 1;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("prototypes", prototypes, range(2, 1 << 24),
      "prototypes that class tokens are compared with");
    v("patch_prototypes", patch_prototypes, range(2, 1 << 24),
      "prototypes that patches are compared with; not used with shared_head");
    v("shared_head", shared_head, "class tokens and patches have the same prototypes");
    v("last_layer", last_layer, one_of("free", "unit", "vmf"),
      "prototypes of learned norm, of norm 1, or von Mises-Fisher distributions");
    v("hidden", hidden, range(1, 1 << 24), "channels of the head's two hidden layers");
    v("bottleneck", bottleneck, range(4, 1 << 24), "dimensions in which prototypes lie");
    v("student_temperature", student_temperature, range(1e-6, 1e6),
      "temperature of the student's logits");
    v("temperature", temperature, range(1e-6, 1e6),
      "temperature of the teacher's logits: first and last");
    v("patch_temperature", patch_temperature, range(1e-6, 1e6), "the same for patches");
    v("temperature_epochs", temperature_epochs, at_least(0),
      "epochs in which the teacher's temperatures go from first to last");
    v("centre_momentum", centre_momentum, range(0, 1),
      "share of the teacher's centre that a step keeps");
    v("patch_centre_momentum", patch_centre_momentum, range(0, 1), "the same for patches");
    v("class_weight", class_weight, at_least(0), "weight of the class tokens' loss; 0: none");
    v("patch_weight", patch_weight, at_least(0), "weight of the masked patches' loss; 0: none");
  }
};

Prototypes::Kind kind_of(const std::string& name) {
  if (name == "unit") return Prototypes::Kind::unit;
  return name == "vmf" ? Prototypes::Kind::vmf : Prototypes::Kind::free;
}

const FieldInfo* find_field(const std::vector<FieldInfo>& fields, const char* name) {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const FieldInfo& one) { return one.name == name; });
  return found == fields.end() ? nullptr : &*found;
}

/// Channels of the model's tokens.
std::int64_t width_of(const TaskSetup& setup) {
  const FieldInfo* const tokens = find_field(setup.outputs, "tokens");
  if (tokens != nullptr && !tokens->shape.empty() && tokens->shape.back() > 0) {
    return tokens->shape.back();
  }
  throw ShapeError(
      "ibot: the model does not say in outputs() how many channels its tokens have; take one that "
      "does, as vit");
}

/// As far as it is known before a step.
void check_class_token(const TaskSetup& setup) {
  const FieldInfo* const tokens = find_field(setup.outputs, "tokens");
  const FieldInfo* const masked = find_field(setup.data.fields, "masked@global");
  if (tokens == nullptr || tokens->shape.size() != 2 || masked == nullptr) return;
  if (tokens->shape[0] == masked->shape.back()) throw ConfigError(kNoClassToken);
}

void check(const IbotOptions& o, const TaskSetup& setup) {
  if (o.class_weight == 0 && o.patch_weight == 0) {
    throw OptionError("class_weight", "is 0 and so is patch_weight: nothing would be learned");
  }
  for (const auto& [name, pair] : {std::pair{"temperature", &o.temperature},
                                   std::pair{"patch_temperature", &o.patch_temperature}}) {
    if (pair->size() != 2) throw OptionError(name, "needs two numbers: the first and the last");
  }
  if (o.patch_weight > 0 && find_field(setup.data.fields, "masked@global") == nullptr) {
    throw OptionError("patch_weight",
                      fmt::format("{}: dataset '{}' hides no patches; set "
                                  "dataset.multi_crop.patch_size to the model's, or this to 0",
                                  shortest(o.patch_weight), setup.data.name));
  }
  check_class_token(setup);
  if (setup.steps == 0) return;  // nothing is trained
  const std::int64_t epochs = (setup.steps + setup.steps_per_epoch - 1) / setup.steps_per_epoch;
  if (o.temperature_epochs > epochs) {
    throw OptionError("temperature_epochs",
                      fmt::format("{} are more than the run's {}: the teacher would not reach its "
                                  "last temperature; train longer, or set it to at most {}",
                                  o.temperature_epochs, epochs, epochs));
  }
  if (!setup.average) {
    throw ConfigError("there is no teacher; set train.average, as {decay: 0.996, end: 1}");
  }
}

/// The last layer of some images.
/// @param images  [R, C, H, W]   @param masked  [R, N]; null: nothing is hidden
LayerFeatures views_of(Model& model, const Tensor& images, const Tensor* masked) {
  Batch batch;
  batch.size = images.size(0);
  batch.fields.set("image", images);
  if (masked != nullptr) batch.fields.set("masked", *masked);
  static const FeatureReader kLast({"pooled"});
  LayerFeatures views = kLast.layers(model, batch).at(0);
  if (!views.class_token.defined()) throw ConfigError(kNoClassToken);
  return views;
}

class Ibot final : public Task {
 public:
  Ibot(const IbotOptions& options, const TaskSetup& setup) : options_(options) {
    const IbotOptions& o = options_;
    check(o, setup);
    const Prototypes::Kind kind = kind_of(o.last_layer);
    head_ = register_module(
        "head", std::make_shared<ProjectionHead>(width_of(setup), o.hidden, o.bottleneck));
    last_ = register_module("last", std::make_shared<Prototypes>(o.bottleneck, o.prototypes, kind));
    centre_ = register_buffer("centre", at::zeros({o.prototypes}));
    seen_ = register_buffer("seen", at::zeros({o.prototypes + 1}, at::kDouble));
    if (o.patch_weight == 0) return;
    patch_last_ = last_;
    if (!o.shared_head) {
      patch_last_ = register_module(
          "patch_last", std::make_shared<Prototypes>(o.bottleneck, o.patch_prototypes, kind));
    }
    const std::int64_t count = patch_last_->count();
    patch_centre_ = register_buffer("patch_centre", at::zeros({count}));
    patches_seen_ = register_buffer("patches_seen", at::zeros({count + 1}, at::kDouble));
  }

  Tensor step(TrainingStep& step) override;
  void after_step(const StepFacts& facts) override;
  std::vector<MetricInfo> metrics() const override;
  Metrics evaluate(Evaluation& evaluation) const override;

 private:
  struct Teacher {
    Tensor classes;  ///< [B, G, K]
    Tensor patches;  ///< [M, K] of hidden patches
  };

  double temperature(const std::vector<double>& between, const TrainingStep& step) const;
  Teacher taught(TrainingStep& step, const HiddenPatches* hidden);
  static void gather(Tensor& seen, const Prototypes& of, const Tensor& z, double temperature);
  static void follow(Tensor& centre, const Prototypes& of, double momentum, Tensor& seen);

  IbotOptions options_;
  std::shared_ptr<ProjectionHead> head_;
  std::shared_ptr<Prototypes> last_, patch_last_;  // of patches: null without their loss
  Tensor centre_, patch_centre_;                   ///< [K]
  /// [K + 1], of the present step: `Prototypes::sum_of` its tokens, and how many there were. Both
  /// as buffers, which the host gives the mean over all parts of a step: the centre is their ratio.
  Tensor seen_, patches_seen_;
};

double Ibot::temperature(const std::vector<double>& between, const TrainingStep& step) const {
  const std::int64_t epoch = step.number / std::max<std::int64_t>(step.steps_per_epoch, 1);
  const std::int64_t last = options_.temperature_epochs - 1;
  if (epoch > last) return between[1];
  const double done = last > 0 ? static_cast<double>(epoch) / static_cast<double>(last) : 0;
  return between[0] + (between[1] - between[0]) * done;
}

void Ibot::gather(Tensor& seen, const Prototypes& of, const Tensor& z, double temperature) {
  seen.narrow(0, 0, of.count()).add_(of.sum_of(z, temperature));
  seen.narrow(0, of.count(), 1).add_(static_cast<double>(z.size(0)));
}

void Ibot::follow(Tensor& centre, const Prototypes& of, double momentum, Tensor& seen) {
  const double tokens = seen[of.count()].item<double>();
  if (tokens > 0) {
    const Tensor own = of.centre_of(seen.narrow(0, 0, of.count()), tokens);
    centre.mul_(momentum).add_(own, 1 - momentum);
  }
  seen.zero_();
}

void Ibot::after_step(const StepFacts&) {
  follow(centre_, *last_, options_.centre_momentum, seen_);
  if (patch_last_ == nullptr) return;
  follow(patch_centre_, *patch_last_, options_.patch_centre_momentum, patches_seen_);
}

/// @param hidden  null: without the loss of patches
Ibot::Teacher Ibot::taught(TrainingStep& step, const HiddenPatches* hidden) {
  const auto* const teacher = dynamic_cast<const Ibot*>(step.average_task);
  if (teacher == nullptr || step.average_model == nullptr) {
    throw ConfigError("train.average: there is no teacher; set it, as {decay: 0.996, end: 1}");
  }
  const c10::NoGradGuard no_gradients;
  const LayerFeatures views =
      views_of(*step.average_model, step.batch.fields.at("crop@global"), /*masked=*/nullptr);
  Teacher out;
  const double warmth = temperature(options_.temperature, step);
  const Tensor z = teacher->head_->forward(views.class_token);
  out.classes = teacher->last_->teacher(z, warmth, centre_)
                    .view({step.batch.size, -1, teacher->last_->count()});
  gather(seen_, *teacher->last_, z, warmth);
  if (hidden == nullptr) return out;
  const Prototypes& last = *teacher->patch_last_;
  const double patch_warmth = temperature(options_.patch_temperature, step);
  const Tensor of_patches =
      teacher->head_->forward(views.tokens.reshape({-1, views.tokens.size(2)}));
  out.patches = last.teacher(of_patches.index_select(0, hidden->rows), patch_warmth, patch_centre_);
  gather(patches_seen_, last, of_patches, patch_warmth);
  return out;
}

Tensor Ibot::step(TrainingStep& step) {
  const IbotOptions& o = options_;
  const NamedTensors& fields = step.batch.fields;
  const Tensor& global = fields.at("crop@global");
  const Tensor* const masked = fields.find("masked@global");
  HiddenPatches hidden;
  if (patch_last_ != nullptr) hidden = hidden_patches(*masked, global.options());
  const Teacher target = taught(step, patch_last_ != nullptr ? &hidden : nullptr);

  const LayerFeatures views = views_of(step.model, global, masked);
  const std::int64_t width = views.class_token.size(1);
  Tensor tokens = views.class_token.view({step.batch.size, -1, width});
  if (const Tensor* const local = fields.find("crop@local")) {
    const Tensor others = views_of(step.model, *local, /*masked=*/nullptr).class_token;
    tokens = at::cat({tokens, others.view({step.batch.size, -1, width})}, 1);
  }
  const Tensor logits =
      last_->student(head_->forward(tokens.reshape({-1, width})), o.student_temperature)
          .view({step.batch.size, -1, last_->count()});
  const Tensor of_classes = class_token_loss(target.classes, logits);
  Tensor loss = of_classes * o.class_weight;
  if (patch_last_ != nullptr) {
    Tensor of_patches = views.tokens.sum() * 0;  // where nothing is hidden
    if (hidden.rows.size(0) > 0) {
      const Tensor z =
          head_->forward(views.tokens.reshape({-1, width}).index_select(0, hidden.rows));
      of_patches =
          (soft_cross_entropies(target.patches, patch_last_->student(z, o.student_temperature)) *
           hidden.weights)
              .sum();
    }
    loss = loss + of_patches * o.patch_weight;
    if (step.record) step.record("patch", of_patches);
  }
  if (step.record) {
    step.record("class", of_classes);
    step.record("teacher_entropy", -at::xlogy(target.classes, target.classes).sum(-1).mean());
  }
  return loss;
}

std::vector<MetricInfo> Ibot::metrics() const {
  return {{"loss", Better::lower, "nats"},
          {"kl", Better::lower, "nats"},
          {"entropy", Better::neither, "nats"},
          {"mean_entropy", Better::neither, "nats"},
          {"prototypes_used", Better::higher, "share"},
          {"feature_std", Better::higher}};
}

Metrics Ibot::evaluate(Evaluation& evaluation) const {
  const c10::NoGradGuard no_gradients;
  double loss = 0, entropy = 0, examples = 0, crops = 0;
  Tensor used = at::zeros({last_->count()}, centre_.options().dtype(at::kBool));
  Tensor shares, sum, squares;  // over crops
  const auto add = [](Tensor& to, const Tensor& rows) {
    const Tensor more = rows.to(at::kDouble).sum(0);
    to = to.defined() ? to + more : more;
  };
  evaluation.batches(evaluation.split, [&](const Batch& batch) {
    const LayerFeatures views =
        views_of(evaluation.model, batch.fields.at("crop@global"), /*masked=*/nullptr);
    const Tensor z = head_->forward(views.class_token);
    const Tensor target = last_->teacher(z, options_.temperature[1], centre_);
    const Tensor logits = last_->student(z, options_.student_temperature);
    const auto of_examples = [&](const Tensor& rows) {
      return rows.view({batch.size, -1, last_->count()});
    };
    loss += class_token_loss(of_examples(target), of_examples(logits)).item<double>() *
            static_cast<double>(batch.size);
    entropy -= at::xlogy(target, target).sum().item<double>();
    examples += static_cast<double>(batch.size);
    crops += static_cast<double>(z.size(0));
    used.index_fill_(0, target.argmax(1), true);
    const Tensor of_unit = unit(views.class_token.to(at::kDouble), 1e-12);
    add(shares, target);
    add(sum, of_unit);
    add(squares, of_unit.square());
  });
  if (examples == 0) throw Error("ibot: there is nothing to evaluate");
  const Tensor share = shares / crops;
  const Tensor variance = (squares / crops - (sum / crops).square()).clamp_min(0);
  const double channels = static_cast<double>(variance.size(0));
  loss /= examples;
  entropy /= crops;
  return {{"loss", loss},
          {"kl", loss - entropy},
          {"entropy", entropy},
          {"mean_entropy", -at::xlogy(share, share).sum().item<double>()},
          {"prototypes_used", used.to(at::kDouble).mean().item<double>()},
          {"feature_std", variance.sqrt().mean().item<double>() * std::sqrt(channels)}};
}

}  // namespace

ATTNLAB_PLUGIN(task, Ibot, IbotOptions,
               {.id = "attnlab/ibot",
                .version = "1.0.0",
                .summary = "self-supervised: iBOT, DINO, masked image modelling, with a teacher",
                .citation = "Zhou et al., ICLR 2022, arXiv:2111.07832; Caron et al., ICCV 2021, "
                            "arXiv:2104.14294; Govindarajan et al., ICLR 2023, arXiv:2405.10939",
                .licence = "Apache-2.0",
                .takes = {"layer_features", "tokens", "crop@global", "crop@local?",
                          "masked@global?"}})

}  // namespace attnlab
