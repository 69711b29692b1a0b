// Labelled images in memory: options, normalisation and augmentation that image datasets share.
//
//   image[c, y, x] = (byte / 255 - mean_c) / std_c
//
// A random crop pads the bytes with zeros (black) before they are normalised, as torchvision's
// RandomCrop followed by RandomHorizontalFlip and Normalize does; augmentation.h says what else
// there is. Images are corrupted (corruption.h) when the dataset is opened, after mean and standard
// deviation were measured. Cost: one pass over the pixels, and what the augmentation costs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/config/options.h"
#include "framework/contracts/dataset.h"
#include "framework/data/image/augmentation.h"
#include "framework/data/image/corruption.h"
#include "framework/data/image/few_shot.h"
#include "framework/data/image/multi_crop.h"

namespace attnlab {

/// The options that all image datasets have. A dataset with more derives its struct from this one
/// and calls this `describe` from its own.
struct ImageSetOptions {
  std::string root;
  std::int64_t train_limit = 0;
  std::int64_t test_limit = 0;
  double validation = 0;
  FewShotOptions few_shot;
  std::vector<double> mean;
  std::vector<double> deviation;
  ImageAugmentation augmentation;
  MultiCropOptions multi_crop;
  CorruptionOptions corruption;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("root", root, "folder with the files, or the one above it (empty: search the usual places)");
    v("train_limit", train_limit, at_least(0), "use the first N training images (0: all)");
    v("test_limit", test_limit, at_least(0), "use the first N test images (0: all)");
    v("validation", validation, at_least(0),
      "training images held out at random: below 1 a fraction, from 1 on a number");
    v("few_shot", few_shot,
      "train on a few images of each class, chosen after the validation images");
    v("mean", mean, range(-1e6, 1e6),
      "mean of each channel, of pixels in [0, 1] (empty: known or measured)");
    v("std", deviation, range(1e-6, 1e6),
      "standard deviation of each channel (empty: known or measured)");
    v("augmentation", augmentation, "random changes to training images");
    v("multi_crop", multi_crop, "several crops of each image, for self-supervised training");
    corruption.describe(v);
  }
};

/// The images and labels of one split, as they stand in their files.
struct LabelledImages {
  std::string bytes;                 ///< holds the uint8 images, each in CHW order
  std::size_t begin = 0;             ///< where in `bytes` the first image starts
  std::size_t stride = 0;            ///< bytes from one image to the next
  std::vector<std::uint8_t> labels;  ///< one per image
  /// Which image of the whole published set each is, the training images first, whatever part of
  /// it is read (for what is drawn by an image's number); empty: as they stand here.
  std::vector<std::int64_t> numbers{};

  const std::uint8_t* image(std::int64_t index) const;
  /// @param before  images that stand before these where there are no `numbers`
  std::int64_t number(std::int64_t index, std::int64_t before) const {
    return numbers.empty() ? before + index : numbers[static_cast<std::size_t>(index)];
  }
  std::int64_t count() const { return static_cast<std::int64_t>(labels.size()); }
};

/// What a plugin reads from its files.
struct ImageSet {
  DatasetInfo info;  ///< name, classes, class_names and source; the rest is filled in
  ImageShape shape;
  LabelledImages train, test;
  std::vector<double> mean, deviation;  ///< of each channel; empty: measured on `train`
};

/// @throws DataError naming file, record and byte offset unless label < classes.
void check_label(const std::string& path, std::size_t record, std::size_t offset,
                 std::int64_t label, std::int64_t classes);

/// A dataset over an `ImageSet`: fields image [C, H, W] float32 and class [] int64, and what
/// `multi_crop` adds. Validation
/// images are drawn by the stream `split`; of the rest, few-shot subsets are drawn. Both keep the
/// order of the files.
class ImageDataset : public Dataset {
 public:
  /// @throws OptionError for options that do not fit the set, DataError for a split without images.
  ImageDataset(ImageSet set, const ImageSetOptions& options, const DatasetSetup& setup);

  const DatasetInfo& info() const override { return set_.info; }
  std::int64_t size(Split split) const override;

 protected:
  NamedTensors make_example(Split split, std::int64_t index, Random* augmentation) const override;

 private:
  void split_train(const ImageSetOptions& options, Random random);

  ImageSet set_;
  ImageAugmentation augmentation_;
  PixelMap map_;
  std::unique_ptr<const MultiCrop> crops_;        ///< null: none
  std::vector<std::int64_t> train_, validation_;  ///< positions in `set_.train`
};

}  // namespace attnlab
