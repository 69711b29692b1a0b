// Images in class folders, as ImageNet, Imagenette and torchvision's ImageFolder have them:
//
//   train/CLASS/.../NAME.JPEG     val/CLASS/.../NAME.JPEG     (test/CLASS/...)
//
// Classes are the folders of train in order of their names. Files end in .jpg, .jpeg, .png or
// .webp, small or capital letters; others are passed over.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace attnlab {

/// The files of one split, class by class, in order of their names.
struct ImageList {
  std::string folder;
  std::vector<std::string> files;  ///< below `folder`
  std::vector<std::int64_t> labels;
  std::uint64_t bytes = 0;  ///< of all files

  bool empty() const { return files.empty(); }
  std::string path(std::size_t index) const { return folder + "/" + files[index]; }
};

/// Names of the folders in a folder, sorted; none where it is not there.
std::vector<std::string> folders_in(const std::string& folder);

/// @param classes  names in order of their labels
/// @param hash     continued by names and sizes of all files
/// @throws DataError for a folder that is no class, or that holds no images; FileError.
ImageList list_images(const std::string& folder, const std::vector<std::string>& classes,
                      std::uint64_t& hash);

}  // namespace attnlab
