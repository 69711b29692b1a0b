// Pictures with boxes as a dataset: the fields that models and tasks of detection take.
//
//   image [3, h, w]       with image_valid [h, w] in a batch: true = real, not padding
//   size [2]              height and width of the picture as it is stored, in pixels
//   image_id []
//   box@box [N, 4]        x0, y0, x1, y1 in shares of what is shown
//   label@box [N]         the class
//   area@box [N]          in pixels of the stored picture
//   ignored@box [N]       0 counts, 1 difficult, 2 a crowd
#pragma once

#include "framework/contracts/dataset.h"
#include "framework/data/detection/framing.h"

namespace attnlab {

struct BoxedImageOptions : FramingOptions {
  std::vector<double> mean = {0.485, 0.456, 0.406};
  std::vector<double> deviation = {0.229, 0.224, 0.225};

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    FramingOptions::describe(v);
    v("mean", mean, range(-1e6, 1e6), "mean of red, green and blue, of pixels in [0, 1]");
    v("std", deviation, range(1e-6, 1e6), "standard deviation of each");
  }
};

class BoxedImages : public Dataset {
 public:
  /// @param more  further options that change examples, as text, for the fingerprint
  /// @throws OptionError, DataError for splits without pictures.
  BoxedImages(PictureSplits splits, const BoxedImageOptions& options, const std::string& more = "");

  const DatasetInfo& info() const override { return info_; }
  std::int64_t size(Split split) const override;

 protected:
  NamedTensors make_example(Split split, std::int64_t index, Random* augmentation) const override;
  const PictureSet* set(Split split) const;
  /// The fields of a picture. @param kept  which boxes there are at all; null: all
  NamedTensors fields_of(const PictureSet& pictures, std::int64_t index, Random* augmentation,
                         const std::vector<char>* kept_labels) const;
  /// A part of a picture as [3, height, width] floats.
  Tensor shown(const PictureSet& pictures, std::int64_t index, const Framing& framing) const;
  const PixelMap& map() const { return map_; }

  DatasetInfo info_;

 private:
  PictureSplits splits_;
  BoxedImageOptions options_;
  PixelMap map_;
};

}  // namespace attnlab
