#include "framework/data/pictures/labelled_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>

#include "framework/base/error.h"
#include "framework/data/cache.h"
#include "framework/data/long_work.h"
#include "framework/data/pictures/image_file.h"

namespace attnlab {
namespace {

/// The size of a picture; of a PNG by its first bytes, without decoding it.
PictureSize size_of_picture(const std::string& path) {
  std::array<char, 24> head{};
  std::ifstream in(path, std::ios::binary);
  constexpr std::string_view kPng = "\x89PNG\r\n\x1a\n";
  if (in.read(head.data(), head.size()) && std::string_view(head.data(), 8) == kPng) {
    const auto number = [&](std::size_t at) {
      std::int64_t value = 0;
      for (std::size_t i = at; i < at + 4; ++i) value = value << 8 | std::uint8_t(head[i]);
      return value;
    };
    return {number(20), number(16)};
  }
  const ImageFile file(path);
  return {file.height(), file.width()};
}

}  // namespace

LabelledFiles::LabelledFiles(std::vector<LabelledFile> files, std::shared_ptr<const LabelRule> rule,
                             const std::string& key)
    : files_(std::move(files)), rule_(std::move(rule)) {
  table_ = cached("label_maps", key, [this] {
             return NamedTensors{{"table", table()}};
           }).at("table");
}

Tensor LabelledFiles::table() const {
  const auto classes = static_cast<std::int64_t>(rule_->class_names.size());
  const Tensor table = at::zeros({size(), 2 + classes}, at::kLong);
  auto* rows = table.data_ptr<std::int64_t>();
  in_parallel(fmt::format("reading {} label maps", size()), size(), [&](std::int64_t i) {
    const LabelMap map = read(i);
    const PictureSize own = size_of_picture(file(i).picture);
    if (own.height != map.height || own.width != map.width) {
      throw DataError(fmt::format(
          "{}: has {} x {} pixels, and its picture {} has {} x {}; a label map must have its "
          "picture's size",
          file(i).labels, map.height, map.width, file(i).picture, own.height, own.width));
    }
    std::int64_t* row = rows + i * (2 + classes);
    row[0] = map.height;
    row[1] = map.width;
    for (const std::int16_t label : map.classes) {
      if (label >= 0) ++row[2 + label];
    }
  });
  return table;
}

PictureSize LabelledFiles::size_of(std::int64_t index) const {
  const auto* row = table_.data_ptr<std::int64_t>() + index * table_.size(1);
  return {row[0], row[1]};
}

std::vector<std::int64_t> LabelledFiles::pixels_by_class() const {
  const Tensor sums = table_.narrow(1, 2, table_.size(1) - 2).sum(0);
  const auto* counts = sums.data_ptr<std::int64_t>();
  return {counts, counts + sums.numel()};
}

Pixels LabelledFiles::picture(std::int64_t index) const {
  const PictureSize known = size_of(index);
  ImageFile image(file(index).picture);
  if (image.height() != known.height || image.width() != known.width) {
    throw DataError(fmt::format("{}: has {} x {} pixels, and its label map has {} x {}",
                                file(index).picture, image.height(), image.width(), known.height,
                                known.width));
  }
  ImageFile::Part part = image.read({0, 0, known.height, known.width});
  if (part.box == Box{0, 0, part.pixels.height, part.pixels.width}) return std::move(part.pixels);
  Pixels whole(part.box.height, part.box.width, part.pixels.channels);
  for (std::int64_t y = 0; y < whole.height; ++y) {
    const std::uint8_t* from =
        part.pixels.row(part.box.top + y) + part.box.left * part.pixels.channels;
    std::copy_n(from, whole.width * whole.channels, whole.row(y));
  }
  return whole;
}

LabelMap LabelledFiles::read(std::int64_t index) const {
  const std::string& path = file(index).labels;
  return labels_of(read_label_png(path), *rule_, path);
}

LabelMap LabelledFiles::labels(std::int64_t index) const {
  LabelMap map = read(index);
  const PictureSize known = size_of(index);
  if (map.height == known.height && map.width == known.width) return map;
  throw DataError(fmt::format("{}: has {} x {} pixels, and had {} x {} when the data were opened",
                              file(index).labels, map.height, map.width, known.height,
                              known.width));
}

}  // namespace attnlab
