// Revisited Oxford and Paris: buildings, and queries that ask for them, in the published layout.
//
//   gnd_NAME.pkl      which pictures are searched and asked for (ground_truth.h)
//   jpg/PICTURE.jpg   the pictures
//
// The training split is the database, the test split the queries, cut to their boxes. A picture
// whose longer side is above `size` is reduced to it, as Pillow's thumbnail does; what a multiple
// of `multiple` pixels leaves on the right and below is cut off, as a patch embedding does. Fields:
//
//   image [3, h, w]    in a batch padded with zeros below and on the right
//   shown [2]          h and w
//   easy@easy, hard@hard, junk@junk   of a query: numbers of pictures of the database; else empty
//
// Source: Radenović et al., Revisiting Oxford and Paris, CVPR 2018; how pictures are shown: the
// retrieval of Caron et al., DINO, ICCV 2021, which does not cut queries (`queries: whole`), and
// reduces by Lanczos's filter, here bicubic. Cost: of every query's picture the size is read when
// it is opened; pictures are decoded whole when they are asked for.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/data/formats/files.h"
#include "framework/data/image/resize.h"
#include "framework/data/pictures/image_file.h"
#include "framework/data/pictures/picture_files.h"
#include "framework/plugin.h"
#include "plugins/datasets/images/oxford_paris/ground_truth.h"

namespace attnlab {
namespace {

struct OxfordParisOptions {
  std::string root, name = "roxford5k";
  std::string queries = "cropped";
  std::int64_t size = 224, multiple = 16;
  std::string interpolation = "bicubic";
  std::vector<double> mean = {0.485, 0.456, 0.406};
  std::vector<double> deviation = {0.229, 0.224, 0.225};

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("root", root, "folder of the dataset (empty: search the usual places)");
    v("name", name,
      "roxford5k, rparis6k, or another set in this layout: the NAME of its folder and of gnd_NAME");
    v("queries", queries, one_of("cropped", "whole"),
      "cropped: to the query's box, as in the protocol; whole: as in DINO's code");
    v("size", size, range(1, 8192), "the longer side of a picture is at most this, in pixels");
    v("multiple", multiple, range(1, 1024),
      "sides are multiples of this, in pixels: the model's patch size");
    v("interpolation", interpolation, one_of("bilinear", "bicubic"), "filter of resizing");
    v("mean", mean, range(-1e6, 1e6), "mean of red, green and blue, of pixels in [0, 1]");
    v("std", deviation, range(1e-6, 1e6), "standard deviation of each");
  }
};

struct Size {
  std::int64_t height = 0, width = 0;
};

/// The whole number beside `side` whose ratio to the other side is nearest to the picture's.
template <class Distance>
std::int64_t nearest_side(double side, const Distance& distance) {
  const double low = std::floor(side), high = std::ceil(side);
  return static_cast<std::int64_t>(std::max(1.0, distance(high) < distance(low) ? high : low));
}

/// A picture that fits into a square, never enlarged.
Size thumbnail(const Size& picture, std::int64_t side) {
  if (picture.height <= side && picture.width <= side) return picture;
  const auto most = static_cast<double>(side);
  const double aspect = static_cast<double>(picture.width) / static_cast<double>(picture.height);
  if (aspect <= 1) {
    const auto distance = [&](double width) { return std::abs(aspect - width / most); };
    return {side, nearest_side(most * aspect, distance)};
  }
  const auto distance = [&](double height) {
    return height == 0 ? 0 : std::abs(aspect - most / height);
  };
  return {nearest_side(most / aspect, distance), side};
}

/// A query's box in whole pixels, within its picture. @returns an empty one where none is left.
Box whole_pixels(const std::array<double, 4>& box, const Size& picture) {
  const auto within = [](double place, std::int64_t most) {
    return std::clamp<std::int64_t>(std::llrint(place), 0, most);
  };
  const std::int64_t left = within(box[0], picture.width), top = within(box[1], picture.height);
  return {top, left, within(box[3], picture.height) - top, within(box[2], picture.width) - left};
}

class OxfordParis final : public Dataset {
 public:
  OxfordParis(const OxfordParisOptions& options, const DatasetSetup&)
      : options_(options),
        filter_(filter_named(options.interpolation)),
        map_(PixelMap::of_options(options.mean, options.deviation)) {
    const std::string file = fmt::format("gnd_{}.pkl", options.name);
    info_.name = options.name;
    info_.source = find_data_folder({options.name,
                                     {file, "jpg"},
                                     options.root,
                                     "the layout is that of github.com/filipradenovic/revisitop, "
                                     "whose python/download.py fetches it",
                                     /*packed=*/false});
    const std::string path = info_.source + "/" + file, bytes = read_data_file(path);
    truth_ = read_ground_truth(bytes, path);
    check_pictures(path);
    find_boxes(path);
    FieldInfo image{"image", {3, -1, -1}, at::kFloat};
    image.mean = options.mean;
    image.deviation = options.deviation;
    info_.fields = {image, {"shown", {2}, at::kLong}};
    for (const char* list : {"easy@easy", "hard@hard", "junk@junk"}) {
      info_.fields.push_back({list, {-1}, at::kLong, {}, std::ssize(truth_.database)});
    }
    info_.fingerprint =
        hex(fingerprint_of(all_paths(), fingerprint(shown_text(), content_fingerprint(bytes))));
  }

  const DatasetInfo& info() const override { return info_; }

  std::int64_t size(Split split) const override {
    if (split == Split::validation) return 0;
    return split == Split::train ? std::ssize(truth_.database) : std::ssize(truth_.queries);
  }

 protected:
  NamedTensors make_example(Split split, std::int64_t index, Random*) const override {
    const auto at = static_cast<std::size_t>(index);
    const bool asks = split == Split::test;
    const std::string path = path_of(asks ? truth_.queries[at].name : truth_.database[at]);
    ImageFile file(path);
    const Box box =
        asks && options_.queries == "cropped" ? boxes_[at] : Box{0, 0, file.height(), file.width()};
    const Size whole = thumbnail({box.height, box.width}, options_.size);
    const Size size = cut(whole, path);
    const ImageFile::Part part = file.read(box);
    const Pixels pixels = resized(part.pixels, part.box, whole.height, whole.width, filter_,
                                  {0, 0, size.height, size.width});
    const Tensor image = at::empty({3, size.height, size.width});
    write_image(pixels, map_, /*flip=*/false, image.data_ptr<float>());
    static const RetrievalQuery kNothing;
    const RetrievalQuery& query = asks ? truth_.queries[at] : kNothing;
    return {{"image", image},
            {"shown", at::tensor({size.height, size.width}, at::kLong)},
            {"easy@easy", at::tensor(query.easy, at::kLong)},
            {"hard@hard", at::tensor(query.hard, at::kLong)},
            {"junk@junk", at::tensor(query.junk, at::kLong)}};
  }

 private:
  std::string path_of(const std::string& name) const {
    return info_.source + "/jpg/" + name + ".jpg";
  }

  std::vector<std::string> all_paths() const {
    std::vector<std::string> paths;
    for (const std::string& name : truth_.database) paths.push_back(path_of(name));
    for (const RetrievalQuery& query : truth_.queries) paths.push_back(path_of(query.name));
    return paths;
  }

  /// @throws DataMissingError for pictures that the ground truth names and that are not there.
  void check_pictures(const std::string& truth) const {
    std::string first;
    std::int64_t absent = 0;
    for (const std::string& path : all_paths()) {
      std::error_code error;
      if (std::filesystem::is_regular_file(path, error)) continue;
      if (absent++ == 0) first = path;
    }
    if (absent == 0) return;
    throw DataMissingError(fmt::format(
        "{}: names {} pictures, of which {} are not there, {} first; fetch the pictures again",
        truth, truth_.database.size() + truth_.queries.size(), absent, one_line(first)));
  }

  /// What is asked for, in whole pixels: that it lies in its picture is known before anything runs.
  void find_boxes(const std::string& truth) {
    for (const RetrievalQuery& query : truth_.queries) {
      const ImageFile file(path_of(query.name));
      const Size own{file.height(), file.width()};
      const Box box = whole_pixels(query.box, own);
      if (box.height < 1 || box.width < 1) {
        throw DataError(
            fmt::format("{}: the box of query {} lies outside of its picture, which has {} x {} "
                        "pixels; fetch both again",
                        truth, excerpt(query.name), own.height, own.width));
      }
      boxes_.push_back(box);
      const bool cropped = options_.queries == "cropped";
      cut(thumbnail(cropped ? Size{box.height, box.width} : own, options_.size),
          path_of(query.name));
    }
  }

  /// The part of a picture of whole multiples. @param name  for messages
  Size cut(const Size& whole, const std::string& name) const {
    const Size part{whole.height - whole.height % options_.multiple,
                    whole.width - whole.width % options_.multiple};
    if (part.height > 0 && part.width > 0) return part;
    throw DataError(fmt::format(
        "{}: is shown with {} x {} pixels, fewer than dataset.multiple ({}); make that smaller, or "
        "dataset.size ({}) larger",
        name, whole.height, whole.width, options_.multiple, options_.size));
  }

  /// What decides how pictures are shown.
  std::string shown_text() const {
    std::string text = fmt::format("{};{};{};{};", options_.queries, options_.size,
                                   options_.multiple, options_.interpolation);
    for (const auto* numbers : {&options_.mean, &options_.deviation}) {
      for (const double number : *numbers) text += shortest(number) + ";";
    }
    return text;
  }

  OxfordParisOptions options_;
  Filter filter_;
  PixelMap map_;
  GroundTruth truth_;
  std::vector<Box> boxes_;  ///< of the queries
  DatasetInfo info_;
};

}  // namespace

ATTNLAB_PLUGIN(dataset, OxfordParis, OxfordParisOptions,
               {.id = "attnlab/oxford_paris",
                .version = "1.0.0",
                .summary = "revisited Oxford and Paris: queries and the pictures to search, in "
                           "the published layout",
                .citation = "Radenović et al., CVPR 2018, arXiv:1803.11285",
                .licence = "that of your data",
                .gives = {"image", "shown", "easy@easy", "hard@hard", "junk@junk"}})

}  // namespace attnlab
