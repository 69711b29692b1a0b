#include "framework/data/image/float_image.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace attnlab {
namespace {

/// One line filtered. @param step  from one pixel to the next
void filter_line(const double* line, std::int64_t count, std::int64_t step,
                 const std::vector<double>& weights, BorderRule beyond, std::vector<double>& padded,
                 double* out) {
  const auto reach = static_cast<std::int64_t>(weights.size() / 2);
  padded.resize(static_cast<std::size_t>(count + 2 * reach));
  for (std::int64_t i = -reach; i < count + reach; ++i) {
    padded[static_cast<std::size_t>(i + reach)] = line[inside(i, count, beyond) * step];
  }
  for (std::int64_t i = 0; i < count; ++i) {
    double sum = 0;
    for (std::size_t t = 0; t < weights.size(); ++t) {
      sum += weights[t] * padded[static_cast<std::size_t>(i) + t];
    }
    out[i * step] = sum;
  }
}

}  // namespace

FloatImage numbers_of(const Pixels& image) {
  FloatImage out(image.height, image.width, image.channels);
  std::transform(image.bytes.begin(), image.bytes.end(), out.values.begin(),
                 [](std::uint8_t byte) { return byte / 255.0; });
  return out;
}

Pixels bytes_of(const FloatImage& image) {
  Pixels out(image.height, image.width, image.channels);
  std::transform(image.values.begin(), image.values.end(), out.bytes.begin(), [](double value) {
    return static_cast<std::uint8_t>(std::clamp(value, 0.0, 1.0) * 255);
  });
  return out;
}

std::int64_t inside(std::int64_t i, std::int64_t count, BorderRule beyond) {
  if (i >= 0 && i < count) return i;
  if (beyond == BorderRule::clamp || count == 1) return std::clamp<std::int64_t>(i, 0, count - 1);
  const std::int64_t half = beyond == BorderRule::half_mirror ? count : count - 1;
  const std::int64_t period = 2 * half;
  i = ((i % period) + period) % period;
  if (i < count) return i;
  return beyond == BorderRule::half_mirror ? period - 1 - i : period - i;
}

FloatImage gaussian(const FloatImage& image, double sigma, BorderRule beyond, double truncate) {
  const auto reach = static_cast<std::int64_t>(truncate * sigma + 0.5);
  if (reach == 0) return image;
  std::vector<double> weights, padded;
  double sum = 0;
  for (std::int64_t t = -reach; t <= reach; ++t) {
    weights.push_back(std::exp(-0.5 * double(t * t) / (sigma * sigma)));
    sum += weights.back();
  }
  for (double& weight : weights) weight /= sum;
  FloatImage down = image, out = image;
  const std::int64_t channels = image.channels, row = image.width * channels;
  for (std::int64_t i = 0; i < row; ++i) {
    filter_line(image.values.data() + i, image.height, row, weights, beyond, padded,
                down.values.data() + i);
  }
  for (std::int64_t y = 0; y < image.height; ++y) {
    for (std::int64_t c = 0; c < channels; ++c) {
      filter_line(down.values.data() + y * row + c, image.width, channels, weights, beyond, padded,
                  out.values.data() + y * row + c);
    }
  }
  return out;
}

FloatImage correlated(const FloatImage& image, const FloatImage& kernel) {
  FloatImage out(image.height, image.width, image.channels);
  for (std::int64_t i = 0; i < kernel.height; ++i) {
    for (std::int64_t j = 0; j < kernel.width; ++j) {
      const double weight = kernel.at(i, j);
      if (weight == 0) continue;
      for (std::int64_t y = 0; y < image.height; ++y) {
        const std::int64_t from =
            inside(y + i - kernel.height / 2, image.height, BorderRule::mirror);
        for (std::int64_t x = 0; x < image.width; ++x) {
          const std::int64_t at = inside(x + j - kernel.width / 2, image.width, BorderRule::mirror);
          for (std::int64_t c = 0; c < image.channels; ++c) {
            out.at(y, x, c) += weight * image.at(from, at, c);
          }
        }
      }
    }
  }
  return out;
}

FloatImage motion_blurred(const FloatImage& image, double radius, double sigma, double angle) {
  const auto width = static_cast<std::int64_t>(std::ceil(2 * radius)) + 1;
  std::vector<double> weights;
  double sum = 0;
  for (std::int64_t i = 0; i < width; ++i) {
    weights.push_back(std::exp(-double(i * i) / (2 * sigma * sigma)));
    sum += weights.back();
  }
  const double turn = angle * std::numbers::pi / 180;
  FloatImage out(image.height, image.width, image.channels);
  for (std::int64_t i = 0; i < width; ++i) {
    const auto down = static_cast<std::int64_t>(std::ceil(double(i) * std::sin(turn) - 0.5));
    const auto right = static_cast<std::int64_t>(std::ceil(double(i) * std::cos(turn) - 0.5));
    const double weight = weights[static_cast<std::size_t>(i)] / sum;
    for (std::int64_t y = 0; y < image.height; ++y) {
      const std::int64_t from = inside(y + down, image.height, BorderRule::clamp);
      for (std::int64_t x = 0; x < image.width; ++x) {
        const std::int64_t at = inside(x + right, image.width, BorderRule::clamp);
        for (std::int64_t c = 0; c < image.channels; ++c) {
          out.at(y, x, c) += weight * image.at(from, at, c);
        }
      }
    }
  }
  for (double& value : out.values) value = std::floor(value * 255 + 0.5) / 255;
  return out;
}

double sampled(const FloatImage& image, double y, double x, std::int64_t channel,
               BorderRule beyond) {
  const double top = std::floor(y), left = std::floor(x);
  const double down = y - top, right = x - left;
  const auto row = static_cast<std::int64_t>(top), column = static_cast<std::int64_t>(left);
  const auto value = [&](std::int64_t i, std::int64_t j) {
    return image.at(inside(row + i, image.height, beyond), inside(column + j, image.width, beyond),
                    channel);
  };
  return (1 - down) * ((1 - right) * value(0, 0) + right * value(0, 1)) +
         down * ((1 - right) * value(1, 0) + right * value(1, 1));
}

FloatImage zoomed(const FloatImage& image, double factor) {
  /// One direction: which pixel between the first and last of the middle a pixel of the result is.
  struct Line {
    std::int64_t top, enlarged, trim;
    double step;

    Line(std::int64_t size, double by) {
      const auto part = static_cast<std::int64_t>(std::ceil(double(size) / by));
      top = (size - part) / 2;
      enlarged = static_cast<std::int64_t>(std::nearbyint(double(part) * by));
      step = enlarged > 1 ? double(part - 1) / double(enlarged - 1) : 0;
      trim = (enlarged - size) / 2;
    }
    double from(std::int64_t i) const { return double(top) + double(i + trim) * step; }
  };
  const Line down(image.height, factor), across(image.width, factor);
  FloatImage out(image.height, image.width, image.channels);
  for (std::int64_t y = 0; y < image.height; ++y) {
    for (std::int64_t x = 0; x < image.width; ++x) {
      for (std::int64_t c = 0; c < image.channels; ++c) {
        out.at(y, x, c) = sampled(image, down.from(y), across.from(x), c, BorderRule::clamp);
      }
    }
  }
  return out;
}

}  // namespace attnlab
