// What blurs and elastic fields make of a picture, against their equations and plain loops.
#include "framework/data/image/corruption_kinds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "framework/base/random.h"
#include "tests/unit/data/image/made_pictures.h"

namespace attnlab::corruption_kinds_test {
namespace {

using testing::picture;

constexpr std::int64_t kSize = testing::kPictureSide;

TEST(Corruptions, SpreadAPointAsTheirKernelsSay) {
  FloatImage point(41, 41, 1);
  point.at(20, 20) = 1;
  const FloatImage disk = correlated(point, corruptions::defocus_kernel(6, .5));
  EXPECT_NEAR(std::accumulate(disk.values.begin(), disk.values.end(), 0.0), 1, 1e-12);
  EXPECT_NEAR(disk.at(20, 20), 1 / 113.0, 1e-12);  // 113 points of the grid within 6
  EXPECT_EQ(disk.at(20, 28), 0);
  EXPECT_GT(disk.at(20, 26), 0);
  // Motion to the right: what is behind the pixel comes over it, so the point moves to the left.
  const FloatImage moved = motion_blurred(point, 3, 1.5, 0);
  double sum = 0;
  for (int i = 0; i < 7; ++i) sum += std::exp(-i * i / (2 * 1.5 * 1.5));
  for (int i = 0; i < 7; ++i) {
    const double weight = std::exp(-i * i / (2 * 1.5 * 1.5)) / sum;
    EXPECT_NEAR(moved.at(20, 20 - i), weight, .5 / 255 + 1e-9) << i;
  }
  EXPECT_EQ(moved.at(20, 21), 0);
  EXPECT_EQ(moved.at(19, 20), 0);
}

TEST(Corruptions, ReadBeyondEdgesAsTheLibrariesDo) {
  const auto row = [](BorderRule beyond) {
    std::string letters;
    for (std::int64_t i = -3; i < 7; ++i) letters += "abcd"[inside(i, 4, beyond)];
    return letters;
  };
  EXPECT_EQ(row(BorderRule::clamp), "aaaabcdddd");
  EXPECT_EQ(row(BorderRule::mirror), "dcbabcdcba");
  EXPECT_EQ(row(BorderRule::half_mirror), "cbaabcddcb");
}

TEST(Corruptions, CopyPixelsFromNearBehindGlass) {
  Pixels image(16, 16, 1);
  std::iota(image.bytes.begin(), image.bytes.end(), std::uint8_t{0});
  Random random(7);
  const Pixels mixed = bytes_of(corruptions::glass_blur(image, 0.05, 1, 1, random));
  int differ = 0;
  for (std::int64_t y = 0; y < 16; ++y) {
    for (std::int64_t x = 0; x < 16; ++x) {
      const int from = mixed.row(y)[x];
      // Rows are done from the last to the first: what was copied may have come from further down.
      EXPECT_LE(from / 16, y) << y << "," << x;
      differ += from != 16 * y + x;
    }
  }
  for (std::int64_t x = 0; x < 16; ++x) EXPECT_EQ(mixed.row(0)[x], x);  // the frame stays
  EXPECT_GT(differ, 100);
}

TEST(Corruptions, ShiftNothingWhereNothingIsToBeShifted) {
  Random random(3);
  const FloatImage x = numbers_of(picture());
  const FloatImage same = corruptions::elastic(x, 0, 1, 0, random);
  for (std::size_t i = 0; i < x.values.size(); ++i) ASSERT_NEAR(same.values[i], x.values[i], 1e-12);
  // Corners that move by s move nothing by much more than s times how far it lies outside.
  FloatImage ramp(64, 64, 1);
  for (std::int64_t y = 0; y < 64; ++y) {
    for (std::int64_t at = 0; at < 64; ++at) ramp.at(y, at) = double(at) / 64;
  }
  const FloatImage bent = corruptions::elastic(ramp, 0, 1, 2, random);
  double most = 0;
  for (std::int64_t y = 16; y < 48; ++y) {
    for (std::int64_t at = 16; at < 48; ++at) {
      most = std::max(most, 64 * std::abs(bent.at(y, at) - ramp.at(y, at)));
    }
  }
  EXPECT_GT(most, 0.1);
  EXPECT_LT(most, 12);
}

/// max(0, 1 - |distance|): how much a pixel counts at a place between pixels.
double tent(double distance) { return std::max(0.0, 1 - std::abs(distance)); }

/// The value of x at a place between pixels: a sum over every pixel that counts, by definition.
double between_pixels(const FloatImage& x, double y, double at, std::int64_t c, BorderRule beyond) {
  const auto top = static_cast<std::int64_t>(std::floor(y));
  const auto left = static_cast<std::int64_t>(std::floor(at));
  double sum = 0;
  for (std::int64_t i = top; i <= top + 1; ++i) {
    for (std::int64_t j = left; j <= left + 1; ++j) {
      sum += tent(y - double(i)) * tent(at - double(j)) *
             x.at(inside(i, x.height, beyond), inside(j, x.width, beyond), c);
    }
  }
  return sum;
}

/// A field of uniform draws, smoothed by the whole two-dimensional kernel.
FloatImage smoothed_draws(double sigma, Random& random) {
  FloatImage draws(kSize, kSize, 1), out(kSize, kSize, 1);
  for (double& value : draws.values) value = 2 * random.uniform() - 1;
  const auto reach = static_cast<std::int64_t>(3 * sigma + 0.5);
  for (std::int64_t y = 0; y < kSize; ++y) {
    for (std::int64_t x = 0; x < kSize; ++x) {
      double sum = 0, weights = 0;
      for (std::int64_t i = -reach; i <= reach; ++i) {
        for (std::int64_t j = -reach; j <= reach; ++j) {
          const double weight = std::exp(-double(i * i + j * j) / (2 * sigma * sigma));
          weights += weight;
          sum += weight * draws.at(inside(y + i, kSize, BorderRule::half_mirror),
                                   inside(x + j, kSize, BorderRule::half_mirror));
        }
      }
      out.at(y, x) = sum / weights;
    }
  }
  return out;
}

// cv2.getAffineTransform of three corners, cv2.warpAffine, then a shift of each pixel, in the order
// in which the public code draws: three corners, the shifts to the right, those down.
TEST(Corruptions, ShiftAsThePublishedEquationsSay) {
  const double amount = 40, smooth = 2, shift = 3;
  const FloatImage x = numbers_of(picture());
  Random drawn(11), same(11);
  const FloatImage found = corruptions::elastic(x, amount, smooth, shift, drawn);
  // Corners (x, y) of a square of a third of the side about the middle; they go to q.
  const double p[3][2] = {{26, 26}, {26, 6}, {6, 6}};
  double q[3][2];
  for (int i = 0; i < 3; ++i) {
    for (int k = 0; k < 2; ++k) q[i][k] = p[i][k] + shift * (2 * same.uniform() - 1);
  }
  const FloatImage right = smoothed_draws(smooth, same), down = smoothed_draws(smooth, same);
  // A point of the result is w1 q1 + w2 q2 + w3 q3 with weights that sum to one, and comes from the
  // same weights of p: areas of triangles.
  const auto area = [](const double* a, const double* b, const double* c) {
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
  };
  FloatImage moved(kSize, kSize, 3), expected(kSize, kSize, 3);
  for (std::int64_t y = 0; y < kSize; ++y) {
    for (std::int64_t at = 0; at < kSize; ++at) {
      const double here[2] = {double(at), double(y)};
      const double whole = area(q[0], q[1], q[2]);
      const double w[3] = {area(here, q[1], q[2]) / whole, area(q[0], here, q[2]) / whole,
                           area(q[0], q[1], here) / whole};
      const double from_x = w[0] * p[0][0] + w[1] * p[1][0] + w[2] * p[2][0];
      const double from_y = w[0] * p[0][1] + w[1] * p[1][1] + w[2] * p[2][1];
      for (std::int64_t c = 0; c < 3; ++c) {
        moved.at(y, at, c) = between_pixels(x, from_y, from_x, c, BorderRule::mirror);
      }
    }
  }
  double most = 0;
  for (std::int64_t y = 0; y < kSize; ++y) {
    for (std::int64_t at = 0; at < kSize; ++at) {
      for (std::int64_t c = 0; c < 3; ++c) {
        const double wanted =
            between_pixels(moved, double(y) + amount * down.at(y, at),
                           double(at) + amount * right.at(y, at), c, BorderRule::half_mirror);
        ASSERT_NEAR(found.at(y, at, c), wanted, 1e-9) << y << ", " << at;
        most = std::max(most, std::abs(wanted - x.at(y, at, c)));
      }
    }
  }
  EXPECT_GT(most, 0.3);
}

}  // namespace
}  // namespace attnlab::corruption_kinds_test
