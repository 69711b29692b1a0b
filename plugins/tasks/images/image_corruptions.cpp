// Errors of a classifier under ImageNet-C's corruptions, made while it is evaluated
// (framework/data/image/corruption.h).
//
//   accuracy    mean over corruptions, severities and images
//   error       1 - accuracy: the mean corruption error without normalisation
//   mce         mean over corruptions of (error over severities) / (AlexNet's on ImageNet-C): the
//               mCE of Hendrycks & Dietterich; of the standard fifteen at all five severities
//   error_over_alexnet   the same of some of the fifteen, or of other severities: no mCE
//   error/fog   of one corruption, mean over severities
//
// AlexNet's errors are of 1000 classes: of other data this is a weighting, no more. What is
// corrupted is the image as the dataset gives it, as bytes, in the same way for every model and
// seed. Source: Hendrycks & Dietterich, ICLR 2019. Cost: one forward pass and one corruption per
// image, corruption and severity.
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "framework/data/image/corruption.h"
#include "framework/data/image/pixels.h"
#include "framework/eval/classification.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct ImageCorruptionsOptions : ClassificationOptions {
  std::vector<std::string> corruptions;
  std::vector<std::int64_t> severities = {1, 2, 3, 4, 5};
  std::string constants = "auto";
  std::string frost;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    ClassificationOptions::describe(v);
    v("corruptions", corruptions,
      one_of("gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur",
             "motion_blur", "zoom_blur", "snow", "frost", "fog", "brightness", "contrast",
             "elastic_transform", "pixelate", "jpeg_compression", "speckle_noise", "gaussian_blur",
             "saturate", "spatter"),
      "names; empty: the standard fifteen");
    v("severities", severities, range(1, 5), "from 1 to 5");
    v("constants", constants, one_of("auto", "imagenet", "cifar"),
      "ImageNet-C's or CIFAR-10-C's; auto: by the images' size");
    v("frost", frost, "for frost: folder with frost1.ppm to frost5.ppm");
  }
};

class ImageCorruptions final : public ClassificationTask {
 public:
  ImageCorruptions(const ImageCorruptionsOptions& options, const TaskSetup& setup)
      : ClassificationTask(options, setup), options_(options), image_(setup.data.field("image")) {
    if (options_.corruptions.empty()) options_.corruptions = standard_corruptions();
    if (options_.severities.empty()) throw OptionError("severities", "is empty");
    if (image_.mean.empty() || image_.shape.size() != 3) {
      throw DataError(
          "the dataset does not say how its images are normalised, or they are of "
          "several sizes; corruptions are of pictures");
    }
    bool known = true;  // AlexNet's errors are
    for (const std::string& name : options_.corruptions) {
      const auto count = [&](const std::vector<std::string>& names) {
        return std::count(names.begin(), names.end(), name);
      };
      if (count(options_.corruptions) > 1) {
        throw OptionError("corruptions", fmt::format("names {} more than once", name));
      }
      known = known && count(standard_corruptions()) == 1;
    }
    if (!known) return;
    std::vector<std::int64_t> severities = options_.severities;
    std::sort(severities.begin(), severities.end());
    const bool whole = options_.corruptions.size() == standard_corruptions().size() &&
                       severities == std::vector<std::int64_t>{1, 2, 3, 4, 5};
    over_alexnet_ = whole ? "mce" : "error_over_alexnet";
  }

  std::vector<MetricInfo> metrics() const override {
    std::vector<MetricInfo> all = {{"accuracy", Better::higher, "share"},
                                   {"error", Better::lower, "share"}};
    if (!over_alexnet_.empty()) all.push_back({over_alexnet_, Better::lower, ""});
    for (const std::string& name : options_.corruptions) {
      all.push_back({"error/" + name, Better::lower, "share"});
    }
    return all;
  }

  Metrics evaluate(Evaluation& evaluation) const override {
    const std::vector<Cell> cells = cells_of();
    std::vector<double> wrong(cells.size(), 0);
    double images = 0;
    evaluation.batches(evaluation.split, [&](const Batch& batch) {
      const std::vector<Pixels> pictures = pictures_of(batch.fields.at("image"));
      for (std::size_t i = 0; i < cells.size(); ++i) {
        wrong[i] += errors(evaluation.model, batch, pictures, *cells[i].corruption);
      }
      images += static_cast<double>(batch.size);
    });
    if (images == 0) throw Error("evaluation: there were no images; is the split empty?");
    const auto severities = static_cast<double>(options_.severities.size());
    const auto kinds = static_cast<double>(options_.corruptions.size());
    std::map<std::string, double> by_kind;
    double all = 0;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      by_kind[cells[i].name] += wrong[i];
      all += wrong[i];
    }
    const double seen = images * severities * kinds;
    Metrics metrics = {{"error", all / seen}, {"accuracy", (seen - all) / seen}};
    for (const auto& [name, count] : by_kind) {
      const double error = count / (images * severities);
      metrics["error/" + name] = error;
      if (!over_alexnet_.empty()) metrics[over_alexnet_] += error / alexnet_error(name) / kinds;
    }
    return metrics;
  }

 private:
  struct Cell {
    std::string name;
    std::shared_ptr<const Corruption> corruption;
  };

  std::vector<Cell> cells_of() const {
    std::vector<Cell> cells;
    for (const std::string& name : options_.corruptions) {
      for (const std::int64_t severity : options_.severities) {
        CorruptionOptions options;
        options.corruption = name;
        options.severity = severity;
        options.constants = options_.constants;
        options.frost = options_.frost;
        cells.push_back(
            {name, std::make_shared<Corruption>(options, image_.shape[1], image_.shape[2])});
      }
    }
    return cells;
  }

  /// Normalised images as bytes again.
  std::vector<Pixels> pictures_of(const Tensor& images) const {
    const auto channel = [&](const std::vector<double>& values) {
      return at::tensor(values, at::kDouble).view({1, -1, 1, 1});
    };
    const Tensor levels =
        images.to(at::kCPU, at::kDouble) * channel(image_.deviation) + channel(image_.mean);
    const Tensor bytes =
        (levels * 255).round().clamp(0, 255).to(at::kByte).permute({0, 2, 3, 1}).contiguous();
    std::vector<Pixels> pictures;
    for (std::int64_t i = 0; i < bytes.size(0); ++i) {
      Pixels picture(bytes.size(1), bytes.size(2), bytes.size(3));
      const auto* from = bytes[i].data_ptr<std::uint8_t>();
      picture.bytes.assign(from, from + picture.bytes.size());
      pictures.push_back(std::move(picture));
    }
    return pictures;
  }

  double errors(Model& model, const Batch& batch, const std::vector<Pixels>& pictures,
                const Corruption& corruption) const {
    const Tensor& clean = batch.fields.at("image");
    const Tensor corrupted = at::empty(clean.sizes(), at::kFloat);
    const PixelMap map(image_.mean, image_.deviation);
    const std::int64_t each = corrupted.numel() / corrupted.size(0);
    auto* out = corrupted.data_ptr<float>();
    at::parallel_for(0, batch.size, 4, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        Pixels picture = pictures[static_cast<std::size_t>(i)];
        corruption.apply(picture);
        write_image(picture, map, /*flip=*/false, out + i * each);
      }
    });
    Batch seen;
    seen.size = batch.size;
    seen.fields.set("image", corrupted.to(clean.options()));
    ForwardPass pass;
    const NamedTensors outputs = model.forward(seen, pass);
    loss(outputs, batch);  // refuses classes that are none
    const Tensor right = right_of(outputs.at("logits"), batch.fields.at("class"));
    return static_cast<double>(batch.size) - right.sum().item<double>();
  }

  ImageCorruptionsOptions options_;
  FieldInfo image_;
  std::string over_alexnet_;  ///< the metric's name; empty: not all of its errors are known
};

}  // namespace

ATTNLAB_PLUGIN(task, ImageCorruptions, ImageCorruptionsOptions,
               {.id = "attnlab/image_corruptions",
                .version = "1.1.0",
                .summary = "errors under the corruptions of ImageNet-C, and mCE",
                .citation = "Hendrycks & Dietterich, ICLR 2019, arXiv:1903.12261",
                .licence = "Apache-2.0",
                .takes = {"logits", "image", "class"}})

}  // namespace attnlab
