// Pictures as PNG files.
#pragma once

#include <string>

#include "framework/data/image/pixels.h"

namespace attnlab {

/// The bytes of a PNG file (8 bits, grey or red, green and blue).
std::string png_of(const Pixels& image);

}  // namespace attnlab
