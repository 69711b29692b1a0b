#include "framework/data/image/image.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "framework/base/files.h"
#include "framework/base/share.h"
#include "framework/base/text.h"
#include "framework/data/formats/files.h"
#include "framework/data/image/resize.h"

namespace attnlab {
namespace {

struct Statistics {
  std::vector<double> mean, deviation;
};

/// Mean and standard deviation of each channel, of pixels in [0, 1].
Statistics measure(const LabelledImages& images, const ImageShape& shape) {
  Statistics statistics;
  const std::int64_t plane = shape.height * shape.width;
  const auto count = static_cast<std::int64_t>(images.labels.size());
  for (std::int64_t channel = 0; channel < shape.channels; ++channel) {
    std::array<std::int64_t, 256> histogram{};
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint8_t* pixels = images.image(i) + channel * plane;
      for (std::int64_t k = 0; k < plane; ++k) ++histogram[pixels[k]];
    }
    double sum = 0, squares = 0;
    std::int64_t levels = 0;
    for (std::size_t value = 0; value < 256; ++value) {
      levels += histogram[value] > 0 ? 1 : 0;
      const double level = static_cast<double>(value) / 255.0;
      sum += level * static_cast<double>(histogram[value]);
      squares += level * level * static_cast<double>(histogram[value]);
    }
    const auto total = static_cast<double>(count * plane);
    const double mean = sum / total;
    const double variance = std::max(0.0, squares / total - mean * mean);
    statistics.mean.push_back(mean);
    // Of one level rounding may leave a variance, which is none to divide by.
    statistics.deviation.push_back(levels > 1 && variance > 0 ? std::sqrt(variance) : 1.0);
  }
  return statistics;
}

/// Corrupts the images of one split in their place.
/// @param before  images in the files of the splits before
void corrupt(LabelledImages& images, const ImageShape& shape, const Corruption& corruption,
             std::int64_t before) {
  at::parallel_for(0, images.count(), 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      Pixels image = interleaved(images.image(i), shape);
      corruption.apply(image, images.number(i, before));
      auto* planes = const_cast<std::uint8_t*>(images.image(i));  // of our own bytes
      const std::int64_t plane = shape.height * shape.width;
      for (std::int64_t k = 0; k < plane * shape.channels; ++k) {
        planes[(k % shape.channels) * plane + k / shape.channels] =
            image.bytes[static_cast<std::size_t>(k)];
      }
    }
  });
}

/// The user's value of each channel, or the set's own.
void choose(const char* option, const std::vector<double>& wanted, const ImageShape& shape,
            std::vector<double>& value) {
  if (!wanted.empty() && static_cast<std::int64_t>(wanted.size()) != shape.channels) {
    throw OptionError(option, fmt::format("has {} numbers; the images have {} channels",
                                          wanted.size(), shape.channels));
  }
  if (!wanted.empty()) value = wanted;
}

/// The set with limits, normalisation and fingerprint settled.
ImageSet settle(ImageSet set, const ImageSetOptions& options) {
  const auto limit = [&](LabelledImages& images, std::int64_t count, Split split) {
    if (images.labels.empty()) {
      throw DataError(fmt::format("{}: the {} split of '{}' holds no images", set.info.source,
                                  name_of(split), set.info.name));
    }
    const auto most = static_cast<std::size_t>(count);
    if (count > 0 && most < images.labels.size()) images.labels.resize(most);
  };
  const std::int64_t training_images = set.train.count();  // in the files, whatever is used
  limit(set.train, options.train_limit, Split::train);
  limit(set.test, options.test_limit, Split::test);
  if (set.mean.empty()) {
    const Statistics measured = measure(set.train, set.shape);
    set.mean = measured.mean;
    set.deviation = measured.deviation;
  }
  choose("mean", options.mean, set.shape, set.mean);
  choose("std", options.deviation, set.shape, set.deviation);
  for (const double deviation : set.deviation) {
    if (!(deviation > 0)) throw OptionError("std", shortest(deviation) + " is not above 0");
  }
  if (options.corruption.any()) {
    // Numbers rise: the last test image has the largest.
    const Corruption corruption(options.corruption, set.shape.height, set.shape.width,
                                set.test.number(set.test.count() - 1, training_images) + 1);
    if (options.corruption.covers(/*test=*/false)) corrupt(set.train, set.shape, corruption, 0);
    if (options.corruption.covers(/*test=*/true)) {
      corrupt(set.test, set.shape, corruption, training_images);
    }
  }
  std::uint64_t hash = 0;
  for (const LabelledImages* images : {&set.train, &set.test}) {
    hash = content_fingerprint(images->bytes, hash);
    const auto* labels = reinterpret_cast<const char*>(images->labels.data());
    hash = content_fingerprint({labels, images->labels.size()}, hash);
  }
  set.info.fingerprint = hex(hash);
  FieldInfo image{"image", {set.shape.channels, set.shape.height, set.shape.width}, at::kFloat};
  image.mean = set.mean;
  image.deviation = set.deviation;
  set.info.fields = {image, {"class", {}, at::kLong}};
  return set;
}

}  // namespace

const std::uint8_t* LabelledImages::image(std::int64_t index) const {
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return first + begin + static_cast<std::size_t>(index) * stride;
}

void check_label(const std::string& path, std::size_t record, std::size_t offset,
                 std::int64_t label, std::int64_t classes) {
  if (label < classes) return;
  throw DataError(
      fmt::format("{}: record {} (byte {}) has label {}, but there are {} classes (0 to {}); the "
                  "file is damaged or of another dataset",
                  path, record, offset, label, classes, classes - 1));
}

ImageDataset::ImageDataset(ImageSet set, const ImageSetOptions& options, const DatasetSetup& setup)
    : set_(settle(std::move(set), options)),
      augmentation_(options.augmentation),
      map_(set_.mean, set_.deviation),
      crops_(multi_crop_of(options.multi_crop, Filter::bicubic, set_.info)) {
  check(augmentation_);
  split_train(options, setup.streams.stream("split"));
}

void ImageDataset::split_train(const ImageSetOptions& options, Random random) {
  const auto count = static_cast<std::int64_t>(set_.train.labels.size());
  const double validation = options.validation;
  const std::int64_t held = wanted_of("validation", validation, count);
  if (held == count) {
    throw OptionError("validation",
                      fmt::format("{} leaves none of the {} training images to train on",
                                  shortest(validation), count));
  }
  train_ = permutation(count, random);
  const auto middle = train_.begin() + held;
  validation_.assign(train_.begin(), middle);
  train_.erase(train_.begin(), middle);
  std::sort(train_.begin(), train_.end());
  std::sort(validation_.begin(), validation_.end());
  const std::vector<std::int64_t> labels(set_.train.labels.begin(), set_.train.labels.end());
  train_ = few_of_each_class(train_, labels, set_.info, options.few_shot);
}

std::int64_t ImageDataset::size(Split split) const {
  if (split == Split::test) return static_cast<std::int64_t>(set_.test.labels.size());
  return static_cast<std::int64_t>((split == Split::train ? train_ : validation_).size());
}

NamedTensors ImageDataset::make_example(Split split, std::int64_t index,
                                        Random* augmentation) const {
  const LabelledImages& images = split == Split::test ? set_.test : set_.train;
  const std::int64_t asked = index;
  if (split == Split::train) index = train_[static_cast<std::size_t>(index)];
  if (split == Split::validation) index = validation_[static_cast<std::size_t>(index)];
  const ImageMove move = augmentation ? draw_move(augmentation_, *augmentation) : ImageMove{};
  const ImageShape& shape = set_.shape;
  Tensor image = at::empty({shape.channels, shape.height, shape.width}, at::kFloat);
  if (augmentation != nullptr && augmentation_.changes_pixels()) {
    Pixels pixels = interleaved(images.image(index), shape);
    if (augmentation_.resized_crop) {
      const Box part = draw_crop(augmentation_, shape.height, shape.width, *augmentation);
      pixels = resized(pixels, part, shape.height, shape.width, Filter::bicubic);
    }
    write_augmented(std::move(pixels), augmentation_, move, map_, *augmentation,
                    image.data_ptr<float>());
  } else {
    write_image(images.image(index), shape, map_, move, image.data_ptr<float>());
  }
  Tensor label = at::empty({}, at::kLong);
  *label.data_ptr<std::int64_t>() = images.labels[static_cast<std::size_t>(index)];
  NamedTensors example = {{"image", std::move(image)}, {"class", std::move(label)}};
  if (crops_ != nullptr) {
    crops_->add(interleaved(images.image(index), shape), augmentation, split, asked, example);
  }
  return example;
}

}  // namespace attnlab
