// Pictures with boxes that are image files.
#pragma once

#include "framework/data/detection/pictures.h"

namespace attnlab {

class PictureFiles final : public PictureSet {
 public:
  /// @param paths  of the files, one for each of `notes`
  PictureFiles(std::vector<PictureNotes> notes, std::vector<std::string> paths)
      : notes_(std::move(notes)), paths_(std::move(paths)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(notes_.size()); }
  const PictureNotes& notes(std::int64_t index) const override {
    return notes_.at(static_cast<std::size_t>(index));
  }
  /// @throws DataError where the file is not an image, or of another size than the notes say.
  Part part(std::int64_t index, const Box& box, std::int64_t height,
            std::int64_t width) const override;
  const std::string& path(std::int64_t index) const {
    return paths_.at(static_cast<std::size_t>(index));
  }

 private:
  std::vector<PictureNotes> notes_;
  std::vector<std::string> paths_;
};

/// @throws DataMissingError for the picture of an annotation.
[[noreturn]] void picture_missing(const std::string& path);

/// A hash of the files of pictures: of every byte where they are less than 1 GiB together, else of
/// names and sizes. @throws DataMissingError for a file that is not there.
std::uint64_t fingerprint_of(const std::vector<const PictureFiles*>& sets, std::uint64_t seed);
/// The same of any files, in this order.
std::uint64_t fingerprint_of(const std::vector<std::string>& paths, std::uint64_t seed);

}  // namespace attnlab
