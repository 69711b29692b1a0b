// Image classification: one class per image, or, in training, a mixture of two.
//
//   loss = cross_entropy: - mean sum_k y_k log softmax(z)_k
//          binary:        - mean over examples and classes of b_k log s(z_k) + (1 - b_k) log
//          s(-z_k)
//   y = (1 - eps) onehot + eps / K, mixed by mixup and CutMix (framework/data/image/mixing.h)
//   b_k = 1 where y_k > 0, s the logistic function
//
// Label smoothing: Szegedy et al. 2016; binary cross entropy of mixed targets that are made 0 or 1:
// Touvron et al., DeiT III, ECCV 2022. Metrics: accuracy (top-1), top5 and nll of the softmax,
// without smoothing and mixing.
#include <limits>

#include "framework/data/image/mixing.h"
#include "framework/eval/classification.h"
#include "framework/plugin.h"
#include "framework/tensor/narrow.h"

namespace attnlab {
namespace {

struct ImageClassificationOptions : ClassificationOptions {
  std::string loss = "cross_entropy";
  std::string among = "all";
  MixingOptions mixing;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    ClassificationOptions::describe(v);
    v("loss", loss, one_of("cross_entropy", "binary"),
      "binary: a binary loss per class, with target 1 for every class in the image");
    v("among", among, one_of("all", "tested"),
      "tested: metrics use only classes that occur in the test images, as for ImageNet-A and -R");
    mixing.describe(v);
  }
};

/// Metrics of some classes: the others' logits count as none, and so do images of theirs, as a
/// validation split has them.
class SubsetMeter final : public Meter {
 public:
  explicit SubsetMeter(std::vector<std::int64_t> classes) : classes_(std::move(classes)) {}
  void add(const NamedTensors& outputs, const Batch& batch) override {
    const Tensor logits = outputs.at("logits").detach();
    const Tensor some = at::tensor(classes_, at::kLong).to(logits.device());
    const Tensor out = at::full_like(logits, -std::numeric_limits<double>::infinity());
    const Tensor known = out.index_copy(1, some, logits.index_select(1, some));
    const Tensor classes = batch.fields.at("class").to(logits.device());
    // (Numbers that are not a class at all are left in: they are an error.)
    const Tensor counts =
        at::isin(classes, some).logical_or(classes.lt(0)).logical_or(classes.ge(logits.size(1)));
    const Tensor rows = counts.nonzero().squeeze(1);
    others_ += logits.size(0) - rows.numel();
    if (rows.numel() == 0) return;
    some_ = true;
    Batch part;
    part.size = rows.numel();
    part.fields.set("class", classes.index_select(0, rows));
    all_.add({{"logits", known.index_select(0, rows)}}, part);
  }
  Metrics result() const override {
    if (some_ || others_ == 0) return all_.result();
    throw UndefinedMetrics(
        "image_classification: no image is of a class that occurs in the test images (among: "
        "tested)",
        {});
  }

 private:
  std::vector<std::int64_t> classes_;
  std::int64_t others_ = 0;  ///< images that do not count
  bool some_ = false;
  ClassificationMeter all_;
};

class ImageClassification final : public ClassificationTask {
 public:
  ImageClassification(const ImageClassificationOptions& options, const TaskSetup& setup)
      : ClassificationTask(options, setup), options_(options), classes_(setup.data.classes) {
    if (options.loss == "binary" && options.label_smoothing > 0) {
      throw OptionError("label_smoothing",
                        "makes every class count as there for the binary loss; set it to 0");
    }
    if (options.mixing.mixes()) setup.data.field("image");
    const auto tested = setup.data.class_groups.find("tested");
    if (options.among == "tested" && tested != setup.data.class_groups.end()) {
      tested_ = tested->second;
    }
  }

  std::unique_ptr<Meter> meter() const override {
    if (tested_.empty()) return ClassificationTask::meter();
    return std::make_unique<SubsetMeter>(tested_);
  }

  Tensor step(TrainingStep& step) override {
    if (!options_.mixing.mixes()) return ClassificationTask::step(step);
    Batch batch = step.batch;
    const Tensor targets =
        class_targets(batch.fields.at("class"), classes_, options_.label_smoothing);
    const MixedBatch mixture =
        mixed(batch.fields.at("image"), targets, options_.mixing, step.random);
    batch.fields.set("image", mixture.images);
    ForwardPass pass;
    pass.carried = step.carried;
    const Tensor logits = step.model.forward(batch, pass).at("logits");
    return options_.loss == "binary" ? binary_loss(logits, mixture.targets)
                                     : soft_loss(logits, mixture.targets);
  }

  Tensor loss(const NamedTensors& outputs, const Batch& batch) const override {
    const Tensor plain = ClassificationTask::loss(outputs, batch);  // checks logits and classes
    if (options_.loss != "binary") return plain;
    return binary_loss(outputs.at("logits"), class_targets(batch.fields.at("class"), classes_, 0));
  }

  Tensor losses(const NamedTensors& outputs, const Batch& batch,
                std::int64_t members) const override {
    if (options_.mixing.mixes()) {
      throw OptionError("mixup",
                        "mixes images before the model sees them, which models that are "
                        "trained together cannot do; train the runs one by one");
    }
    return options_.loss == "binary" ? Task::losses(outputs, batch, members)
                                     : ClassificationTask::losses(outputs, batch, members);
  }

 private:
  static Tensor soft_loss(const Tensor& logits, const Tensor& targets) {
    return -(targets * wide(logits).log_softmax(-1)).sum(-1).mean();
  }
  static Tensor binary_loss(const Tensor& logits, const Tensor& targets) {
    const Tensor z = wide(logits);
    return at::binary_cross_entropy_with_logits(z, targets.gt(0).to(z.scalar_type()));
  }

  ImageClassificationOptions options_;
  std::int64_t classes_;
  std::vector<std::int64_t> tested_;  ///< classes that metrics are among; empty: all
};

}  // namespace

ATTNLAB_PLUGIN(task, ImageClassification, ImageClassificationOptions,
               {.id = "attnlab/image_classification",
                .version = "1.1.0",
                .summary = "one class per image: cross entropy, mixup, CutMix; top-1, top-5, NLL",
                .citation = "label smoothing: Szegedy et al. 2016, arXiv:1512.00567; mixup: Zhang "
                            "et al. 2018, arXiv:1710.09412; CutMix: Yun et al. 2019, "
                            "arXiv:1905.04899",
                .licence = "Apache-2.0",
                .takes = {"logits", "class"},
                .ensemble = true})

}  // namespace attnlab
