// Pictures with label maps as a dataset: the fields that models and tasks of segmentation take.
//
//   image [3, h, w]       as the model sees it; in a batch padded with zeros below and on the right
//   shown [2]             h and w
//   label_map [H, W]      the class of each pixel, negative where there is none. In training H and
//                         W are h and w; in evaluation they are those of the stored label map
//   size [2]              H and W
//
// In a batch a label map is padded with zeros, too, as fields are: `size` says what counts.
// Framing: label_framing.h, photometric distortion: photometric.h. One draw moves picture and
// labels. A corruption (framework/data/image/corruption.h) acts on the stored picture.
#pragma once

#include <memory>
#include <string>

#include "framework/contracts/dataset.h"
#include "framework/data/image/corruption.h"
#include "framework/data/segmentation/label_framing.h"

namespace attnlab {

/// A stored picture as evaluations show it, [3, h, w]. @param map  how it is normalised
Tensor shown_picture(const Pixels& stored, const LabelFramingOptions& framing, const PixelMap& map);

/// The pictures of one split, each with a label map of its own size. Thread-safe.
class LabelledSet {
 public:
  virtual ~LabelledSet() = default;

  virtual std::int64_t size() const = 0;
  virtual PictureSize size_of(std::int64_t index) const = 0;
  /// What a message calls a picture: its file.
  virtual std::string name_of(std::int64_t index) const = 0;
  /// Red, green and blue.
  virtual Pixels picture(std::int64_t index) const = 0;
  virtual LabelMap labels(std::int64_t index) const = 0;
};

/// The splits of a dataset, with all that is common to them.
struct LabelledSplits {
  std::string name, source;
  std::uint64_t fingerprint = 0;
  std::vector<std::string> class_names;
  std::shared_ptr<const LabelledSet> train, validation, test;  ///< null: empty
};

struct LabelledPictureOptions : LabelFramingOptions {
  bool photometric = false;
  std::vector<double> mean = {0.485, 0.456, 0.406};
  std::vector<double> deviation = {0.229, 0.224, 0.225};
  CorruptionOptions corruption;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    LabelFramingOptions::describe(v);
    v("photometric", photometric,
      "randomly change brightness, contrast, saturation and hue of training pictures");
    v("mean", mean, range(-1e6, 1e6), "mean of red, green and blue, of pixels in [0, 1]");
    v("std", deviation, range(1e-6, 1e6), "standard deviation of each");
    corruption.describe(v);
  }
};

class LabelledPictures : public Dataset {
 public:
  /// @throws OptionError, also for a crop that is larger than a training picture can become;
  ///         DataError for a training split without pictures.
  LabelledPictures(LabelledSplits splits, const LabelledPictureOptions& options);

  const DatasetInfo& info() const override { return info_; }
  std::int64_t size(Split split) const override;

 protected:
  NamedTensors make_example(Split split, std::int64_t index, Random* augmentation) const override;

 private:
  const LabelledSet* set(Split split) const;
  void check_crop() const;
  void describe_fields();
  /// The stored picture, corrupted where the options say so.
  Pixels stored(Split split, std::int64_t index) const;
  /// @param size  of the result; what the picture does not cover is 0
  Tensor image_of(const Pixels& shown, bool flip, const PictureSize& size) const;

  LabelledSplits splits_;
  LabelledPictureOptions options_;
  PixelMap map_;
  DatasetInfo info_;
};

}  // namespace attnlab
