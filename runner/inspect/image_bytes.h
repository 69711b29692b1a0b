// Images as models get them, as bytes again.
#pragma once

#include "framework/contracts/dataset.h"
#include "framework/data/image/pixels.h"

namespace attnlab {

/// A normalised image as bytes. Where the dataset does not say how it is normalised, the image's
/// own range becomes 0 to 255.
/// @param image  [C, H, W]   @param field  what the dataset says of it
/// @returns 3 channels; 1 where the image has less than three.
Pixels bytes_of(const Tensor& image, const FieldInfo& field);

/// The same as a PNG in base64, for a page.
std::string png_text(const Tensor& image, const FieldInfo& field);

/// Writes a PNG; folders above it that are not there are made. @throws FileError.
void write_picture(const std::string& path, const Pixels& picture);

}  // namespace attnlab
