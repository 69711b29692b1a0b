// Photometric distortion: random changes of a training picture's colours, in this order.
//
//   brightness   x + b,          b in [-32, 32]
//   contrast     f x,            f in [0.5, 1.5]; here, or at the end
//   saturation   S of HSV times f in [0.5, 1.5]
//   hue          turned by 2 d degrees, d in -18 ... 17
//
// Each with probability 1/2, and contrast first or last with probability 1/2; bytes are cut to
// 0..255 between steps, brightness and contrast drop the fraction.
// Source: Liu et al., SSD, ECCV 2016, in the form of mmsegmentation's PhotoMetricDistortion. That
// code keeps hue in steps of 2 degrees and saturation in bytes between the steps; here they are
// not rounded. Cost: a pass over the bytes for each step, hue some ten times that.
#pragma once

#include "framework/base/random.h"
#include "framework/data/image/colour.h"

namespace attnlab {

/// @param image  red, green and blue
void distort_colours(Pixels& image, Random& random);

/// The saturation of HSV times a factor, cut at 1.
void scale_saturation(Pixels& image, double factor);

}  // namespace attnlab
