#include "framework/data/image/multi_crop.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/base/error.h"
#include "framework/data/image/colour.h"
#include "framework/tensor/kept_memory.h"

namespace attnlab {
namespace {

constexpr int kTries = 10;
constexpr const char* kGlobal = "crop@global";
constexpr const char* kLocal = "crop@local";
constexpr const char* kMasked = "masked@global";

std::string option(const char* name) { return std::string("multi_crop.") + name; }

void check_pair(const char* name, const std::vector<double>& pair) {
  if (pair.size() == 2 && pair[0] > 0 && pair[0] <= pair[1]) return;
  throw OptionError(option(name), "must be two numbers above 0, the least first");
}

void check_masks(const MultiCropOptions& o) {
  if (o.mask_ratio.empty()) {
    throw OptionError(option("mask_ratio"), "is empty; give some shares, as [0, 0.3]");
  }
  if (o.mask_spread.size() != o.mask_ratio.size()) {
    throw OptionError(option("mask_spread"),
                      fmt::format("has {} numbers and mask_ratio {}; give one for each, 0 for none",
                                  o.mask_spread.size(), o.mask_ratio.size()));
  }
  for (std::size_t i = 0; i < o.mask_ratio.size(); ++i) {
    const double ratio = o.mask_ratio[i], spread = o.mask_spread[i];
    if (ratio - spread >= 0 && ratio + spread <= 1) continue;
    throw OptionError(option("mask_ratio"),
                      fmt::format("{:.3g} may become {:.3g} to {:.3g} by mask_spread, and shares "
                                  "are 0 to 1; make mask_spread smaller",
                                  ratio, ratio - spread, ratio + spread));
  }
  check_pair("mask_aspect", o.mask_aspect);
}

void check(const MultiCropOptions& o, const std::vector<std::int64_t>& image) {
  if (o.global_crops < 2) {
    throw OptionError(option("global_crops"),
                      fmt::format("{}: a crop is compared with another one; take 2 or more, or 0 "
                                  "for no crops",
                                  o.global_crops));
  }
  check_pair("global_scale", o.global_scale);
  check_pair("local_scale", o.local_scale);
  check_pair("ratio", o.ratio);
  check_pair("blur_radius", o.blur_radius);
  if (o.blur.size() != 3) {
    throw OptionError(option("blur"),
                      "needs three numbers: of the first global crop, the other ones, local crops");
  }
  const std::int64_t shorter = std::min(image[1], image[2]);
  if (o.local_crops > 0 && o.local_size > shorter) {
    throw OptionError(option("local_size"),
                      fmt::format("{} is larger than the images, {} x {} pixels; set it to at most "
                                  "{}",
                                  o.local_size, image[1], image[2], shorter));
  }
  if (o.patch_size == 0) return;
  if (image[1] % o.patch_size != 0 || image[2] % o.patch_size != 0) {
    throw OptionError(option("patch_size"),
                      fmt::format("{} does not divide images of {} x {} pixels; take a common "
                                  "divisor of height and width",
                                  o.patch_size, image[1], image[2]));
  }
  check_masks(o);
}

bool happens(double probability, Random& random) { return random.uniform() < probability; }

double drawn(const std::vector<double>& range, Random& random) {
  return random.uniform(range[0], range[1]);
}

void jitter(Pixels& image, const MultiCropOptions& o, Random& random) {
  for (const std::int64_t which : permutation(4, Random(random()))) {
    const double change = random.uniform(-1, 1);
    if (which == 0) change_brightness(image, 1 + o.brightness * change);
    if (which == 1) change_contrast(image, 1 + o.contrast * change);
    if (which == 2) change_saturation(image, 1 + o.saturation * change);
    if (which == 3) turn_hue(image, 360 * o.hue * change);
  }
}

/// So many of the patches, in no order.
std::vector<std::uint8_t> draw_any(std::int64_t patches, double most, Random& random) {
  std::vector<std::uint8_t> hidden(static_cast<std::size_t>(patches), 0);
  std::vector<std::int64_t> order = permutation(patches, Random(random()));
  order.resize(static_cast<std::size_t>(most));
  for (const std::int64_t patch : order) hidden[static_cast<std::size_t>(patch)] = 1;
  return hidden;
}

}  // namespace

std::vector<std::uint8_t> draw_blocks(std::int64_t rows, std::int64_t columns, double most,
                                      const std::vector<double>& aspect, Random& random) {
  std::vector<std::uint8_t> hidden(static_cast<std::size_t>(rows * columns), 0);
  const std::int64_t third = std::min(rows, columns) / 3;
  const auto least = static_cast<double>(third * third);
  /// @returns how many patches it has hidden; 0: it did not fit.
  const auto lay = [&](double room) -> std::int64_t {
    const double area = random.uniform(least, room);
    const double shape = std::exp(random.uniform(std::log(aspect[0]), std::log(aspect[1])));
    const std::int64_t height = std::llround(std::sqrt(area * shape));
    const std::int64_t width = std::llround(std::sqrt(area / shape));
    if (height >= rows || width >= columns) return 0;
    const std::int64_t top = random.below(rows - height + 1);
    const std::int64_t left = random.below(columns - width + 1);
    const auto each = [&](const auto& use) {
      for (std::int64_t y = top; y < top + height; ++y) {
        for (std::int64_t x = left; x < left + width; ++x) {
          use(hidden[static_cast<std::size_t>(y * columns + x)]);
        }
      }
    };
    std::int64_t added = 0;
    each([&](std::uint8_t one) { added += one == 0 ? 1 : 0; });
    if (static_cast<double>(added) > room) return 0;
    each([](std::uint8_t& one) { one = 1; });
    return added;
  };
  double room = most;
  while (room > 0) {
    std::int64_t added = 0;
    for (int i = 0; i < kTries && added == 0; ++i) added = lay(room);
    if (added == 0) break;
    room -= static_cast<double>(added);
  }
  return hidden;
}

MultiCrop::MultiCrop(const MultiCropOptions& options, const FieldInfo& image, Filter filter)
    : options_(options), map_(image.mean, image.deviation), filter_(filter) {
  const MultiCropOptions& o = options_;
  check(o, image.shape);
  const auto add = [&](const char* name, std::int64_t count, std::int64_t height,
                       std::int64_t width) {
    FieldInfo field{name, {count, image.shape[0], height, width}, at::kFloat};
    field.mean = image.mean;
    field.deviation = image.deviation;
    fields_.push_back(field);
  };
  add(kGlobal, o.global_crops, image.shape[1], image.shape[2]);
  if (o.patch_size > 0) {
    rows_ = image.shape[1] / o.patch_size;
    columns_ = image.shape[2] / o.patch_size;
    fields_.push_back({kMasked, {o.global_crops, rows_ * columns_}, at::kBool});
  }
  if (o.local_crops > 0) add(kLocal, o.local_crops, o.local_size, o.local_size);
}

void MultiCrop::add(const Pixels& picture, Random* augmentation, Split split, std::int64_t index,
                    NamedTensors& example) const {
  Random fixed = RandomStreams(0).stream("crops", static_cast<std::uint64_t>(split),
                                         static_cast<std::uint64_t>(index));
  Random& random = augmentation == nullptr ? fixed : *augmentation;
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    const std::string& name = fields_[i].name;
    if (name == kMasked) {
      example.set(name, masks(random));
    } else {
      const bool global = name == kGlobal;
      const std::vector<double>& scale = global ? options_.global_scale : options_.local_scale;
      example.set(name, crops(picture, i, scale, global, random));
    }
  }
}

Tensor MultiCrop::crops(const Pixels& picture, std::size_t field, const std::vector<double>& scale,
                        bool global, Random& random) const {
  const MultiCropOptions& o = options_;
  const std::vector<std::int64_t>& shape = fields_[field].shape;
  ImageAugmentation part;
  part.crop_scale = scale;
  part.crop_ratio = o.ratio;
  Tensor out = empty_kept(shape);
  for (std::int64_t i = 0; i < shape[0]; ++i) {
    const Box box = draw_crop(part, picture.height, picture.width, random);
    Pixels crop = resized(picture, box, shape[2], shape[3], filter_);
    const bool flip = happens(o.flip, random);
    const double blur = o.blur[global ? (i == 0 ? 0 : 1) : 2];
    change_colours(crop, blur, global && i > 0 ? o.solarise : 0, random);
    write_image(crop, map_, flip, out.data_ptr<float>() + i * shape[1] * shape[2] * shape[3]);
  }
  return out;
}

void MultiCrop::change_colours(Pixels& crop, double blurred, double solarised,
                               Random& random) const {
  const MultiCropOptions& o = options_;
  if (happens(o.jitter, random)) jitter(crop, o, random);
  if (happens(o.grey, random)) make_grey(crop);
  if (happens(blurred, random)) blur(crop, drawn(o.blur_radius, random));
  if (happens(solarised, random)) solarise(crop, 128);
}

Tensor MultiCrop::masks(Random& random) const {
  const MultiCropOptions& o = options_;
  const std::int64_t patches = rows_ * columns_;
  Tensor out = at::empty({o.global_crops, patches}, at::kBool);
  for (std::int64_t i = 0; i < o.global_crops; ++i) {
    const auto which =
        static_cast<std::size_t>(random.below(static_cast<std::int64_t>(o.mask_ratio.size())));
    const double spread = o.mask_spread[which];
    const double most =
        static_cast<double>(patches) * (o.mask_ratio[which] + random.uniform(-spread, spread));
    const std::vector<std::uint8_t> hidden =
        o.mask_shape == "block" ? draw_blocks(rows_, columns_, most, o.mask_aspect, random)
                                : draw_any(patches, most, random);
    std::copy(hidden.begin(), hidden.end(), out.data_ptr<bool>() + i * patches);
  }
  return out;
}

std::unique_ptr<const MultiCrop> multi_crop_of(const MultiCropOptions& options, Filter filter,
                                               DatasetInfo& info) {
  if (options.global_crops == 0) return nullptr;
  auto crops = std::make_unique<const MultiCrop>(options, info.field("image"), filter);
  info.fields.insert(info.fields.end(), crops->fields().begin(), crops->fields().end());
  return crops;
}

}  // namespace attnlab
