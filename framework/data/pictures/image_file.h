// One JPEG, PNG, WebP or Netpbm file: its size, and the part of it that is asked for.
//
// Of a JPEG only that part is decoded: rows above it are skipped without transform, columns beside
// it too, rows below it are not read, and where the part is resized to half its size or less, the
// transform itself is of half size (libjpeg-turbo). The rest is OpenCV's: PNG, WebP, CMYK. A note
// of the camera that says how to turn the image is not followed, as torchvision's loader does.
// Other formats, more than 2^28 pixels and JPEGs of more than 500 scans are refused, unread.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "framework/data/image/pixels.h"

namespace attnlab {

/// What files of these formats are customarily called.
inline constexpr std::array<std::string_view, 10> kPictureEndings = {
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".ppm", ".pgm", ".pbm", ".pnm"};

/// A file's ending in small letters, with its dot; empty where the name has none.
std::string ending_of(std::string_view name);
/// Whether a file's name ends so, in letters of either case.
bool has_picture_ending(std::string_view name);

class ImageFile {
 public:
  /// Reads the file and what says how large the image is.
  /// @param remedy  what a user can do about a damaged file, for messages
  /// @throws DataError naming the file where it is not an image or ends too early; FileError.
  explicit ImageFile(const std::string& path, std::string_view remedy = "fetch the file again");
  ~ImageFile();
  ImageFile(const ImageFile&) = delete;
  ImageFile& operator=(const ImageFile&) = delete;

  std::int64_t height() const { return height_; }
  std::int64_t width() const { return width_; }

  /// Decoded pixels and where in them what was asked for lies.
  struct Part {
    Pixels pixels;
    Box box;
  };
  /// Call it once.
  /// @param box            inside the image
  /// @param height, width  that the part will be resized to: it may come smaller than `box`, never
  ///                       smaller than this; 0: it comes as it is
  /// @throws DataError.
  Part read(const Box& box, std::int64_t height = 0, std::int64_t width = 0);

 private:
  class Jpeg;

  std::int64_t height_ = 0, width_ = 0;
  std::unique_ptr<Jpeg> jpeg_;  ///< null: `whole_` is the image
  Pixels whole_;
};

}  // namespace attnlab
