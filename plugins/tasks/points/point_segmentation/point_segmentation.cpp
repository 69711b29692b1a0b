// Point segmentation: a class for every point of a cloud.
//
//   loss = cross entropy + lovasz * Lovász-softmax,   over voxels that have a label
//
// Lovász's loss is that of each cloud, in the mean by its voxels, so that parts of a step add up to
// the whole; or, as published, that of the batch as one cloud.
// A model answers for voxels; a point's answer is that of its voxel, so metrics are over raw points
// whatever the grid. Views of a cloud (a dataset's `views`) are added up as probabilities.
// Metrics: miou, macc, accuracy, iou_CLASS.
// Source: the loss and metrics of Point Transformer V3 (arXiv:2312.10035) on nuScenes.
#include <fmt/format.h>

#include "framework/eval/segmentation/confusion.h"
#include "framework/eval/segmentation/lovasz.h"
#include "framework/plugin.h"
#include "framework/tensor/narrow.h"
#include "plugins/tasks/points/point_segmentation/segmentation_meter.h"

namespace attnlab {
namespace {

struct PointSegmentationOptions {
  double lovasz = 1;
  std::string lovasz_of = "cloud";
  double label_smoothing = 0;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("lovasz", lovasz, at_least(0), "weight of the Lovász-softmax loss");
    v("lovasz_of", lovasz_of, one_of("cloud", "batch"),
      "computed for each cloud, or for the whole batch as published");
    v("label_smoothing", label_smoothing, range(0, 0.99),
      "share of the target spread over all classes, in the cross entropy");
  }
};

class PointSegmentation final : public Task {
 public:
  PointSegmentation(const PointSegmentationOptions& options, const TaskSetup& setup)
      : options_(options), names_(class_words(setup.data, "point_segmentation")) {}

  Tensor loss(const NamedTensors& outputs, const Batch& batch) const override {
    const Tensor& given = outputs.at("logits@voxel");
    const Tensor& labels = batch.fields.at("label@voxel");
    check(given, labels);
    check_labels(labels, "label@voxel");
    check_labels(batch.fields.at("label@point"), "label@point");
    const Tensor logits = wide(given);
    const Tensor there = labels.ge(0);
    if (!there.any().item<bool>()) return logits.sum() * 0;  // nothing to learn from, and no NaN
    const Tensor entropy =
        at::cross_entropy_loss(logits, labels.masked_fill(there.logical_not(), kIgnored), {},
                               at::Reduction::Mean, kIgnored, options_.label_smoothing);
    if (options_.lovasz == 0) return entropy;
    return entropy + options_.lovasz * lovasz(logits.softmax(1), labels, batch);
  }

  /// Voxels that have a label.
  double weight(const Batch& batch) const override {
    return batch.fields.at("label@voxel").ge(0).sum().item<double>();
  }

  std::unique_ptr<Meter> meter() const override {
    return std::make_unique<SegmentationMeter>(names_);
  }

  std::vector<MetricInfo> metrics() const override { return segmentation_metric_infos(names_); }

 private:
  static constexpr std::int64_t kIgnored = -100;

  Tensor lovasz(const Tensor& probabilities, const Tensor& labels, const Batch& batch) const {
    const auto labelled = [&](std::int64_t begin, std::int64_t end) {
      const Tensor rows = labels.slice(0, begin, end).ge(0).nonzero().squeeze(1);
      const Tensor loss = lovasz_softmax(probabilities.slice(0, begin, end).index_select(0, rows),
                                         labels.slice(0, begin, end).index_select(0, rows));
      return std::pair{loss, static_cast<double>(rows.size(0))};
    };
    if (options_.lovasz_of == "batch") return labelled(0, labels.size(0)).first;
    const auto* end = batch.offsets.at("voxel").data_ptr<std::int64_t>();
    Tensor sum = at::zeros({}, probabilities.options());
    double voxels = 0;
    for (std::int64_t b = 0; b < batch.size; ++b) {
      const auto [loss, count] = labelled(end[b], end[b + 1]);
      sum = sum + loss * count;
      voxels += count;
    }
    return sum / voxels;
  }

  void check_labels(const Tensor& labels, const char* name) const {
    const auto classes = static_cast<std::int64_t>(names_.size());
    // To read numbers of another device would wait for it; the meter reads them anyway.
    if (!labels.device().is_cpu() || !labels.ge(classes).any().item<bool>()) return;
    throw DataError(fmt::format("{}: the batch has a label that is not below {}", name, classes));
  }

  void check(const Tensor& logits, const Tensor& labels) const {
    const auto classes = static_cast<std::int64_t>(names_.size());
    if (logits.dim() != 2 || logits.size(1) != classes || labels.dim() != 1 ||
        labels.size(0) != logits.size(0)) {
      throw ShapeError(fmt::format(
          "point_segmentation: expected logits@voxel [M, {}] for label@voxel [M], found {} and {}",
          classes, describe(logits), describe(labels)));
    }
  }

  PointSegmentationOptions options_;
  std::vector<std::string> names_;
};

}  // namespace

ATTNLAB_PLUGIN(
    task, PointSegmentation, PointSegmentationOptions,
    {.id = "attnlab/point_segmentation",
     .version = "1.0.0",
     .summary = "one class per point: cross entropy and Lovász-softmax, mIoU over raw points",
     .citation = "Berman et al. 2018, arXiv:1705.08790",
     .licence = "Apache-2.0",
     .takes = {"logits@voxel", "label@voxel", "label@point", "inverse@point>voxel", "view?"}})

}  // namespace attnlab
