#include "framework/data/segmentation/labelled_pictures.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/data/image/resize.h"
#include "framework/data/segmentation/photometric.h"
#include "framework/tensor/kept_memory.h"

namespace attnlab {
namespace {

/// A part of a picture at another size.
Pixels framed(const Pixels& picture, const PictureSize& whole, const Box& part) {
  if (picture.height != whole.height || picture.width != whole.width) {
    return resized(picture, {0, 0, picture.height, picture.width}, whole.height, whole.width,
                   Filter::bilinear, part);
  }
  Pixels out(part.height, part.width, picture.channels);
  for (std::int64_t y = 0; y < part.height; ++y) {
    const std::uint8_t* from = picture.row(part.top + y) + part.left * picture.channels;
    std::copy_n(from, part.width * picture.channels, out.row(y));
  }
  return out;
}

/// [H, W] int64, of at least the labels' size; -1 beyond them.
Tensor label_tensor(const LabelMap& labels, bool flip, const PictureSize& size) {
  const Tensor out = empty_kept({size.height, size.width}, at::kLong);
  auto* to = out.data_ptr<std::int64_t>();
  std::fill_n(to, out.numel(), std::int64_t{kUnlabelled});
  for (std::int64_t y = 0; y < labels.height; ++y, to += size.width) {
    const std::int16_t* row = labels.row(y);
    if (flip) {
      std::reverse_copy(row, row + labels.width, to);
    } else {
      std::copy_n(row, labels.width, to);
    }
  }
  return out;
}

Tensor size_tensor(const PictureSize& size) {
  return at::tensor({size.height, size.width}, at::kLong);
}

/// The one size that all have; -1 where they differ, or where there are none.
class OneSize {
 public:
  void add(const PictureSize& size) {
    if (!seen_) size_ = size;
    if (!(size_ == size)) size_ = {-1, -1};
    seen_ = true;
  }
  std::vector<std::int64_t> shape() const { return {size_.height, size_.width}; }

 private:
  bool seen_ = false;
  PictureSize size_{-1, -1};
};

}  // namespace

Tensor shown_picture(const Pixels& stored, const LabelFramingOptions& framing,
                     const PixelMap& map) {
  const PictureSize size = shown_size({stored.height, stored.width}, framing);
  const Tensor image = empty_kept({3, size.height, size.width});
  write_image(framed(stored, size, {0, 0, size.height, size.width}), map, /*flip=*/false,
              image.data_ptr<float>());
  return image;
}

LabelledPictures::LabelledPictures(LabelledSplits splits, const LabelledPictureOptions& options)
    : splits_(std::move(splits)),
      options_(options),
      map_(PixelMap::of_options(options.mean, options.deviation)) {
  check(static_cast<const LabelFramingOptions&>(options));
  if (splits_.train == nullptr || splits_.train->size() == 0) {
    throw DataError("dataset '" + splits_.name + "': there are no pictures to train on");
  }
  if (options.corruption.any() && options.corruption.constants == "yam") {
    throw OptionError("corruption_constants",
                      "yam is of images that all have one size; take imagenet");
  }
  check_crop();
  info_.name = splits_.name;
  info_.source = splits_.source;
  info_.class_names = splits_.class_names;
  info_.classes = static_cast<std::int64_t>(splits_.class_names.size());
  // What evaluations show; what training draws changes nothing in the data.
  std::string shown = fmt::format("{};{};{};", splits_.name, options.short_side, options.long_side);
  for (const auto* numbers : {&options.mean, &options.deviation}) {
    for (const double number : *numbers) shown += shortest(number) + ";";
  }
  if (const CorruptionOptions& by = options.corruption; by.any()) {
    shown += fmt::format("{};{};{};{};", by.corruption, by.severity, by.splits, by.constants);
  }
  info_.fingerprint = hex(fingerprint(shown, splits_.fingerprint));
  describe_fields();
}

const LabelledSet* LabelledPictures::set(Split split) const {
  return (split == Split::train        ? splits_.train
          : split == Split::validation ? splits_.validation
                                       : splits_.test)
      .get();
}

std::int64_t LabelledPictures::size(Split split) const {
  return set(split) == nullptr ? 0 : set(split)->size();
}

void LabelledPictures::check_crop() const {
  if (options_.crop == 0) return;
  for (std::int64_t i = 0; i < splits_.train->size(); ++i) {
    const PictureSize most = shown_size(splits_.train->size_of(i), options_, options_.ratio[1]);
    const std::int64_t side = std::min(most.height, most.width);
    if (side >= options_.crop) continue;
    throw OptionError(
        "crop",
        fmt::format("{} pixels are more than {} has: it is shown with {} x {} at most, so "
                    "that every crop of it would be padded; take at most {}, or raise "
                    "`ratio` or `short_side`",
                    options_.crop, splits_.train->name_of(i), most.height, most.width, side));
  }
}

void LabelledPictures::describe_fields() {
  OneSize images, labels;
  for (const Split split : {Split::train, Split::validation, Split::test}) {
    for (std::int64_t i = 0; i < size(split); ++i) {
      const PictureSize stored = set(split)->size_of(i);
      images.add(shown_size(stored, options_));
      labels.add(stored);
      if (split != Split::train) continue;
      const PictureSize trained = options_.crop > 0
                                      ? PictureSize{options_.crop, options_.crop}
                                      : shown_size(stored, options_, options_.ratio[0]);
      images.add(trained);
      labels.add(trained);
    }
  }
  FieldInfo image{"image", {3}, at::kFloat};
  for (const std::int64_t side : images.shape()) image.shape.push_back(side);
  image.mean = options_.mean;
  image.deviation = options_.deviation;
  info_.fields = {image,
                  {"shown", {2}, at::kLong},
                  {"label_map", labels.shape(), at::kLong, {}, info_.classes},
                  {"size", {2}, at::kLong}};
}

Pixels LabelledPictures::stored(Split split, std::int64_t index) const {
  Pixels pixels = set(split)->picture(index);
  if (options_.corruption.covers(split == Split::test)) {
    Corruption(options_.corruption, pixels.height, pixels.width).apply(pixels);
  }
  return pixels;
}

Tensor LabelledPictures::image_of(const Pixels& shown, bool flip, const PictureSize& size) const {
  Tensor image = empty_kept({3, size.height, size.width});
  if (shown.height == size.height && shown.width == size.width) {
    write_image(shown, map_, flip, image.data_ptr<float>());
    return image;
  }
  const Tensor part = at::empty({3, shown.height, shown.width});
  write_image(shown, map_, flip, part.data_ptr<float>());
  image.zero_().narrow(1, 0, shown.height).narrow(2, 0, shown.width).copy_(part);
  return image;
}

NamedTensors LabelledPictures::make_example(Split split, std::int64_t index,
                                            Random* augmentation) const {
  const LabelMap labels = set(split)->labels(index);
  const PictureSize own{labels.height, labels.width};
  if (augmentation == nullptr) {
    const Tensor image = shown_picture(stored(split, index), options_, map_);
    return {{"image", image},
            {"shown", size_tensor({image.size(1), image.size(2)})},
            {"label_map", label_tensor(labels, /*flip=*/false, own)},
            {"size", size_tensor(own)}};
  }
  const LabelFraming framing = drawn_framing(labels, options_, *augmentation);
  Pixels pixels = framed(stored(split, index), framing.whole, framing.part);
  if (options_.photometric) distort_colours(pixels, *augmentation);
  const PictureSize size = options_.crop > 0 ? PictureSize{options_.crop, options_.crop}
                                             : PictureSize{framing.part.height, framing.part.width};
  return {{"image", image_of(pixels, framing.flip, size)},
          {"shown", size_tensor(size)},
          {"label_map", label_tensor(framing.labels, framing.flip, size)},
          {"size", size_tensor(size)}};
}

}  // namespace attnlab
