// How good an explanation of a vision transformer is: AG-CAM's or attention rollout's map of each
// image (framework/eval/explanation.h).
//
//   morf, lerf   mean probability of the true class while the most, or the least, relevant pixels
//                are blanked first: 0 %, 10 %, ..., 100 % of them become 0 (the mean, where images
//                are normalised); their mean over these steps
//   abpc         lerf - morf: large where the map names what the answer rests on
//   pixel_accuracy, iou, dice   with field boxes@box: the map above `threshold` as filled boxes
//                against the filled true boxes, (tp + e) / (tp + fp + fn + e) and its like with e =
//                1e-5, a mean over images
//
// As published, only images that are classified correctly count towards the boxes' measures; all
// towards the others. `explained` is their share.
// Source: Leem & Seo, AAAI 2024, and its public code (which also fills the row and column behind a
// box's end; so is it here). Cost: an explanation and 2 * 11 forward passes an image.
#include <c10/core/GradMode.h>

#include <algorithm>

#include "framework/eval/classification.h"
#include "framework/eval/explanation.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct ImageExplanationOptions : ClassificationOptions {
  std::string method = "ag_cam";
  double threshold = 0.5;
  bool perturb = true;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    ClassificationOptions::describe(v);
    v("method", method, one_of("ag_cam", "rollout"), "how the map is made");
    v("threshold", threshold, range(0, 1),
      "value of the map above which a pixel is part of the explanation");
    v("perturb", perturb, "measure morf, lerf and abpc");
  }
};

constexpr std::int64_t kSteps = 10;
constexpr double kEps = 1e-5;
constexpr const char* kBoxes = "boxes@box";

/// Filled boxes [N, 4] (left, top, right, bottom in pixels, ends included).
Tensor filled(const Tensor& boxes, std::int64_t height, std::int64_t width) {
  const Tensor mask = at::zeros({height, width}, at::kBool);
  const Tensor ends = boxes.to(at::kCPU, at::kDouble).round();
  for (std::int64_t i = 0; i < ends.size(0); ++i) {
    const auto end = [&](std::int64_t k, std::int64_t most) {
      // Bounded before it is an integer, which holds no number of any size.
      const double edge = std::max(0.0, ends[i][k].item<double>());
      return static_cast<std::int64_t>(std::min(edge, static_cast<double>(most - 1)));
    };
    const std::int64_t left = end(0, width), top = end(1, height);
    const std::int64_t right = end(2, width), bottom = end(3, height);
    if (right < left || bottom < top) continue;
    mask.narrow(0, top, bottom - top + 1).narrow(1, left, right - left + 1).fill_(true);
  }
  return mask;
}

/// The public code's boxes end one row and one column later, inside the image.
Tensor one_further(const Tensor& mask) {
  Tensor out = mask.clone();
  out.narrow(0, 1, mask.size(0) - 1).logical_or_(mask.narrow(0, 0, mask.size(0) - 1));
  const Tensor down = out.clone();
  out.narrow(1, 1, mask.size(1) - 1).logical_or_(down.narrow(1, 0, mask.size(1) - 1));
  return out;
}

struct Overlap {
  double images = 0, pixel_accuracy = 0, iou = 0, dice = 0;

  void add(const Tensor& found, const Tensor& wanted) {
    const auto count = [](const Tensor& mask) { return mask.sum().item<double>(); };
    const double both = count(found.logical_and(wanted));
    const double either = count(found.logical_or(wanted));
    const auto all = static_cast<double>(found.numel());
    images += 1;
    pixel_accuracy += (all - either + both + kEps) / (all + kEps);
    iou += (both + kEps) / (either + kEps);
    dice += (2 * both + kEps) / (both + either + kEps);
  }
};

class ImageExplanation final : public ClassificationTask {
 public:
  ImageExplanation(const ImageExplanationOptions& options, const TaskSetup& setup)
      : ClassificationTask(options, setup), options_(options) {
    for (const FieldInfo& field : setup.data.fields) has_boxes_ |= field.name == kBoxes;
    if (!has_boxes_ && !options.perturb) {
      throw OptionError("perturb", "is off and the dataset has no boxes, so nothing is measured");
    }
  }

  std::vector<MetricInfo> metrics() const override {
    std::vector<MetricInfo> all;
    if (options_.perturb) {
      all = {{"abpc", Better::higher, ""},
             {"morf", Better::lower, "share"},
             {"lerf", Better::higher, "share"}};
    }
    if (has_boxes_) {
      for (const char* name : {"iou", "dice", "pixel_accuracy"}) {
        all.push_back({name, Better::higher, "share"});
      }
    }
    all.push_back({"explained", Better::higher, "share"});
    return all;
  }

  Metrics evaluate(Evaluation& evaluation) const override {
    double images = 0, right = 0, morf = 0, lerf = 0;
    Overlap overlap;
    evaluation.batches(evaluation.split, [&](const Batch& batch) {
      const Tensor& image = batch.fields.at("image");
      const Tensor& labels = batch.fields.at("class");
      const Explanation explanation = explain(evaluation.model, batch, options_.method);
      loss({{"logits", explanation.logits}}, batch);  // refuses classes that are none
      const Tensor correct = right_of(explanation.logits, labels);
      const Tensor heat = heat_of(explanation.map, image.size(2), image.size(3));
      images += static_cast<double>(batch.size);
      right += correct.sum().item<double>();
      if (options_.perturb) {
        morf += blanked(evaluation.model, image, labels, heat);
        lerf += blanked(evaluation.model, image, labels, -heat);
      }
      if (has_boxes_) compare(batch, correct, heat, overlap);
    });
    if (images == 0) throw Error("evaluation: there were no images; is the split empty?");
    Metrics metrics = {{"explained", right / images}};
    if (options_.perturb) {
      metrics["morf"] = morf / images;
      metrics["lerf"] = lerf / images;
      metrics["abpc"] = (lerf - morf) / images;
    }
    if (has_boxes_) {
      const double count = std::max(overlap.images, 1.0);
      metrics["iou"] = overlap.iou / count;
      metrics["dice"] = overlap.dice / count;
      metrics["pixel_accuracy"] = overlap.pixel_accuracy / count;
    }
    return metrics;
  }

 private:
  /// The probability of the class, mean over steps, while pixels of the largest order go first;
  /// summed over images.
  static double blanked(Model& model, const Tensor& image, const Tensor& labels,
                        const Tensor& order) {
    const std::int64_t pixels = image.size(2) * image.size(3);
    // Of equal heat the first pixel comes first, whatever the library's sort does with equals; what
    // differs by rounding alone, which changes with the batch, is equal.
    const Tensor all = order.flatten(1);
    const Tensor steps = (all / all.abs().amax(1, true).clamp_min(1e-30) * (1 << 20)).round();
    const Tensor rows = std::get<1>(steps.sort(/*stable=*/true, 1, /*descending=*/true));
    const Tensor place =
        at::zeros_like(rows).scatter(1, rows, at::arange(pixels, rows.options()).expand_as(rows));
    double sum = 0;
    for (std::int64_t step = 0; step <= kSteps; ++step) {
      const Tensor kept =
          place.ge(pixels * step / kSteps).view({image.size(0), 1, image.size(2), image.size(3)});
      Batch batch;
      batch.size = image.size(0);
      batch.fields.set("image", image * kept);
      ForwardPass pass;
      const Tensor logits = model.forward(batch, pass).at("logits").to(at::kDouble);
      sum += logits.softmax(1).gather(1, labels.view({-1, 1})).sum().item<double>();
    }
    return sum / (kSteps + 1);
  }

  void compare(const Batch& batch, const Tensor& correct, const Tensor& heat,
               Overlap& overlap) const {
    const Tensor& boxes = batch.fields.at(kBoxes);
    const Tensor& offsets = batch.offsets.at("box");
    const auto* begin = offsets.data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < batch.size; ++i) {
      if (!correct[i].item<bool>() || begin[i + 1] == begin[i]) continue;
      const Tensor own = boxes.narrow(0, begin[i], begin[i + 1] - begin[i]);
      overlap.add(one_further(boxed(heat[i], options_.threshold)),
                  filled(own, heat.size(1), heat.size(2)));
    }
  }

  ImageExplanationOptions options_;
  bool has_boxes_ = false;
};

}  // namespace

ATTNLAB_PLUGIN(task, ImageExplanation, ImageExplanationOptions,
               {.id = "attnlab/image_explanation",
                .version = "1.0.1",
                .summary = "quality of maps by AG-CAM or attention rollout",
                .citation = "Leem & Seo, AAAI 2024; Abnar & Zuidema, ACL 2020",
                .licence = "Apache-2.0",
                .takes = {"logits", "image", "class", "boxes@box?"}})

}  // namespace attnlab
