#include "framework/data/image/corruption_kinds.h"

#include <algorithm>
#include <cmath>

#include "framework/data/image/resize.h"

namespace attnlab::corruptions {
namespace {

double grey(const FloatImage& x, std::int64_t i) {
  const double* pixel = x.values.data() + i * x.channels;
  return x.channels < 3 ? pixel[0] : 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2];
}

FloatImage uniform_field(std::int64_t height, std::int64_t width, double sigma, Random& random) {
  FloatImage field(height, width, 1);
  for (double& value : field.values) value = random.uniform(-1, 1);
  return gaussian(field, sigma, BorderRule::half_mirror, 3);
}

}  // namespace

void gaussian_noise(FloatImage& x, double scale, Random& random) {
  for (double& value : x.values) value += scale * random.normal();
}

void speckle_noise(FloatImage& x, double scale, Random& random) {
  for (double& value : x.values) value += value * scale * random.normal();
}

void impulse_noise(FloatImage& x, double share, Random& random) {
  for (double& value : x.values) {
    if (random.uniform() < share) value = random.uniform() < 0.5 ? 1 : 0;
  }
}

std::vector<std::vector<double>> poisson_tables(double rate) {
  std::vector<std::vector<double>> tables(256);
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const double mean = rate * double(byte) / 255;
    double term = std::exp(-mean), sum = term;
    tables[byte].push_back(sum);
    for (double k = 1; sum < 1 - 1e-12 && k < 10 * mean + 100; ++k) {
      sum += term *= mean / k;
      tables[byte].push_back(sum);
    }
  }
  return tables;
}

Pixels shot_noise(const Pixels& image, double rate, const std::vector<std::vector<double>>& tables,
                  Random& random) {
  Pixels out = image;
  for (std::uint8_t& byte : out.bytes) {
    const std::vector<double>& table = tables[byte];
    const auto count = std::lower_bound(table.begin(), table.end(), random.uniform());
    byte = static_cast<std::uint8_t>(255 * std::min(1.0, double(count - table.begin()) / rate));
  }
  return out;
}

FloatImage defocus_kernel(double radius, double smoothing) {
  const std::int64_t reach = radius <= 8 ? 8 : static_cast<std::int64_t>(radius);
  const std::int64_t size = 2 * reach + 1;
  FloatImage disk(size, size, 1);
  double sum = 0;
  for (std::int64_t y = -reach; y <= reach; ++y) {
    for (std::int64_t x = -reach; x <= reach; ++x) {
      const double inside = double(x * x + y * y) <= radius * radius ? 1 : 0;
      sum += disk.at(y + reach, x + reach) = inside;
    }
  }
  for (double& value : disk.values) value /= sum;
  const std::int64_t taps = radius <= 8 ? 3 : 5;  // OpenCV's GaussianBlur of 3 x 3 and 5 x 5
  FloatImage smooth(taps, taps, 1);
  double total = 0;
  for (std::int64_t y = 0; y < taps; ++y) {
    for (std::int64_t x = 0; x < taps; ++x) {
      const auto squares =
          double((y - taps / 2) * (y - taps / 2) + (x - taps / 2) * (x - taps / 2));
      total += smooth.at(y, x) = std::exp(-squares / (2 * smoothing * smoothing));
    }
  }
  for (double& value : smooth.values) value /= total;
  return correlated(disk, smooth);
}

FloatImage glass_blur(const Pixels& image, double sigma, std::int64_t reach, std::int64_t rounds,
                      Random& random) {
  Pixels mixed = bytes_of(gaussian(numbers_of(image), sigma));
  const std::int64_t channels = image.channels;
  for (std::int64_t round = 0; round < rounds; ++round) {
    for (std::int64_t y = image.height - reach; y > reach; --y) {
      for (std::int64_t x = image.width - reach; x > reach; --x) {
        const std::int64_t right = random.below(2 * reach) - reach;
        const std::int64_t down = random.below(2 * reach) - reach;
        const std::uint8_t* from = mixed.row(y + down) + (x + right) * channels;
        std::uint8_t* to = mixed.row(y) + x * channels;
        for (std::int64_t c = 0; c < channels; ++c) to[c] = from[c];
      }
    }
  }
  return gaussian(numbers_of(mixed), sigma);
}

FloatImage zoom_blur(const FloatImage& x, double end, double step) {
  const auto count = static_cast<std::int64_t>(std::ceil((end - 1) / step));  // numpy.arange
  const double apart = (1 + step) - 1;
  FloatImage sum = x;
  for (std::int64_t i = 0; i < count; ++i) {
    const FloatImage larger = zoomed(x, 1 + double(i) * apart);
    for (std::size_t k = 0; k < sum.values.size(); ++k) sum.values[k] += larger.values[k];
  }
  for (double& value : sum.values) value /= double(count + 1);
  return sum;
}

void fog(FloatImage& x, double amount, const FloatImage& cloud, std::int64_t offset) {
  const double most = *std::max_element(x.values.begin(), x.values.end());
  for (std::int64_t y = 0; y < x.height; ++y) {
    for (std::int64_t at = 0; at < x.width; ++at) {
      for (std::int64_t c = 0; c < x.channels; ++c) {
        double& value = x.at(y, at, c);
        value = (value + amount * cloud.at(y + offset, at + offset)) * most / (most + amount);
      }
    }
  }
}

void snow(FloatImage& x, const Constants& c, Random& random) {
  FloatImage layer(x.height, x.width, 1);
  for (double& value : layer.values) value = c[0] + c[1] * random.normal();
  layer = zoomed(layer, c[2]);
  for (double& value : layer.values) {
    value = value < c[3] ? 0 : std::floor(std::clamp(value, 0.0, 1.0) * 255) / 255;
  }
  layer = motion_blurred(layer, c[4], c[5], random.uniform(-135, -45));
  const std::int64_t count = x.height * x.width;
  for (std::int64_t i = 0; i < count; ++i) {
    const double white = grey(x, i) * 1.5 + 0.5;
    const double flakes = layer.values[static_cast<std::size_t>(i)] +
                          layer.values[static_cast<std::size_t>(count - 1 - i)];
    for (std::int64_t k = 0; k < x.channels; ++k) {
      double& value = x.values[static_cast<std::size_t>(i * x.channels + k)];
      value = c[6] * value + (1 - c[6]) * std::max(value, white) + flakes;
    }
  }
}

Pixels frost(const Pixels& image, double own, double photos, const Pixels& photo, Random& random) {
  const std::int64_t top = random.below(photo.height - image.height);
  const std::int64_t left = random.below(photo.width - image.width);
  Pixels out = image;
  for (std::int64_t y = 0; y < image.height; ++y) {
    for (std::int64_t x = 0; x < image.width; ++x) {
      const std::uint8_t* ice = photo.row(top + y) + (left + x) * 3;
      std::uint8_t* pixel = out.row(y) + x * image.channels;
      for (std::int64_t c = 0; c < image.channels; ++c) {
        const double white = image.channels == 3 ? ice[c] : (ice[0] + ice[1] + ice[2]) / 3.0;
        pixel[c] =
            static_cast<std::uint8_t>(std::clamp(own * pixel[c] + photos * white, 0.0, 255.0));
      }
    }
  }
  return out;
}

void contrast(FloatImage& x, double factor) {
  const auto step = static_cast<std::size_t>(x.channels);
  for (std::size_t c = 0; c < step; ++c) {
    double mean = 0;
    for (std::size_t i = c; i < x.values.size(); i += step) mean += x.values[i];
    mean /= double(x.height * x.width);
    for (std::size_t i = c; i < x.values.size(); i += step) {
      x.values[i] = (x.values[i] - mean) * factor + mean;
    }
  }
}

// At fixed hue and saturation all channels are in proportion to the largest, which is V.
void brightness(FloatImage& x, double addition) {
  const auto step = static_cast<std::size_t>(x.channels);
  for (auto* pixel = x.values.data(); pixel < x.values.data() + x.values.size(); pixel += step) {
    const double largest = *std::max_element(pixel, pixel + step);
    const double wanted = std::min(largest + addition, 1.0);
    for (std::size_t c = 0; c < step; ++c) {
      pixel[c] = largest > 0 ? pixel[c] * wanted / largest : wanted;
    }
  }
}

// At fixed hue and V the distances from the largest channel are in proportion to S. Grey has hue 0:
// where it is given a saturation, it turns red.
void saturate(FloatImage& x, double factor, double addition) {
  if (x.channels != 3) return;
  for (auto* pixel = x.values.data(); pixel < x.values.data() + x.values.size(); pixel += 3) {
    const double largest = *std::max_element(pixel, pixel + 3);
    const double spread = largest - *std::min_element(pixel, pixel + 3);
    const double before = largest > 0 ? spread / largest : 0;
    const double after = std::clamp(before * factor + addition, 0.0, 1.0);
    for (int c = 0; c < 3; ++c) {
      if (spread > 0) {
        pixel[c] = largest - (largest - pixel[c]) * after / before;
      } else if (c > 0) {
        pixel[c] = largest * (1 - after);
      }
    }
  }
}

Pixels pixelate(const Pixels& image, double factor) {
  const auto height = static_cast<std::int64_t>(double(image.height) * factor);
  const auto width = static_cast<std::int64_t>(double(image.width) * factor);
  const Pixels small =
      resized(image, {0, 0, image.height, image.width}, height, width, Filter::box);
  return resized(small, {0, 0, height, width}, image.height, image.width, Filter::box);
}

FloatImage elastic(const FloatImage& x, double amount, double smooth, double shift,
                   Random& random) {
  // Three corners of a square in the middle, (x, y), and where they go.
  const double middle_y = std::floor(double(x.height) / 2),
               middle_x = std::floor(double(x.width) / 2);
  const auto side = double(std::min(x.height, x.width) / 3);
  // The public code takes (height, width) for (x, y); images are square there.
  const double from[3][2] = {{middle_x + side, middle_y + side},
                             {middle_x + side, middle_y - side},
                             {middle_x - side, middle_y - side}};
  double to[3][2];
  for (int i = 0; i < 3; ++i) {
    for (int k = 0; k < 2; ++k) to[i][k] = from[i][k] + random.uniform(-shift, shift);
  }
  // The affine map that takes the corners back: p(t) = from1 + a (t - to1), by its two sides.
  const double u[2] = {to[0][0] - to[1][0], to[0][1] - to[1][1]};
  const double v[2] = {to[2][0] - to[1][0], to[2][1] - to[1][1]};
  const double area = u[0] * v[1] - u[1] * v[0];
  FloatImage moved(x.height, x.width, x.channels);
  for (std::int64_t y = 0; y < x.height; ++y) {
    for (std::int64_t at = 0; at < x.width; ++at) {
      const double dx = double(at) - to[1][0], dy = double(y) - to[1][1];
      const double along_u = (dx * v[1] - dy * v[0]) / area;
      const double along_v = (u[0] * dy - u[1] * dx) / area;
      const double source_x =
          from[1][0] + along_u * (from[0][0] - from[1][0]) + along_v * (from[2][0] - from[1][0]);
      const double source_y =
          from[1][1] + along_u * (from[0][1] - from[1][1]) + along_v * (from[2][1] - from[1][1]);
      for (std::int64_t c = 0; c < x.channels; ++c) {
        moved.at(y, at, c) = sampled(x, source_y, source_x, c, BorderRule::mirror);
      }
    }
  }
  const FloatImage right = uniform_field(x.height, x.width, smooth, random);
  const FloatImage down = uniform_field(x.height, x.width, smooth, random);
  FloatImage out(x.height, x.width, x.channels);
  for (std::int64_t y = 0; y < x.height; ++y) {
    for (std::int64_t at = 0; at < x.width; ++at) {
      for (std::int64_t c = 0; c < x.channels; ++c) {
        out.at(y, at, c) =
            sampled(moved, double(y) + amount * down.at(y, at),
                    double(at) + amount * right.at(y, at), c, BorderRule::half_mirror);
      }
    }
  }
  return out;
}

}  // namespace attnlab::corruptions
