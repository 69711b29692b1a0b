// What each corruption does to one image, with its constants already chosen: corruption.h has the
// definitions.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "framework/base/random.h"
#include "framework/data/image/float_image.h"

namespace attnlab::corruptions {

/// The constants of one corruption at one severity; unused ones are 0.
using Constants = std::array<double, 7>;
/// Those of ImageNet-C or of CIFAR-10-C; of elastic_transform in shares of the image's side, which
/// is 244 in ImageNet-C's code. @param severity  1 to 5
const Constants& constants_of(const std::string& corruption, bool cifar, std::int64_t severity);

void gaussian_noise(FloatImage& x, double scale, Random& random);
void speckle_noise(FloatImage& x, double scale, Random& random);
void impulse_noise(FloatImage& x, double share, Random& random);
/// P(count <= k) of Poisson(rate byte / 255), for each byte, up to 1 - 1e-12.
std::vector<std::vector<double>> poisson_tables(double rate);
Pixels shot_noise(const Pixels& image, double rate, const std::vector<std::vector<double>>& tables,
                  Random& random);

FloatImage defocus_kernel(double radius, double smoothing);
FloatImage glass_blur(const Pixels& image, double sigma, std::int64_t reach, std::int64_t rounds,
                      Random& random);
/// @param end, step  factors are 1, 1 + step, ... below `end`
FloatImage zoom_blur(const FloatImage& x, double end, double step);

/// @param cloud  at least as large as the image; `offset` rows and columns of it are passed over
void fog(FloatImage& x, double amount, const FloatImage& cloud, std::int64_t offset);
void snow(FloatImage& x, const Constants& c, Random& random);
/// @param photo  of three channels, larger than the image
Pixels frost(const Pixels& image, double own, double photos, const Pixels& photo, Random& random);

void contrast(FloatImage& x, double factor);
void brightness(FloatImage& x, double addition);
void saturate(FloatImage& x, double factor, double addition);
Pixels pixelate(const Pixels& image, double factor);
/// @param amount  of the field, in pixels   @param smooth  its sigma   @param shift  of the corners
FloatImage elastic(const FloatImage& x, double amount, double smooth, double shift, Random& random);

}  // namespace attnlab::corruptions
