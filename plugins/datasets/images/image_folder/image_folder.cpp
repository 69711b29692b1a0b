// Images in class folders: JPEG, PNG, WebP, Netpbm, of any size; ImageNet, Imagenette, your own.
//
//   training      a random part resized to size x size (augmentation.resized_crop), else as it is
//                 evaluated
//   evaluation    resize short: the shorter side becomes size / crop_ratio, and the middle
//                 size x size is taken; squash: the whole image becomes size x size
//   image[c, y, x] = (byte / 255 - mean_c) / std_c
//
// With `multi_crop` crops of the whole picture come beside it (framework/data/image/multi_crop.h).
// What is resized differs from Pillow's by 1 at most, as Pillow rounds in between
// (framework/data/image/resize.h), but that a JPEG's random part of twice the size or more is
// decoded smaller (image_file.h); evaluation never is.
// Source: Deng et al., ImageNet, CVPR 2009, and torchvision's ImageFolder for the layout. Cost: a
// file is read and decoded each time that it is asked for; in memory are names and labels.
// Corruptions (framework/data/image/corruption.h) act on the resized image, before augmentation.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <optional>
#include <set>

#include "framework/base/files.h"
#include "framework/base/share.h"
#include "framework/base/text.h"
#include "framework/data/formats/files.h"
#include "framework/data/image/resize.h"
#include "framework/data/pictures/image_file.h"
#include "framework/tensor/kept_memory.h"
#include "plugins/datasets/images/image_folder/boxes.h"
#include "plugins/datasets/images/image_folder/class_folders.h"
#include "plugins/datasets/images/image_folder/damaged_files.h"
#include "plugins/datasets/images/image_folder/label_sets.h"
#include "plugins/datasets/images/image_folder/options.h"
#include "plugins/datasets/images/image_folder/subsets.h"

namespace attnlab {
namespace {

constexpr std::string_view kRemedy =
    "fetch the file again, or say `damaged: skip` to leave out what cannot be read";
constexpr std::uint64_t kSmallData = std::uint64_t{1} << 30;  ///< below it every byte is hashed

/// Images by number, of one split.
struct Chosen {
  const ImageList* list = nullptr;
  std::vector<std::int64_t> indices;
};

PixelMap checked_map(const ImageFolderOptions& options) {
  const auto need_three = [](const char* option, const std::vector<double>& values) {
    if (values.size() != 3) throw OptionError(option, "needs three numbers: red, green, blue");
  };
  need_three("mean", options.mean);
  need_three("std", options.deviation);
  return {options.mean, options.deviation};
}

class ImageFolder final : public Dataset {
 public:
  ImageFolder(const ImageFolderOptions& options, const DatasetSetup& setup)
      : options_(options),
        filter_(filter_named(options.interpolation)),
        map_(checked_map(options)) {
    check(options.augmentation);
    open_folders();
    choose(setup.streams);
    prepare_corruption();
    FieldInfo image{"image", {3, options.size, options.size}, at::kFloat};
    image.mean = options.mean;
    image.deviation = options.deviation;
    info_.fields = {image, {"class", {}, at::kLong}};
    crops_ = multi_crop_of(options.multi_crop, filter_, info_);
    if (crops_ != nullptr && options.corruption.any()) {
      throw OptionError("corruption",
                        "is laid over whole images, of which the crops of multi_crop are parts; "
                        "leave one of them out");
    }
    if (!options.boxes.empty()) {
      if (options.resize != "squash") {
        throw OptionError("boxes", "are of whole images; set resize to squash");
      }
      info_.fields.push_back({"boxes@box", {-1, 4}, at::kFloat});
    }
    if (!options.label_sets.empty()) {
      FieldInfo sets{"classes@label", {-1}, at::kLong};
      sets.categories = info_.classes;
      info_.fields.push_back(sets);
    }
  }

  const DatasetInfo& info() const override { return info_; }

  std::int64_t size(Split split) const override {
    return static_cast<std::int64_t>(chosen(split).indices.size());
  }

  NamedTensors make_example(Split split, std::int64_t index, Random* augmentation) const override {
    const Chosen& from = chosen(split);
    const auto at = static_cast<std::size_t>(from.indices[static_cast<std::size_t>(index)]);
    ImageFile file(from.list->path(at), kRemedy);
    const ImageSize own{file.height(), file.width()};
    Tensor image = empty_kept({3, options_.size, options_.size});
    const auto corrupt = [&](Pixels pixels) {
      const bool tested = from.list == &test_;
      if (corruption_ == nullptr || !options_.corruption.covers(tested)) {
        return pixels;
      }
      std::size_t before = 0;  // the training folder's images, then validation's, then the test's
      if (from.list != &train_) before += train_.files.size();
      if (tested) before += validation_.files.size();
      corruption_->apply(pixels, static_cast<std::int64_t>(before + at));
      return pixels;
    };
    NamedTensors example = {{"image", image},
                            {"class", at::scalar_tensor(from.list->labels[at], at::kLong)}};
    std::optional<ImageFile::Part> whole;
    if (augmentation == nullptr || crops_ != nullptr) {
      whole = file.read({0, 0, own.height, own.width});
    }
    auto* const out = image.data_ptr<float>();
    if (augmentation == nullptr) {
      write_image(corrupt(evaluated(*whole)), map_, /*flip=*/false, out);
    } else {
      write_training(file, whole, corrupt, *augmentation, out);
    }
    if (crops_ != nullptr) crops_->add(whole->pixels, augmentation, split, index, example);
    if (!options_.boxes.empty()) example.set("boxes@box", boxes_of(*from.list, at, own));
    if (!options_.label_sets.empty()) {
      const bool tested = from.list == &test_;
      example.set("classes@label", classes_of(label_sets_, tested ? from.list->files[at] : ""));
    }
    return example;
  }

 private:
  void open_folders() {
    ImageFolders folders =
        open_image_folders(options_.name, options_.root, options_.classes_from, options_.test,
                           static_cast<std::uint64_t>(options_.split_seed));
    // The option has a default, which need not be what is meant below a root.
    const auto folder =
        (std::filesystem::absolute(folders.source).lexically_normal() / "").parent_path();
    info_.name = options_.root.empty() ? options_.name : folder.filename().string();
    info_.source = folders.source;
    info_.classes = static_cast<std::int64_t>(folders.classes.size());
    info_.class_names = std::move(folders.classes);
    train_ = std::move(folders.train);
    validation_ = std::move(folders.validation);
    test_ = std::move(folders.test);
    std::set<std::int64_t> present(test_.labels.begin(), test_.labels.end());
    if (static_cast<std::int64_t>(present.size()) < info_.classes) {
      info_.class_groups["tested"].assign(present.begin(), present.end());
    }
    const std::uint64_t hash = folders.hash;
    info_.fingerprint = hex(with_contents(hash));
    if (!options_.label_sets.empty()) {
      const std::string path = label_sets_file(info_.source, options_.label_sets);
      label_sets_ = read_label_sets(path, test_, info_.classes);
      info_.fingerprint = hex(content_fingerprint(read_text(path), fingerprint(info_.fingerprint)));
    }
    if (!options_.boxes.empty()) {
      info_.fingerprint =
          hex(fingerprint(info_.fingerprint, boxes_fingerprint(options_.boxes, test_.files)));
    }
    if (!folders.left_out.empty()) info_.source += " without " + folders.left_out;
    if (options_.damaged == "skip") leave_out_damaged();
  }

  /// [N, 4]: left, top, right, bottom in pixels; none of other images than the test's.
  Tensor boxes_of(const ImageList& list, std::size_t at, const ImageSize& image) const {
    std::vector<ObjectBox> boxes;
    if (&list == &test_) {
      boxes = read_boxes(boxes_file(options_.boxes, list.files[at]), image, options_.size);
    }
    const Tensor out = at::empty({static_cast<std::int64_t>(boxes.size()), 4}, at::kFloat);
    auto* value = out.data_ptr<float>();
    for (const ObjectBox& box : boxes) {
      for (const double side : {box.left, box.top, box.right, box.bottom}) {
        *value++ = static_cast<float>(side);
      }
    }
    return out;
  }

  /// Small data are hashed whole.
  std::uint64_t with_contents(std::uint64_t hash) const {
    if (train_.bytes + test_.bytes + validation_.bytes >= kSmallData) return hash;
    for (const ImageList* list : {&train_, &test_, &validation_}) {
      for (std::size_t i = 0; i < list->files.size(); ++i) {
        hash = content_fingerprint(read_text(list->path(i)), hash);
      }
    }
    return hash;
  }

  void leave_out_damaged() {
    std::vector<std::string> names;
    std::uint64_t hash = fingerprint(info_.fingerprint);
    for (ImageList* list : {&train_, &test_, &validation_}) {
      for (const std::string& name : take_out_damaged(*list)) {
        names.push_back(list->folder + "/" + name);
        hash = fingerprint(name + ";", hash);
      }
    }
    if (names.empty()) return;
    info_.fingerprint = hex(hash);
    info_.source += fmt::format(
        " without {} damaged files: {}{}", names.size(),
        join({names.begin(), names.begin() + std::min<long>(5, long(names.size()))}, ", "),
        names.size() > 5 ? ", ..." : "");
  }

  /// Which images make up the splits.
  void choose(const RandomStreams& streams) {
    const auto all = [](const ImageList& list) {
      Chosen chosen{&list, std::vector<std::int64_t>(list.files.size())};
      std::iota(chosen.indices.begin(), chosen.indices.end(), 0);
      return chosen;
    };
    const auto limit = [&](const char* option, double wanted, Chosen& chosen, std::uint64_t which) {
      if (wanted == 0) return;
      const std::int64_t count = wanted_of(option, wanted, std::ssize(chosen.indices));
      chosen.indices = take(chosen.indices, count, streams.stream("split", which));
    };
    splits_[0] = all(train_);
    splits_[1] = all(validation_);
    splits_[2] = all(test_);
    limit("subset", options_.subset, splits_[0], 1);
    limit("test_subset", options_.test_subset, splits_[2], 2);
    hold_out(streams);
    splits_[0].indices =
        few_of_each_class(splits_[0].indices, train_.labels, info_, options_.few_shot);
  }

  void hold_out(const RandomStreams& streams) {
    if (options_.validation == 0) return;
    if (!validation_.empty()) {
      throw OptionError("validation", "is for data without a folder of their own; " +
                                          validation_.folder + " is there");
    }
    Chosen& training = splits_[0];
    const std::int64_t held =
        wanted_of("validation", options_.validation, std::ssize(training.indices));
    splits_[1] = {&train_, take(training.indices, held, streams.stream("split"))};
    if (training.indices.empty()) {
      throw OptionError("validation",
                        shortest(options_.validation) + " leaves nothing to train on");
    }
  }

  void prepare_corruption() {
    const CorruptionOptions& options = options_.corruption;
    if (!options.any()) return;
    if (options.covers(/*test=*/false) && options_.augmentation.resized_crop) {
      throw OptionError("corruption",
                        "is laid over whole images, of which a resized crop takes a part; switch "
                        "resized_crop off, or corrupt test images alone");
    }
    corruption_ = std::make_unique<Corruption>(
        options, options_.size, options_.size,
        static_cast<std::int64_t>(train_.files.size() + validation_.files.size() +
                                  test_.files.size()));
  }

  const Chosen& chosen(Split split) const {
    return splits_[split == Split::train ? 0 : split == Split::validation ? 1 : 2];
  }

  /// As the image is evaluated. @param part  all of it
  Pixels evaluated(const ImageFile::Part& part) const {
    const Box& whole = part.box;
    if (options_.resize == "squash") {
      return resized(part.pixels, part.box, options_.size, options_.size, filter_);
    }
    const auto side = static_cast<std::int64_t>(
        std::floor(static_cast<double>(options_.size) / options_.crop_ratio + 1e-9));
    const std::int64_t shorter = std::min(whole.height, whole.width);
    const std::int64_t height = side * whole.height / shorter, width = side * whole.width / shorter;
    const auto middle = [&](std::int64_t length) {
      return static_cast<std::int64_t>(std::nearbyint(double(length - options_.size) / 2));
    };
    return resized(part.pixels, part.box, height, width, filter_,
                   {middle(height), middle(width), options_.size, options_.size});
  }

  /// @param whole  the file's picture, where it has been read
  template <class Corrupt>
  void write_training(ImageFile& file, const std::optional<ImageFile::Part>& whole,
                      const Corrupt& corrupt, Random& random, float* out) const {
    const ImageAugmentation& augmentation = options_.augmentation;
    const ImageMove move = draw_move(augmentation, random);
    Pixels image;
    if (augmentation.resized_crop) {
      const Box box = draw_crop(augmentation, file.height(), file.width(), random);
      if (whole) {
        image = resized(whole->pixels, box, options_.size, options_.size, filter_);
      } else {
        const ImageFile::Part part = file.read(box, options_.size, options_.size);
        image = resized(part.pixels, part.box, options_.size, options_.size, filter_);
      }
    } else {
      image = corrupt(evaluated(whole ? *whole : file.read({0, 0, file.height(), file.width()})));
    }
    write_augmented(std::move(image), augmentation, move, map_, random, out);
  }

  ImageFolderOptions options_;
  Filter filter_;
  PixelMap map_;
  DatasetInfo info_;
  ImageList train_, validation_, test_;
  LabelSets label_sets_;
  Chosen splits_[3];                        ///< of train, validation, test
  std::unique_ptr<Corruption> corruption_;  ///< null: none
  std::unique_ptr<const MultiCrop> crops_;  ///< null: none
};

}  // namespace

ATTNLAB_PLUGIN(dataset, ImageFolder, ImageFolderOptions,
               {.id = "attnlab/image_folder",
                .version = "1.1.0",
                .summary = "images in class folders: ImageNet, Imagenette, your own",
                .citation = "Deng et al., ImageNet, CVPR 2009",
                .licence = "that of your data",
                .gives = {"image", "class", "boxes@box?", "classes@label?", "crop@global?",
                          "crop@local?", "masked@global?"}})

}  // namespace attnlab
