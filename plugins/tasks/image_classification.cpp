// Image classification: one class an image.
//
//   loss = cross entropy of the logits with label smoothing (Szegedy et al. 2016)
//
// Metrics: accuracy (top-1), top5 and nll, without smoothing.
#include "framework/eval/classification.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct ImageClassificationOptions {
  double label_smoothing = 0.0;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("label_smoothing", label_smoothing, range(0, 1),
      "share of the target spread over all classes; below 1");
  }
};

class ImageClassification final : public Task {
 public:
  ImageClassification(const ImageClassificationOptions& options, const TaskSetup& setup)
      : label_smoothing_(options.label_smoothing), classes_(setup.data.classes) {
    if (label_smoothing_ >= 1) {
      throw OptionError("label_smoothing", "must be below 1: at 1 the labels no longer matter");
    }
    if (classes_ < 1) {
      throw DataError("dataset '" + setup.data.name +
                      "' has no classes; image_classification needs some");
    }
  }

  Tensor loss(const NamedTensors& outputs, const Batch& batch) const override {
    const Tensor& logits = outputs.at("logits");
    if (logits.dim() == 2 && logits.size(1) != classes_) {
      throw ShapeError("logits: the dataset has " + std::to_string(classes_) +
                       " classes, the model gives " + describe(logits));
    }
    return classification_loss(logits, batch.fields.at("class"), label_smoothing_);
  }

  std::unique_ptr<Meter> meter() const override { return std::make_unique<ClassificationMeter>(); }

  Headline headline() const override { return {"accuracy", true}; }

 private:
  double label_smoothing_;
  std::int64_t classes_;
};

}  // namespace

ATTNLAB_PLUGIN(task, ImageClassification, ImageClassificationOptions,
               {.id = "attnlab/image_classification",
                .version = "1.0.0",
                .summary = "one class an image: cross entropy, top-1, top-5, NLL",
                .citation = "label smoothing: Szegedy et al. 2016, arXiv:1512.00567",
                .licence = "Apache-2.0",
                .takes = {"logits", "class"}})

}  // namespace attnlab
