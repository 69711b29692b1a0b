// Boxes of objects in images, from files in Pascal VOC's form, as ImageNet's are:
//
//   <annotation> <size><width>500</width><height>375</height>...</size>
//                <object> <bndbox><xmin>..</xmin><ymin>..</ymin><xmax>..</xmax><ymax>..</ymax> ...
//
// Source: Everingham et al., The Pascal VOC challenge, 2010; Deng et al., ImageNet, 2009.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace attnlab {

/// In pixels of an image of another size: left, top, right, bottom.
struct ObjectBox {
  double left = 0, top = 0, right = 0, bottom = 0;
};

struct ImageSize {
  std::int64_t height = 0, width = 0;
};

/// The boxes of one file, as they lie in the image squashed to size x size.
/// @param image  its own size, for a file that has 0 x 0, as tools write what they do not know
/// @throws FileError; DataError naming the file where a number is missing or a box is empty.
std::vector<ObjectBox> read_boxes(const std::string& path, const ImageSize& image,
                                  std::int64_t size);

/// The file of an image's boxes: FOLDER/CLASS/NAME.xml or FOLDER/NAME.xml.
/// @param image  CLASS/.../NAME.jpg   @throws DataMissingError where there is neither.
std::string boxes_file(const std::string& folder, const std::string& image);

/// A fingerprint of the boxes of these images; those that are missing are passed over.
/// @param images  as above
std::uint64_t boxes_fingerprint(const std::string& folder, const std::vector<std::string>& images);

}  // namespace attnlab
