// Pictures with a line of text below each, side by side in one picture.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/data/image/pixels.h"

namespace attnlab {

struct Picture {
  Pixels pixels;  ///< of 1 or 3 channels, all pictures equally large
  std::string text;
};

/// Small pictures are enlarged, each pixel to a square. Text is cut to its picture's width; letters
/// are shown as capitals.
/// @param columns  pictures side by side
/// @returns [height, width, 3].
Pixels contact_sheet(const std::vector<Picture>& pictures, std::int64_t columns);

}  // namespace attnlab
