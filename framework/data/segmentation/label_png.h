// PNG files of label maps: the numbers of their pixels as they stand in the file.
//
// Programs that decode pictures turn the numbers of an indexed PNG into colours; of a label map the
// numbers count. Read are grey and indexed files of 1, 2, 4 and 8 bits, and red, green and blue of
// 8 bits for label maps that were saved as colours. Interlaced files, 16 bits and transparency are
// refused. Checksums are compared. Source: Portable Network Graphics (PNG) Specification, W3C 2003.
#pragma once

#include <string>
#include <vector>

#include "framework/data/segmentation/label_map.h"

namespace attnlab {

struct LabelPixels {
  std::int64_t height = 0, width = 0;
  bool colours = false;               ///< three bytes a pixel, red, green and blue; else one
  std::vector<std::uint8_t> bytes;    ///< row by row
  std::vector<std::uint8_t> palette;  ///< of an indexed file: red, green and blue of each number
};

/// @throws FileError; DataError naming the file where it is no such PNG or damaged, and the pixel
///         whose number the palette does not have.
LabelPixels read_label_png(const std::string& path);

}  // namespace attnlab
