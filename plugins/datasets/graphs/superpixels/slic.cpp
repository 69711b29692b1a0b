#include "plugins/datasets/graphs/superpixels/slic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

namespace attnlab {
namespace {

/// sRGB in [0, 1] to CIELAB under D65, pixel by pixel.
void to_lab(std::vector<double>& values, std::int64_t pixels) {
  constexpr double kXyz[3][3] = {
      {0.412453, 0.35758, 0.180423}, {0.212671, 0.71516, 0.072169}, {0.019334, 0.119193, 0.950227}};
  constexpr double kWhite[3] = {0.95047, 1.0, 1.08883};
  for (std::int64_t p = 0; p < pixels; ++p) {
    double* const at = values.data() + p;
    double linear[3], f[3];
    for (int c = 0; c < 3; ++c) {
      const double v = at[c * pixels];
      linear[c] = v > 0.04045 ? std::pow((v + 0.055) / 1.055, 2.4) : v / 12.92;
    }
    for (int c = 0; c < 3; ++c) {
      double sum = 0;
      for (int k = 0; k < 3; ++k) sum += kXyz[c][k] * linear[k];
      const double share = sum / kWhite[c];
      f[c] = share > 0.008856 ? std::cbrt(share) : 7.787 * share + 16.0 / 116.0;
    }
    at[0] = 116 * f[1] - 16;
    at[pixels] = 500 * (f[0] - f[1]);
    at[2 * pixels] = 200 * (f[1] - f[2]);
  }
}

/// Mean place and colour of a segment's pixels.
struct Centre {
  double y = 0, x = 0;
  std::array<double, 3> colour{};
};

/// k-means of pixels, each centre looking at its window alone.
class Clusters {
 public:
  Clusters(const ImageValues& image, const SlicGrid& grid) : image_(image), grid_(grid) {
    for (std::int64_t y = grid.first; y < image.height; y += grid.step) {
      for (std::int64_t x = grid.first; x < image.width; x += grid.step) {
        centres_.push_back({double(y), double(x)});
      }
    }
    // Windows are those of the grid that as many centres as there are would lie on.
    window_ = 2 * slic_grid(image.height, image.width, std::int64_t(centres_.size())).step;
    nearest_.assign(static_cast<std::size_t>(image.height * image.width), 0);
  }

  std::int64_t count() const { return static_cast<std::int64_t>(centres_.size()); }

  std::vector<std::int32_t> run() {
    for (int turn = 0; turn < 10; ++turn) {
      assign();
      move();
    }
    return nearest_;
  }

 private:
  void assign() {
    std::vector<double> distance(nearest_.size(), std::numeric_limits<double>::max());
    const double weight = 1.0 / double(grid_.step * grid_.step);
    const std::int64_t pixels = image_.height * image_.width;
    for (std::size_t k = 0; k < centres_.size(); ++k) {
      const Centre& centre = centres_[k];
      const auto top = static_cast<std::int64_t>(std::max(centre.y - double(window_), 0.0));
      const auto left = static_cast<std::int64_t>(std::max(centre.x - double(window_), 0.0));
      const auto bottom = static_cast<std::int64_t>(
          std::min(centre.y + double(window_) + 1, double(image_.height)));
      const auto right =
          static_cast<std::int64_t>(std::min(centre.x + double(window_) + 1, double(image_.width)));
      for (std::int64_t y = top; y < bottom; ++y) {
        const double dy = centre.y - double(y);
        for (std::int64_t x = left; x < right; ++x) {
          const auto pixel = static_cast<std::size_t>(y * image_.width + x);
          const double dx = centre.x - double(x);
          double colour = 0;
          for (std::int64_t c = 0; c < image_.channels; ++c) {
            const double d = image_.values[pixel + static_cast<std::size_t>(c * pixels)] -
                             centre.colour[static_cast<std::size_t>(c)];
            colour += d * d;
          }
          const double total = (dy * dy + dx * dx) * weight + colour;
          if (distance[pixel] <= total) continue;
          distance[pixel] = total;
          nearest_[pixel] = static_cast<std::int32_t>(k);
        }
      }
    }
  }

  void move() {
    const std::int64_t pixels = image_.height * image_.width;
    std::vector<Centre> sums(centres_.size());
    std::vector<double> counts(centres_.size());
    for (std::int64_t p = 0; p < pixels; ++p) {
      const auto k = static_cast<std::size_t>(nearest_[static_cast<std::size_t>(p)]);
      counts[k] += 1;
      sums[k].y += double(p / image_.width);
      sums[k].x += double(p % image_.width);
      for (std::int64_t c = 0; c < image_.channels; ++c) {
        sums[k].colour[static_cast<std::size_t>(c)] +=
            image_.values[static_cast<std::size_t>(c * pixels + p)];
      }
    }
    for (std::size_t k = 0; k < sums.size(); ++k) {
      // A centre without pixels stays without: it is where nothing is near.
      const double nowhere = -1e9;
      centres_[k].y = counts[k] > 0 ? sums[k].y / counts[k] : nowhere;
      centres_[k].x = counts[k] > 0 ? sums[k].x / counts[k] : nowhere;
      for (std::size_t c = 0; c < 3 && counts[k] > 0; ++c) {
        centres_[k].colour[c] = sums[k].colour[c] / counts[k];
      }
    }
  }

  const ImageValues& image_;
  SlicGrid grid_;
  std::int64_t window_ = 1;
  std::vector<Centre> centres_;
  std::vector<std::int32_t> nearest_;
};

/// How few and how many pixels a segment has.
struct PixelBounds {
  std::size_t least = 0, most = 0;
  bool operator==(const PixelBounds&) const = default;
};

/// Every connected region becomes a segment, but one of fewer than `least` pixels joins one of
/// those beside it; at `most` pixels a region is cut.
std::vector<std::int32_t> connected(const std::vector<std::int32_t>& labels, std::int64_t height,
                                    std::int64_t width, const PixelBounds& pixels) {
  constexpr int kDown[] = {0, 0, 1, -1}, kRight[] = {1, -1, 0, 0};
  std::vector<std::int32_t> segments(labels.size(), -1);
  std::int32_t next = 0;
  std::vector<std::size_t> region;
  for (std::size_t first = 0; first < labels.size(); ++first) {
    if (segments[first] >= 0) continue;
    std::int32_t beside = next;
    region = {first};
    segments[first] = next;
    for (std::size_t at = 0; at < region.size() && region.size() < pixels.most; ++at) {
      const std::int64_t y = std::int64_t(region[at]) / width, x = std::int64_t(region[at]) % width;
      for (int side = 0; side < 4; ++side) {
        const std::int64_t yy = y + kDown[side], xx = x + kRight[side];
        if (yy < 0 || yy >= height || xx < 0 || xx >= width) continue;
        const auto pixel = static_cast<std::size_t>(yy * width + xx);
        if (labels[pixel] == labels[first] && segments[pixel] < 0) {
          segments[pixel] = next;
          region.push_back(pixel);
          if (region.size() >= pixels.most) break;
        } else if (segments[pixel] >= 0 && segments[pixel] != next) {
          beside = segments[pixel];
        }
      }
    }
    if (region.size() >= pixels.least) {
      ++next;
    } else {
      for (const std::size_t pixel : region) segments[pixel] = beside;
    }
  }
  return segments;
}

/// Segments of one image for one number asked for after another: only what a number changes is
/// computed anew.
class Segmentation {
 public:
  Segmentation(const ImageValues& image, double compactness, SegmentSize size)
      : image_(image), size_(size) {
    if (image_.channels == 3) to_lab(image_.values, image_.height * image_.width);
    for (double& value : image_.values) value /= compactness;
  }

  /// False: the segments are those of the number before.
  bool ask_for(std::int64_t count) {
    const SlicGrid grid = slic_grid(image_.height, image_.width, count);
    const bool moved = grid_ != grid;
    if (moved) {
      Clusters clusters(image_, grid);
      centres_ = clusters.count();
      nearest_ = clusters.run();
      grid_ = grid;
    }
    const double segments = double(size_ == SegmentSize::of_asked ? count : centres_);
    const double share = double(image_.height * image_.width) / segments;
    const PixelBounds before = pixels_;
    pixels_ = {static_cast<std::size_t>(share / 2), static_cast<std::size_t>(3 * share)};
    return moved || pixels_ != before;
  }

  std::vector<std::int32_t> segments() const {
    return connected(nearest_, image_.height, image_.width, pixels_);
  }

 private:
  ImageValues image_;  ///< its colours as they are compared
  SegmentSize size_;
  std::optional<SlicGrid> grid_;
  std::int64_t centres_ = 0;
  std::vector<std::int32_t> nearest_;
  PixelBounds pixels_;
};

}  // namespace

SlicGrid slic_grid(std::int64_t height, std::int64_t width, std::int64_t count) {
  if (height * width <= count) return {0, 1};
  const double spacing = std::sqrt(double(height * width) / double(count));
  // As NumPy rounds: halves to the even number.
  return {static_cast<std::int64_t>(std::floor(spacing / 2)),
          static_cast<std::int64_t>(std::nearbyint(spacing))};
}

std::vector<std::int32_t> slic(const ImageValues& image, std::int64_t count, double compactness,
                               SegmentSize size) {
  Segmentation segmentation(image, compactness, size);
  segmentation.ask_for(count);
  return segmentation.segments();
}

std::vector<std::int32_t> at_most_segments(const ImageValues& image, std::int64_t most,
                                           std::int64_t beyond, double compactness,
                                           SegmentSize size) {
  Segmentation segmentation(image, compactness, size);
  for (std::int64_t count = most + beyond; count > 0; --count) {
    if (!segmentation.ask_for(count)) continue;
    std::vector<std::int32_t> segments = segmentation.segments();
    if (*std::max_element(segments.begin(), segments.end()) < most) return segments;
  }
  return std::vector<std::int32_t>(static_cast<std::size_t>(image.height * image.width), 0);
}

}  // namespace attnlab
