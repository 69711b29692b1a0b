// Synthetic images: oriented gratings under noise. Real enough to train on, for machines without
// data; never evidence about attention.
//
//   image[c, y, x] = sin(2 pi (u cos t_k + w sin t_k) / wavelength) + noise * n
//   u = x - W/2 + dx, w = y - H/2 + dy, dx and dy uniform in [-shift, shift]
//   t_k = pi k / classes, wavelength = size / 3, n uniform with mean 0 and variance 1
//
// Class k is the orientation. An example is a function of the seed, its split and its index, made
// when it is asked for. Cost: one random number a pixel and channel.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/data/image/multi_crop.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct SyntheticImagesOptions {
  std::int64_t classes = 10;
  std::int64_t size = 28;
  std::int64_t channels = 1;
  std::int64_t train = 6000;
  std::int64_t validation = 0;
  std::int64_t test = 1000;
  double noise = 0.5;
  double shift = 1.5;
  MultiCropOptions multi_crop;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("classes", classes, range(1, 1000), "orientations of the grating");
    v("size", size, range(4, 4096), "height and width in pixels");
    v("channels", channels, range(1, 16), "channels; noise differs between them");
    v("train", train, range(1, 1e9), "training images");
    v("validation", validation, range(0, 1e9), "validation images");
    v("test", test, range(0, 1e9), "test images");
    v("noise", noise, range(0, 100), "standard deviation of the noise; the grating's is 0.7");
    v("shift", shift, range(0, 4096), "largest displacement in pixels");
    v("multi_crop", multi_crop, "several crops of each image, for self-supervised training");
  }
};

class SyntheticImages final : public Dataset {
 public:
  SyntheticImages(const SyntheticImagesOptions& options, const DatasetSetup& setup)
      : options_(options), streams_(setup.streams) {
    info_.name = "synthetic_images";
    info_.classes = options.classes;
    info_.source = "oriented gratings, made by rule";
    info_.fields = {{"image", {options.channels, options.size, options.size}, at::kFloat},
                    {"class", {}, at::kLong}};
    // No value is beyond 1 + noise sqrt(3): as pictures, that is white and its negative black.
    const double largest = 1 + options.noise * std::sqrt(3.0);
    info_.fields[0].mean.assign(static_cast<std::size_t>(options.channels), 0.5);
    info_.fields[0].deviation.assign(static_cast<std::size_t>(options.channels), 0.5 / largest);
    std::uint64_t hash = streams_.key("synthetic");
    for (const double value : {double(options.classes), double(options.size),
                               double(options.channels), options.noise, options.shift}) {
      hash = fingerprint(shortest(value) + ";", hash);
    }
    info_.fingerprint = hex(hash);
    for (std::int64_t k = 0; k < options.classes; ++k) {
      info_.class_names.push_back(shortest(180.0 * double(k) / double(options.classes)) +
                                  " degrees");
    }
    crops_ = multi_crop_of(options.multi_crop, Filter::bicubic, info_);
  }

  const DatasetInfo& info() const override { return info_; }

  std::int64_t size(Split split) const override {
    if (split == Split::train) return options_.train;
    return split == Split::validation ? options_.validation : options_.test;
  }

  NamedTensors make_example(Split split, std::int64_t index, Random* augmentation) const override {
    Random random = streams_.stream("synthetic", static_cast<std::uint64_t>(split),
                                    static_cast<std::uint64_t>(index));
    const std::int64_t orientation = random.below(options_.classes);
    Tensor image = at::empty({options_.channels, options_.size, options_.size}, at::kFloat);
    draw(orientation, random, image.data_ptr<float>());
    Tensor label = at::empty({}, at::kLong);
    *label.data_ptr<std::int64_t>() = orientation;
    NamedTensors example = {{"image", image}, {"class", std::move(label)}};
    if (crops_ != nullptr) crops_->add(picture_of(image), augmentation, split, index, example);
    return example;
  }

 private:
  /// The image in bytes, of which crops are made.
  Pixels picture_of(const Tensor& image) const {
    const std::int64_t channels = options_.channels, plane = options_.size * options_.size;
    Pixels out(options_.size, options_.size, channels);
    const float* values = image.data_ptr<float>();
    const double mean = info_.fields[0].mean[0], deviation = info_.fields[0].deviation[0];
    for (std::int64_t i = 0; i < plane * channels; ++i) {
      const double raw = values[(i % channels) * plane + i / channels] * deviation + mean;
      out.bytes[static_cast<std::size_t>(i)] =
          static_cast<std::uint8_t>(std::lround(255 * std::clamp(raw, 0.0, 1.0)));
    }
    return out;
  }

  void draw(std::int64_t orientation, Random& random, float* out) const {
    using std::numbers::pi;
    const auto size = static_cast<double>(options_.size);
    const double angle = pi * double(orientation) / double(options_.classes);
    const double wave = 2 * pi * 3 / size;
    const double dx = options_.shift * (2 * random.uniform() - 1) - size / 2;
    const double dy = options_.shift * (2 * random.uniform() - 1) - size / 2;
    // sin(a + b) = sin a cos b + cos a sin b, with a of the column and b of the row
    std::vector<double> sines, cosines;
    for (std::int64_t x = 0; x < options_.size; ++x) {
      sines.push_back(std::sin(wave * (double(x) + dx) * std::cos(angle)));
      cosines.push_back(std::cos(wave * (double(x) + dx) * std::cos(angle)));
    }
    const double spread = options_.noise * std::sqrt(12.0);  // of a uniform number of variance 1
    for (std::int64_t c = 0; c < options_.channels; ++c) {
      for (std::int64_t y = 0; y < options_.size; ++y) {
        const double row = wave * (double(y) + dy) * std::sin(angle);
        const double sine = std::sin(row), cosine = std::cos(row);
        for (std::size_t x = 0; x < sines.size(); ++x) {
          const double level = sines[x] * cosine + cosines[x] * sine;
          *out++ = static_cast<float>(level + spread * (random.uniform() - 0.5));
        }
      }
    }
  }

  SyntheticImagesOptions options_;
  RandomStreams streams_;
  DatasetInfo info_;
  std::unique_ptr<const MultiCrop> crops_;  ///< null: none
};

}  // namespace

ATTNLAB_PLUGIN(dataset, SyntheticImages, SyntheticImagesOptions,
               {.id = "attnlab/synthetic_images",
                .version = "1.0.0",
                .summary = "oriented gratings under noise, for machines without data",
                .licence = "CC0-1.0",
                .gives = {"image", "class", "crop@global?", "crop@local?", "masked@global?"}})

}  // namespace attnlab
