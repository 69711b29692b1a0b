// Changes of an image's colours, each as Pillow defines it (ImageEnhance, ImageOps), byte for byte;
// the blur is a true Gaussian, which Pillow approximates by boxes.
//
//   blend(a, b, f) = a + f (b - a), cut to 0..255          grey = 0.299 R + 0.587 G + 0.114 B
//   brightness = blend(black, x, f)                        contrast   = blend(mean grey, x, f)
//   saturation = blend(grey, x, f)                         sharpness  = blend(smoothed, x, f)
//   posterise keeps the upper bits                         solarise   = 255 - x where x >=
//   threshold equalise makes each channel's histogram flat           autocontrast stretches it to
//   0..255   hue turns that of HSV, which is not rounded (Pillow keeps it in a byte)
//
// Cost: a pass or two over the bytes; blur: one for each of 6 radius + 1 taps and direction.
#pragma once

#include "framework/data/image/pixels.h"

namespace attnlab {

void change_brightness(Pixels& image, double factor);
void change_contrast(Pixels& image, double factor);
/// An image of one channel stays as it is.
void change_saturation(Pixels& image, double factor);
/// The hue of HSV turned by an angle. An image of one channel stays as it is.
/// @param degrees  of 360
void turn_hue(Pixels& image, double degrees);
/// Smoothed by [1 1 1; 1 5 1; 1 1 1] / 13; the outermost pixels are not.
void change_sharpness(Pixels& image, double factor);

void invert(Pixels& image);
/// @param bits  kept, 0 to 8
void posterise(Pixels& image, int bits);
/// @param threshold  0 to 256
void solarise(Pixels& image, int threshold);
/// Adds to what is below 128, cut at 255.
void solarise_add(Pixels& image, int addition);
void equalise(Pixels& image);
void autocontrast(Pixels& image);
/// All channels become the grey.
void make_grey(Pixels& image);
/// Gaussian blur; the outermost pixels are repeated beyond the edges.
/// @param radius  its standard deviation in pixels, above 0
void blur(Pixels& image, double radius);

}  // namespace attnlab
