// Segmentation under common corruptions, made while the model is evaluated
// (framework/data/image/corruption.h).
//
//   miou        mean over corruptions and severities
//   miou/fog    of one corruption, mean over severities
//
// The sixteen are those of Kamann & Rother: four blurs, four noises, four of the camera and four of
// the weather. What is corrupted is the picture at the size at which the dataset shows it, as
// bytes, in the same way for every model and seed. (Published sets are of stored pictures, which
// `dataset.corruption` corrupts.) Source: Hendrycks & Dietterich, ICLR 2019; Kamann & Rother,
// Benchmarking the robustness of semantic segmentation models, CVPR 2020; Zhou et al., FAN, ICML
// 2022. Cost: a corruption and the windows' passes a picture, corruption and severity.
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>

#include "framework/data/image/corruption.h"
#include "framework/data/image/pixels.h"
#include "framework/eval/segmentation/confusion.h"
#include "framework/eval/segmentation/segmentation_task.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct SegmentationCorruptionsOptions : SegmentationTaskOptions {
  std::vector<std::string> corruptions = {
      "motion_blur",    "defocus_blur",  "glass_blur", "gaussian_blur",
      "gaussian_noise", "impulse_noise", "shot_noise", "speckle_noise",
      "brightness",     "contrast",      "saturate",   "jpeg_compression",
      "snow",           "spatter",       "fog",        "frost"};
  std::vector<std::int64_t> severities = {1, 2, 3};
  std::string frost;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    SegmentationTaskOptions::describe(v);
    v("corruptions", corruptions,
      one_of("gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur",
             "motion_blur", "zoom_blur", "snow", "frost", "fog", "brightness", "contrast",
             "elastic_transform", "pixelate", "jpeg_compression", "speckle_noise", "gaussian_blur",
             "saturate", "spatter"),
      "which");
    v("severities", severities, range(1, 5), "from 1 to 5");
    v("frost", frost, "for frost: folder with frost1.ppm to frost5.ppm");
  }
};

class SegmentationCorruptions final : public SegmentationTask {
 public:
  SegmentationCorruptions(const SegmentationCorruptionsOptions& options, const TaskSetup& setup)
      : SegmentationTask(options, setup, "segmentation_corruptions"),
        options_(options),
        image_(setup.data.field("image")) {
    if (options_.corruptions.empty()) throw OptionError("corruptions", "is empty; name some");
    if (options_.severities.empty()) throw OptionError("severities", "is empty; name some");
    for (const std::string& name : options_.corruptions) {
      if (std::count(options_.corruptions.begin(), options_.corruptions.end(), name) > 1) {
        throw OptionError("corruptions", fmt::format("names {} more than once", name));
      }
    }
    if (std::count(options_.corruptions.begin(), options_.corruptions.end(), "frost") > 0) {
      corruption("frost", 1, {1, 1});  // its photos are there, or it is said now
    }
    if (image_.mean.size() != 3 || image_.shape.size() != 3 || image_.shape[0] != 3) {
      throw DataError(fmt::format(
          "dataset '{}' does not say how its pictures are normalised, or they are not red, green "
          "and blue; corruptions are of such",
          setup.data.name));
    }
  }

  std::vector<MetricInfo> metrics() const override {
    std::vector<MetricInfo> all = {{"miou", Better::higher, "share"}};
    for (const std::string& name : options_.corruptions) {
      all.push_back({"miou/" + name, Better::higher, "share"});
    }
    return all;
  }

  Metrics evaluate(Evaluation& evaluation) const override {
    const at::NoGradGuard no_gradients;
    std::vector<Cell> cells;
    for (const std::string& name : options_.corruptions) {
      for (const std::int64_t severity : options_.severities) {
        cells.push_back({name, severity, no_answers()});
      }
    }
    evaluation.batches(evaluation.split, [&](const Batch& batch) {
      for (const Cell& cell : cells) {
        const auto change = [&](const Tensor& picture) { return corrupted(picture, cell); };
        add_answers(evaluation.model, batch, change, cell.confusion);
      }
    });
    Metrics metrics = {{"miou", 0}};
    for (const std::string& name : options_.corruptions) metrics["miou/" + name] = 0;
    const auto severities = static_cast<double>(options_.severities.size());
    const auto kinds = static_cast<double>(options_.corruptions.size());
    for (const Cell& cell : cells) {
      const double miou = segmentation_metrics(cell.confusion, names()).at("miou");
      metrics["miou/" + cell.name] += miou / severities;
      metrics["miou"] += miou / (severities * kinds);
    }
    return metrics;
  }

 private:
  struct Cell {
    std::string name;
    std::int64_t severity;
    Tensor confusion;
  };

  /// @param size  height and width of the pictures
  Corruption corruption(const std::string& name, std::int64_t severity,
                        const std::pair<std::int64_t, std::int64_t>& size) const {
    CorruptionOptions options;
    options.corruption = name;
    options.severity = severity;
    options.frost = options_.frost;
    return Corruption(options, size.first, size.second);
  }

  /// @param picture  [3, h, w], normalised
  Tensor corrupted(const Tensor& picture, const Cell& cell) const {
    const auto channel = [&](const std::vector<double>& values) {
      return at::tensor(values, at::kDouble).view({-1, 1, 1});
    };
    const Tensor levels =
        picture.to(at::kCPU, at::kDouble) * channel(image_.deviation) + channel(image_.mean);
    const Tensor bytes =
        (levels * 255).round().clamp(0, 255).to(at::kByte).permute({1, 2, 0}).contiguous();
    Pixels pixels(bytes.size(0), bytes.size(1), 3);
    std::copy_n(bytes.data_ptr<std::uint8_t>(), pixels.bytes.size(), pixels.bytes.begin());
    corruption(cell.name, cell.severity, {pixels.height, pixels.width}).apply(pixels);
    const Tensor out = at::empty(picture.sizes(), at::kFloat);
    write_image(pixels, PixelMap(image_.mean, image_.deviation), /*flip=*/false,
                out.data_ptr<float>());
    return out.to(picture.options());
  }

  SegmentationCorruptionsOptions options_;
  FieldInfo image_;
};

}  // namespace

ATTNLAB_PLUGIN(task, SegmentationCorruptions, SegmentationCorruptionsOptions,
               {.id = "attnlab/segmentation_corruptions",
                .version = "1.0.0",
                .summary = "mIoU under the corruptions of ImageNet-C, and its mean",
                .citation = "Hendrycks & Dietterich 2019, arXiv:1903.12261; Kamann & Rother 2020, "
                            "arXiv:1908.05005",
                .licence = "Apache-2.0",
                .takes = {"mask_logits", "image", "shown", "label_map", "size"}})

}  // namespace attnlab
