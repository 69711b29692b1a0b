// Pictures with label maps that are image files: JPEG, PNG, WebP or Netpbm, and a PNG each.
#pragma once

#include "framework/data/segmentation/label_rule.h"
#include "framework/data/segmentation/labelled_pictures.h"

namespace attnlab {

/// A picture and its label map.
struct LabelledFile {
  std::string picture, labels;
};

class LabelledFiles final : public LabelledSet {
 public:
  /// Looks through all label maps on all cores, and keeps what it found (framework/data/cache.h).
  /// @param key  another one for other files and other rules
  /// @throws DataError naming the file: a label that is not a class, a label map of another size
  ///         than its picture, a damaged one.
  LabelledFiles(std::vector<LabelledFile> files, std::shared_ptr<const LabelRule> rule,
                const std::string& key);

  std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
  PictureSize size_of(std::int64_t index) const override;
  std::string name_of(std::int64_t index) const override { return file(index).picture; }
  Pixels picture(std::int64_t index) const override;
  LabelMap labels(std::int64_t index) const override;
  /// How many pixels each class has in all label maps.
  std::vector<std::int64_t> pixels_by_class() const;

 private:
  const LabelledFile& file(std::int64_t index) const {
    return files_.at(static_cast<std::size_t>(index));
  }
  /// A label map as its file has it now.
  LabelMap read(std::int64_t index) const;
  /// [N, 2 + K] int64: height, width, pixels of each class.
  Tensor table() const;

  std::vector<LabelledFile> files_;
  std::shared_ptr<const LabelRule> rule_;
  Tensor table_;
};

}  // namespace attnlab
