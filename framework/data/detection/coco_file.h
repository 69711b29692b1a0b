// Annotations as COCO publishes them: one JSON file of images, annotations and categories.
//
//   images       id, file_name, height, width
//   annotations  image_id, category_id, bbox [x, y, width, height], area, iscrowd
//   categories   id, name
//
// The file is read as a stream: what is kept are pictures and boxes, 100 bytes per box, whatever
// else stands in it (masks are most of the published 450 MB). Sections may come in any order.
// Source: Lin et al., Microsoft COCO, ECCV 2014; https://cocodataset.org/#format-data.
#pragma once

#include "framework/data/detection/pictures.h"

namespace attnlab {

struct CocoFile {
  std::vector<std::string> class_names;  ///< in the order of category ids
  std::vector<std::string> files;        ///< of each picture, within the folder of pictures
  std::vector<PictureNotes> pictures;    ///< sorted by id
  DroppedBoxes dropped;
  std::uint64_t fingerprint = 0;  ///< of all that was kept
};

/// @throws DataError naming file and place for a file of another format; FileError.
CocoFile read_coco(const std::string& path, const BoxRules& rules);

}  // namespace attnlab
