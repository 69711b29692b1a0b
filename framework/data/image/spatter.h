// Spatter on a lens: drops of water that brighten, or mud that covers. One of ImageNet-C's four
// extra corruptions.
//
//   liquid = blurred noise where it is above a threshold, else 0
//   water  x + a m colour,  m = liquid times a pattern of light at the drops' edges, over its
//          maximum; the pattern: the distance to Canny's edges, at most 20 pixels, smoothed,
//          equalised, sharpened, smoothed
//   mud    (1 - m) x + m brown,  m = where there is liquid, blurred, and 0 below 0.8
//
// Edges, distance, equalisation and filters are OpenCV's (Canny with L1 gradients,
// distanceTransform with a 5 x 5 mask, equalizeHist, filter2D, blur), on which the public code
// rests. Source: Hendrycks & Dietterich, ICLR 2019, hendrycks/robustness. Cost: some twenty passes.
#pragma once

#include "framework/data/image/corruption_kinds.h"

namespace attnlab::corruptions {

/// @param c  mean and deviation of the noise, sigma of its blur, threshold, amount of water or
///           sigma of mud, and 1 for mud
void spatter(FloatImage& x, const Constants& c, Random& random);

/// @param liquid  one channel of the image's size, 0 where there is none
/// @param amount  what the brightest drop adds
void add_water(FloatImage& x, const FloatImage& liquid, double amount);
void add_mud(FloatImage& x, const FloatImage& liquid, double threshold, double sigma);

/// Canny's edges of a picture of one channel: 255 on an edge, else 0.
/// @param low, high  thresholds of |dx| + |dy| by Sobel
Pixels canny_edges(const Pixels& grey, int low, int high);

/// The distance of each pixel to the nearest of zero, by steps of 1, 1.4 and 2.1969; above 8000
/// where there is none. Row by row.
std::vector<double> distances_to_zero(const Pixels& grey);

/// Makes the histogram flat. (Pillow's is another: colour.h.)
void equalise_levels(Pixels& grey);

}  // namespace attnlab::corruptions
