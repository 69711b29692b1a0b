#include "framework/data/image/idx_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "framework/data/formats/detail/promised_size.h"
#include "framework/data/formats/files.h"

namespace attnlab {
namespace {

std::uint32_t big_endian(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  }
  return value;
}

struct IdxHeader {
  std::vector<std::uint64_t> sizes;
  std::uint64_t bytes = 0;  ///< of all that follows the header; saturates

  /// "60000 x 28 x 28"
  std::string text() const {
    std::string product;
    for (const std::uint64_t size : sizes) {
      product += fmt::format("{}{}", product.empty() ? "" : " x ", size);
    }
    return product;
  }
};

std::size_t header_size(std::size_t dimensions) { return 4 + 4 * dimensions; }

/// @param bytes  the file's beginning, at least a header
/// @throws DataError for another magic number.
IdxHeader read_header(const std::string& path, std::string_view bytes, std::size_t dimensions) {
  const std::uint32_t magic = big_endian(bytes, 0), expected = 0x800 + std::uint32_t(dimensions);
  if (magic != expected) {
    char text[96];
    std::snprintf(text, sizeof text, "begins with 0x%08x where an IDX file of %s has 0x%08x", magic,
                  dimensions == 3 ? "images" : "labels", expected);
    throw DataError(fmt::format("{}: {}; it is damaged or another file", path, text));
  }
  IdxHeader header;
  header.bytes = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    header.sizes.push_back(big_endian(bytes, 4 + 4 * i));
    if (__builtin_mul_overflow(header.bytes, header.sizes.back(), &header.bytes)) {
      header.bytes = ~std::uint64_t{0};
    }
  }
  return header;
}

/// A whole IDX file of `dimensions` sizes, as long as its header says. @param sizes  becomes these
std::string read_idx(const std::string& path, std::size_t dimensions,
                     std::vector<std::uint64_t>& sizes) {
  const std::size_t begin = header_size(dimensions);
  const auto promised = [&](std::string_view first) -> std::optional<std::uint64_t> {
    if (first.size() < begin) return std::nullopt;
    const std::uint64_t size = read_header(path, first, dimensions).bytes;
    return std::max(size, size + begin);  // what saturates stays
  };
  std::string bytes = read_data_file(path, promised);
  if (bytes.size() < begin) {
    throw DataError(
        fmt::format("{}: holds {} bytes, less than an IDX header of {}; fetch the file again", path,
                    bytes.size(), begin));
  }
  const IdxHeader header = read_header(path, bytes, dimensions);
  if (header.bytes != bytes.size() - begin) {
    throw DataError(fmt::format(
        "{}: its header promises {} bytes after the first {}, but {} follow; fetch the file again",
        path, header.text(), begin, bytes.size() - begin));
  }
  sizes = header.sizes;
  return bytes;
}

LabelledImages read_split(const std::string& folder, const std::string& prefix,
                          std::int64_t classes, ImageShape& shape) {
  const std::string images_path =
      with_or_without_gz(fmt::format("{}/{}-images-idx3-ubyte", folder, prefix));
  const std::string labels_path =
      with_or_without_gz(fmt::format("{}/{}-labels-idx1-ubyte", folder, prefix));
  LabelledImages images;
  std::vector<std::uint64_t> sizes, label_sizes;
  images.bytes = read_idx(images_path, 3, sizes);
  shape.height = static_cast<std::int64_t>(sizes[1]);
  shape.width = static_cast<std::int64_t>(sizes[2]);
  images.begin = 16;
  images.stride = sizes[1] * sizes[2];
  if (images.stride == 0) throw DataError(images_path + ": its images have no pixels");

  const std::string labels = read_idx(labels_path, 1, label_sizes);
  const std::uint64_t label_count = label_sizes[0];
  if (label_count != sizes[0]) {
    throw DataError(fmt::format(
        "{}: holds {} labels for the {} images of {}; the two files do not belong together",
        labels_path, label_count, sizes[0], images_path));
  }
  images.labels.assign(labels.begin() + 8, labels.end());
  for (std::size_t i = 0; i < images.labels.size(); ++i) {
    check_label(labels_path, i, 8 + i, images.labels[i], classes);
  }
  return images;
}

void describe_known(ImageSet& set) {
  if (set.info.name == "fashion-mnist") {
    set.mean = {0.2860};
    set.deviation = {0.3530};
    set.info.class_names = {"t-shirt/top", "trouser", "pullover", "dress", "coat",
                            "sandal",      "shirt",   "sneaker",  "bag",   "ankle boot"};
  } else if (set.info.name == "mnist") {
    set.mean = {0.1307};
    set.deviation = {0.3081};
    set.info.class_names = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
  }
  // Names that do not fit the user's number of classes are left out.
  if (static_cast<std::int64_t>(set.info.class_names.size()) != set.info.classes) {
    set.info.class_names.clear();
  }
}

}  // namespace

ImageSet read_idx_images(const std::string& name, std::int64_t classes, const std::string& root) {
  DataSearch search{name,
                    {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                     "t10k-labels-idx1-ubyte"},
                    root,
                    ""};
  if (name == "fashion-mnist") {
    search.hint = "install the Debian package dataset-fashion-mnist";
  }
  ImageSet set;
  set.info.name = name;
  set.info.classes = classes;
  set.info.source = find_data_folder(search);
  describe_known(set);
  set.train = read_split(set.info.source, "train", classes, set.shape);
  ImageShape test_shape;
  set.test = read_split(set.info.source, "t10k", classes, test_shape);
  if (test_shape.height != set.shape.height || test_shape.width != set.shape.width) {
    const auto text = [](const ImageShape& shape) {
      return fmt::format("{} x {}", shape.height, shape.width);
    };
    throw DataError(
        fmt::format("{}: training images are {}, test images {}; the files do not belong together",
                    set.info.source, text(set.shape), text(test_shape)));
  }
  return set;
}

}  // namespace attnlab
