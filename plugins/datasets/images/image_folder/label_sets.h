// Several right classes for each test image, from a JSON file:
//
//   [[65], [795], [], ...]              as ImageNet-ReaL's real.json: one list for each test image,
//                                       in order of the files' names (ILSVRC2012_val_00000001.JPEG)
//   {"a.jpg": [0, 2], "b.jpg": []}      by the files' names; images that are not there have none
//
// Source: Beyer et al., Are we done with ImageNet?, 2020.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "framework/tensor/tensor.h"
#include "plugins/datasets/images/image_folder/class_folders.h"

namespace attnlab {

/// By the name of a file without its folders.
using LabelSets = std::map<std::string, std::vector<std::int64_t>>;

/// The file's path: `file` below the dataset's folder where it is there, else as it stands.
/// @throws DataMissingError where it is in neither place.
std::string label_sets_file(const std::string& folder, const std::string& file);

/// @param path     of the JSON file
/// @param images   all test images
/// @param classes  how many there are
/// @throws FileError; DataError naming the file for another form, a number of lists that is
///         not that of the images, a class out of range, and two images of one name.
LabelSets read_label_sets(const std::string& path, const ImageList& images, std::int64_t classes);

/// The right classes of an image, [N] int64; none where it has no set.
/// @param file  with or without folders
Tensor classes_of(const LabelSets& sets, const std::string& file);

}  // namespace attnlab
