// Accuracy where each image may have several right classes, or none, as ImageNet-ReaL has them.
//
//   accuracy        share of the labelled images whose class of the largest logit is one of theirs
//   class_accuracy  of the same images, by their one usual class
//   labelled        share of all images that have a right class; the others count nowhere
//
// The loss is that of the usual class: this task is for finished models. Equal logits count in
// order of their index; a logit that is not a number is never right. Source: Beyer et al., Are we
// done with ImageNet?, 2020, arXiv:2006.07159. Cost: a forward pass.
#include <fmt/format.h>

#include <cmath>

#include "framework/eval/classification.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

constexpr const char* kSets = "classes@label";

/// @throws DataError where a value of the field is not a class.
void check_classes(const Batch& batch, const char* field, std::int64_t classes) {
  const Tensor& values = batch.fields.at(field);
  if (values.numel() == 0) return;
  const auto least = values.min().item<std::int64_t>(), most = values.max().item<std::int64_t>();
  if (least >= 0 && most < classes) return;
  throw DataError(fmt::format("{}: class {} is there, but the model gives logits for {} classes",
                              field, least < 0 ? least : most, classes));
}

class LabelSetMeter final : public Meter {
 public:
  void add(const NamedTensors& outputs, const Batch& batch) override {
    const Tensor logits = outputs.at("logits").detach().to(at::kCPU, at::kDouble);
    const Tensor sets = batch.fields.at(kSets).to(at::kCPU).contiguous();
    const Tensor usual = batch.fields.at("class").to(at::kCPU);
    check_classes(batch, kSets, logits.size(1));
    check_classes(batch, "class", logits.size(1));
    const auto* begin = batch.offsets.at("label").data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < batch.size; ++i) {
      ++images_;
      const Tensor own = sets.narrow(0, begin[i], begin[i + 1] - begin[i]);
      if (own.numel() == 0) continue;
      ++labelled_;
      const Tensor& own_logits = logits[i];  // one of -infinity is of a class that is ruled out
      if (own_logits.isnan().any().item<bool>() ||
          !std::isfinite(own_logits.max().item<double>())) {
        continue;
      }
      const auto said = logits[i].argmax().item<std::int64_t>();
      right_ += own.eq(said).any().item<bool>() ? 1 : 0;
      usual_ += usual[i].item<std::int64_t>() == said ? 1 : 0;
    }
  }

  Metrics result() const override {
    if (images_ == 0) throw Error("evaluation: there were no images; is the split empty?");
    if (labelled_ == 0) {
      throw UndefinedMetrics("evaluation: no image has a right class", {{"labelled", 0}});
    }
    const auto labelled = static_cast<double>(labelled_);
    return {{"accuracy", static_cast<double>(right_) / labelled},
            {"class_accuracy", static_cast<double>(usual_) / labelled},
            {"labelled", labelled / static_cast<double>(images_)}};
  }

 private:
  std::int64_t images_ = 0, labelled_ = 0, right_ = 0, usual_ = 0;
};

class ImageLabelSets final : public ClassificationTask {
 public:
  using ClassificationTask::ClassificationTask;

  Tensor loss(const NamedTensors& outputs, const Batch& batch) const override {
    check_classes(batch, kSets, outputs.at("logits").size(-1));
    return ClassificationTask::loss(outputs, batch);
  }
  std::unique_ptr<Meter> meter() const override { return std::make_unique<LabelSetMeter>(); }
  std::vector<MetricInfo> metrics() const override {
    return {{"accuracy", Better::higher, "share"},
            {"class_accuracy", Better::higher, "share"},
            {"labelled", Better::neither, "share"}};
  }
};

}  // namespace

ATTNLAB_PLUGIN(
    task, ImageLabelSets, ClassificationOptions,
    {.id = "attnlab/image_label_sets",
     .version = "1.0.0",
     .summary = "accuracy where an image has several correct classes, as in ImageNet-ReaL",
     .citation = "Beyer et al. 2020, arXiv:2006.07159",
     .licence = "Apache-2.0",
     .takes = {"logits", "class", "classes@label"}})

}  // namespace attnlab
