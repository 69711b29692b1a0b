// What an image loses in a JPEG file, without the file: everything that JPEG does but its coding of
// numbers as bits, which loses nothing.
//
//   RGB -> Y Cb Cr; Cb and Cr averaged over 2 x 2 pixels; 8 x 8 blocks, cosine transform, each
//   coefficient rounded to a multiple of its step; back; Cb and Cr enlarged by (3, 1) / 4; -> RGB
//
// Steps are those of the standard's Annex K, scaled for a quality as libjpeg does; 4:2:0, as Pillow
// saves by default. Images differ from Pillow's by 1 or 2 in some bytes, since libjpeg's transforms
// are of whole numbers. Source: ITU-T T.81; libjpeg. Cost: 16 products a byte and direction.
#pragma once

#include "framework/data/image/pixels.h"

namespace attnlab {

/// @param image    of 1 or 3 channels
/// @param quality  1 to 100
Pixels jpeg_loss(const Pixels& image, int quality);

}  // namespace attnlab
