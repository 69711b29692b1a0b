#include "framework/eval/segmentation/segmentation_task.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/eval/segmentation/confusion.h"
#include "framework/eval/segmentation/dice.h"
#include "framework/eval/segmentation/lovasz.h"
#include "framework/eval/segmentation/windows.h"
#include "framework/tensor/narrow.h"

namespace attnlab {
namespace {

constexpr std::int64_t kIgnored = -100;

/// The label maps of a batch, [B, H, W] int64, negative wherever there is no label, also where they
/// are padded.
Tensor labels_in(const Batch& batch) {
  const Tensor& labels = batch.fields.at("label_map");
  const Tensor& size = batch.fields.at("size");
  if (labels.dim() != 3 || labels.scalar_type() != at::kLong || size.dim() != 2 ||
      size.size(0) != labels.size(0) || size.size(1) != 2) {
    throw ShapeError(
        fmt::format("expected label_map [B, H, W] int64 and size [B, 2], found {} and {}",
                    describe(labels), describe(size)));
  }
  const auto real = [&](std::int64_t dim) {
    const Tensor places = at::arange(labels.size(dim), size.options());
    return places.unsqueeze(0).lt(size.select(1, dim - 1).unsqueeze(1));
  };
  const Tensor inside = real(1).unsqueeze(2).logical_and(real(2).unsqueeze(1));
  return labels.masked_fill(inside.logical_not(), -1);
}

/// Height and width of one picture of a batch.
std::pair<std::int64_t, std::int64_t> size_in(const Tensor& sizes, std::int64_t picture) {
  return {sizes[picture][0].item<std::int64_t>(), sizes[picture][1].item<std::int64_t>()};
}

}  // namespace

SegmentationTask::SegmentationTask(const SegmentationTaskOptions& options, const TaskSetup& setup,
                                   const std::string& name)
    : options_(options), names_(class_words(setup.data, name)) {
  if (options_.cross_entropy + options_.lovasz + options_.dice == 0) {
    throw OptionError("cross_entropy", "is 0 and so are lovasz and dice: nothing would be learned");
  }
  if (options_.scales.empty()) throw OptionError("scales", "is empty; [1] is the picture as it is");
  if (options_.stride == 0) options_.stride = options_.window;
  if (options_.stride > options_.window) {
    throw OptionError("stride", fmt::format("{} is more than the window's {}: pixels between two "
                                            "windows would have no answer",
                                            options_.stride, options_.window));
  }
  setup.data.field("label_map");
  const std::vector<std::int64_t>& image = setup.data.field("image").shape;
  const bool differ = std::count(image.begin(), image.end(), -1) > 0;
  if (options_.window == 0 && differ) {
    throw OptionError("window",
                      "is 0, and the dataset's pictures differ in size; set it to the side of the "
                      "crops that are trained on (${dataset.crop})");
  }
}

// --- training -----------------------------------------------------------------------------------

const Tensor& SegmentationTask::checked(const NamedTensors& outputs, std::int64_t pictures) const {
  const Tensor& logits = outputs.at("mask_logits");
  const auto classes = static_cast<std::int64_t>(names_.size());
  if (logits.dim() == 4 && logits.size(0) == pictures && logits.size(1) == classes) return logits;
  throw ShapeError(fmt::format("mask_logits: expected [{}, {}, h, w], found {}", pictures, classes,
                               describe(logits)));
}

Tensor SegmentationTask::loss_of(
    const NamedTensors& outputs, const Batch& batch,
    const std::function<void(std::string_view part, const Tensor& value)>& record) const {
  const Tensor labels = labels_in(batch);
  const Tensor masks = wide(checked(outputs, labels.size(0)));
  const auto classes = static_cast<std::int64_t>(names_.size());
  // To read numbers of another device would wait for it; an evaluation reads them anyway.
  if (labels.device().is_cpu() && labels.ge(classes).any().item<bool>()) {
    throw DataError(fmt::format("label_map: the batch has a label that is not below {}", classes));
  }
  const Tensor there = labels.ge(0);
  if (!there.any().item<bool>()) return masks.sum() * 0;  // nothing to learn from, and no NaN
  const Tensor logits = at_size(masks, labels.size(1), labels.size(2));
  Tensor sum = at::zeros({}, logits.options());
  const auto add = [&](const char* part, double weight, const Tensor& value) {
    if (record) record(part, value);
    sum = sum + weight * value;
  };
  if (options_.cross_entropy > 0) {
    add("cross_entropy", options_.cross_entropy,
        at::cross_entropy_loss(logits, labels.masked_fill(there.logical_not(), kIgnored), {},
                               at::Reduction::Mean, kIgnored, options_.label_smoothing));
  }
  if (options_.lovasz == 0 && options_.dice == 0) return sum;
  Tensor lovasz = at::zeros({}, logits.options()), dice = lovasz;
  double pixels = 0;
  for (std::int64_t i = 0; i < labels.size(0); ++i) {
    const Tensor rows = there[i].flatten().nonzero().squeeze(1);
    const Tensor own = labels[i].flatten().index_select(0, rows);
    const Tensor shares = logits[i].flatten(1).index_select(1, rows).softmax(0).t();
    const auto count = static_cast<double>(rows.numel());
    if (options_.lovasz > 0) lovasz = lovasz + count * lovasz_softmax(shares, own);
    if (options_.dice > 0) dice = dice + count * dice_loss(shares, own);
    pixels += count;
  }
  if (options_.lovasz > 0) add("lovasz", options_.lovasz, lovasz / pixels);
  if (options_.dice > 0) add("dice", options_.dice, dice / pixels);
  return sum;
}

Tensor SegmentationTask::step(TrainingStep& step) {
  ForwardPass pass;
  pass.carried = step.carried;
  return loss_of(step.model.forward(step.batch, pass), step.batch, step.record);
}

Tensor SegmentationTask::loss(const NamedTensors& outputs, const Batch& batch) const {
  return loss_of(outputs, batch, {});
}

double SegmentationTask::weight(const Batch& batch) const {
  return labels_in(batch).ge(0).sum().item<double>();
}

// --- evaluation ---------------------------------------------------------------------------------

std::vector<MetricInfo> SegmentationTask::metrics() const {
  return segmentation_metric_infos(names_);
}

Tensor SegmentationTask::no_answers() const {
  const auto classes = static_cast<std::int64_t>(names_.size());
  return at::zeros({classes, classes + 1}, at::kLong);
}

Tensor SegmentationTask::logits_of(Model& model, const Tensor& pictures) const {
  Batch seen;
  seen.size = pictures.size(0);
  seen.fields.set("image", pictures);
  ForwardPass pass;
  const NamedTensors outputs = model.forward(seen, pass);
  return at_size(wide(checked(outputs, seen.size)), pictures.size(2), pictures.size(3));
}

Tensor SegmentationTask::scores_of(Model& model, const Tensor& picture, std::int64_t height,
                                   std::int64_t width) const {
  const auto said_of = [&](const Tensor& x) {
    if (options_.window == 0) return logits_of(model, x.unsqueeze(0))[0];
    return windowed_scores(x, options_.window, options_.stride,
                           [&](const Tensor& windows) { return logits_of(model, windows); });
  };
  const bool one = options_.scales.size() == 1 && !options_.flip;
  Tensor sum;
  for (const double scale : options_.scales) {
    const auto rows = static_cast<double>(picture.size(1));
    const auto columns = static_cast<double>(picture.size(2));
    const double factor =
        std::max(scale, static_cast<double>(options_.window) / std::min(rows, columns));
    const Tensor x = at_size(picture.unsqueeze(0), std::llround(rows * factor),
                             std::llround(columns * factor))[0];
    for (const bool mirrored : {false, true}) {
      if (mirrored && !options_.flip) continue;
      const Tensor said = mirrored ? said_of(x.flip({2})).flip({2}) : said_of(x);
      const Tensor logits = at_size(said.unsqueeze(0), height, width)[0];
      if (one) return logits;
      const Tensor shares = logits.softmax(0);
      sum = sum.defined() ? sum + shares : shares;
    }
  }
  return sum;
}

bool SegmentationTask::takes_whole_batches() const {
  return options_.window == 0 && !options_.flip && options_.scales == std::vector<double>{1};
}

void SegmentationTask::add_answers(Model& model, const Batch& batch, const PictureChange& change,
                                   const Tensor& confusion) const {
  const Tensor labels = labels_in(batch).to(at::kCPU);
  const Tensor& images = batch.fields.at("image");
  const Tensor sizes = batch.fields.at("size").to(at::kCPU);
  const Tensor shown = batch.fields.at("shown").to(at::kCPU);
  Tensor whole;  // logits of all pictures, where one pass gives them
  const bool even = shown.select(1, 0).eq(images.size(2)).all().item<bool>() &&
                    shown.select(1, 1).eq(images.size(3)).all().item<bool>();
  if (takes_whole_batches() && even && !change) whole = logits_of(model, images);
  for (std::int64_t i = 0; i < images.size(0); ++i) {
    const auto [height, width] = size_in(sizes, i);
    Tensor scores;
    if (whole.defined()) {
      scores = at_size(whole.narrow(0, i, 1), height, width)[0];
    } else {
      const auto [rows, columns] = size_in(shown, i);
      const Tensor picture = images[i].narrow(1, 0, rows).narrow(2, 0, columns);
      scores = scores_of(model, change ? change(picture) : picture, height, width);
    }
    count_answers(labels[i].narrow(0, 0, height).narrow(1, 0, width),
                  answers_of(scores, 0).to(at::kCPU), confusion, "label_map");
  }
}

Metrics SegmentationTask::evaluate(Evaluation& evaluation) const {
  const at::NoGradGuard no_gradients;
  const Tensor confusion = no_answers();
  evaluation.batches(evaluation.split, [&](const Batch& batch) {
    add_answers(evaluation.model, batch, {}, confusion);
  });
  return segmentation_metrics(confusion, names_);
}

}  // namespace attnlab
