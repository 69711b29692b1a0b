// Images in class folders, as ImageNet, Imagenette and torchvision's ImageFolder have them:
//
//   train/CLASS/.../NAME.JPEG     val/CLASS/.../NAME.JPEG     (test/CLASS/...)
//
// Classes are the folders of train in order of their names. Files end as image_file.h says, in
// small or capital letters; others are left out and counted. What is hidden (folder.h) is nobody's.
//
// A set that is only for testing (ImageNet-v2, -A, -R) takes its classes from another one's train:
//
//   CLASS/NAME.JPEG, or test/CLASS/..., val/CLASS/...     CLASS a name of there, or its number
//
// All folders of a set have names, or all have numbers.
//
// One folder for all images, CLASS/NAME.JPEG, is divided by `test_share`.
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

/// A data set as its folders have it.
struct ImageFolders {
  std::string source;                ///< its folder
  std::vector<std::string> classes;  ///< in order of their labels
  ImageList train, validation, test;
  std::string left_out;    ///< "3 files of other endings (.bmp 2, .tif 1)"; empty: nothing
  std::uint64_t hash = 0;  ///< of names and sizes of all files
};

/// @param name          of the folder; its path where there is no root
/// @param root          the folder or the one above it; empty: the usual places
/// @param classes_from  of a set that is only for testing: name or path of the one whose training
///                      folders name the classes; empty: it has its own
/// @param test_share    above 0: one folder for all images, of which this share of each class is
///                      tested on, at least one image and never all
/// @param split_seed    chooses them
/// @throws OptionError for an absolute path below a root; DataMissingError; DataError for a folder
///         that is not a class, is one that another folder is, or holds no images, and for a link
///         to nothing; FileError for a folder that cannot be listed.
ImageFolders open_image_folders(const std::string& name, const std::string& root,
                                const std::string& classes_from, double test_share = 0,
                                std::uint64_t split_seed = 0);

}  // namespace attnlab
