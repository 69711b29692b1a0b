#include "framework/data/image/spatter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace attnlab::corruptions {
namespace {

constexpr double kFarthest = 20;  ///< pixels beyond which a distance counts no more

/// Whole numbers in rows and columns, with what lies outside.
class Grid {
 public:
  Grid(std::int64_t height, std::int64_t width, std::int64_t value, std::int64_t outside)
      : height_(height),
        width_(width),
        outside_(outside),
        values_(static_cast<std::size_t>(height * width), value) {}

  std::int64_t& operator()(std::int64_t y, std::int64_t x) {
    return values_[static_cast<std::size_t>(y * width_ + x)];
  }
  std::int64_t at(std::int64_t y, std::int64_t x) const {
    const bool in = y >= 0 && y < height_ && x >= 0 && x < width_;
    return in ? values_[static_cast<std::size_t>(y * width_ + x)] : outside_;
  }

 private:
  std::int64_t height_, width_, outside_;
  std::vector<std::int64_t> values_;
};

/// Sobel's slopes; the outermost pixels are repeated beyond the edges.
struct Slopes {
  Grid across, down;

  explicit Slopes(const Pixels& grey)
      : across(grey.height, grey.width, 0, 0), down(grey.height, grey.width, 0, 0) {
    const auto level = [&](std::int64_t y, std::int64_t x) -> std::int64_t {
      return grey.row(
          inside(y, grey.height, BorderRule::clamp))[inside(x, grey.width, BorderRule::clamp)];
    };
    for (std::int64_t y = 0; y < grey.height; ++y) {
      for (std::int64_t x = 0; x < grey.width; ++x) {
        const auto column = [&](std::int64_t at) {
          return level(y - 1, at) + 2 * level(y, at) + level(y + 1, at);
        };
        const auto row = [&](std::int64_t at) {
          return level(at, x - 1) + 2 * level(at, x) + level(at, x + 1);
        };
        across(y, x) = column(x + 1) - column(x - 1);
        down(y, x) = row(y + 1) - row(y - 1);
      }
    }
  }
};

/// Whether a slope is the steepest along its own direction, of four that directions are rounded to.
bool is_crest(const Slopes& slopes, const Grid& steepness, std::int64_t y, std::int64_t x) {
  constexpr std::int64_t kTan22 = 13573;  // tan(22.5 degrees) times 2^15
  const std::int64_t own = steepness.at(y, x);
  const std::int64_t dx = slopes.across.at(y, x), dy = slopes.down.at(y, x);
  const std::int64_t flat = std::abs(dx) * kTan22, rise = std::abs(dy) << 15;
  if (rise < flat) return own > steepness.at(y, x - 1) && own >= steepness.at(y, x + 1);
  if (rise > flat + (std::abs(dx) << 16)) {
    return own > steepness.at(y - 1, x) && own >= steepness.at(y + 1, x);
  }
  const std::int64_t side = (dx ^ dy) < 0 ? -1 : 1;
  return own > steepness.at(y - 1, x - side) && own > steepness.at(y + 1, x + side);
}

/// The mean of 3 x 3, mirrored at the edges. @param round  to whole numbers; else it is left
FloatImage smoothed(const FloatImage& x, bool round) {
  FloatImage taps(3, 3, 1);
  std::fill(taps.values.begin(), taps.values.end(), 1.0);
  FloatImage out = correlated(x, taps);
  for (double& value : out.values) value = round ? std::round(value / 9) : value / 9;
  return out;
}

/// The pattern of light in the drops, 0 to 255.
FloatImage light_of(const Pixels& liquid) {
  Pixels far = canny_edges(liquid, 50, 150);
  for (std::uint8_t& byte : far.bytes) byte = static_cast<std::uint8_t>(255 - byte);
  FloatImage near(liquid.height, liquid.width, 1);
  near.values = distances_to_zero(far);
  for (double& value : near.values) value = std::min(value, kFarthest);
  near = smoothed(near, /*round=*/false);
  Pixels levels(liquid.height, liquid.width, 1);
  for (std::size_t i = 0; i < levels.bytes.size(); ++i) {
    levels.bytes[i] = static_cast<std::uint8_t>(near.values[i] + 1e-9);
  }
  equalise_levels(levels);
  FloatImage slanted(3, 3, 1), light(liquid.height, liquid.width, 1);
  slanted.values = {-2, -1, 0, -1, 1, 1, 0, 1, 2};
  std::copy(levels.bytes.begin(), levels.bytes.end(), light.values.begin());
  light = correlated(light, slanted);
  for (double& value : light.values) value = std::clamp(value, 0.0, 255.0);
  return smoothed(light, /*round=*/true);
}

/// x (1 - cover m) + m colour, of one channel the colour's grey.
void paint(FloatImage& x, const FloatImage& m, double cover, const std::array<double, 3>& colour) {
  const double grey = 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2];
  const auto channels = static_cast<std::size_t>(x.channels);
  for (std::size_t i = 0; i < m.values.size(); ++i) {
    for (std::size_t c = 0; c < channels; ++c) {
      double& value = x.values[i * channels + c];
      value = value * (1 - cover * m.values[i]) + m.values[i] * (channels == 3 ? colour[c] : grey);
    }
  }
}

}  // namespace

Pixels canny_edges(const Pixels& grey, int low, int high) {
  const Slopes slopes(grey);
  Grid steepness(grey.height, grey.width, 0, 0);
  for (std::int64_t y = 0; y < grey.height; ++y) {
    for (std::int64_t x = 0; x < grey.width; ++x) {
      steepness(y, x) = std::abs(slopes.across.at(y, x)) + std::abs(slopes.down.at(y, x));
    }
  }
  Pixels edges(grey.height, grey.width, 1);
  Grid crest(grey.height, grey.width, 0, 0);
  std::vector<std::pair<std::int64_t, std::int64_t>> open;  // on an edge, neighbours not seen
  const auto begin = [&](std::int64_t y, std::int64_t x) {
    edges.row(y)[x] = 255;
    crest(y, x) = 0;
    open.emplace_back(y, x);
  };
  for (std::int64_t y = 0; y < grey.height; ++y) {
    for (std::int64_t x = 0; x < grey.width; ++x) {
      crest(y, x) = steepness.at(y, x) > low && is_crest(slopes, steepness, y, x) ? 1 : 0;
    }
  }
  for (std::int64_t y = 0; y < grey.height; ++y) {
    for (std::int64_t x = 0; x < grey.width; ++x) {
      if (crest.at(y, x) != 0 && steepness.at(y, x) > high) begin(y, x);
    }
  }
  while (!open.empty()) {
    const auto [y, x] = open.back();
    open.pop_back();
    for (std::int64_t down = -1; down <= 1; ++down) {
      for (std::int64_t right = -1; right <= 1; ++right) {
        if (crest.at(y + down, x + right) != 0) begin(y + down, x + right);
      }
    }
  }
  return edges;
}

std::vector<double> distances_to_zero(const Pixels& grey) {
  constexpr double kUnit = 65536;  // OpenCV counts in 1/65536 of a pixel
  constexpr std::int64_t kFar = std::numeric_limits<std::int32_t>::max() >> 2;
  const std::int64_t straight = std::lround(kUnit), diagonal = std::lround(1.4 * kUnit);
  const std::int64_t knight = std::lround(2.1969 * kUnit);
  struct Step {
    std::int64_t down, right, length;
  };
  const std::array<Step, 8> before = {{{-2, -1, knight},
                                       {-2, 1, knight},
                                       {-1, -2, knight},
                                       {-1, -1, diagonal},
                                       {-1, 0, straight},
                                       {-1, 1, diagonal},
                                       {-1, 2, knight},
                                       {0, -1, straight}}};
  Grid distance(grey.height, grey.width, kFar, kFar);
  const auto relax = [&](std::int64_t y, std::int64_t x, std::int64_t sign) {
    std::int64_t& own = distance(y, x);
    if (grey.row(y)[x] == 0) own = 0;
    for (const Step& step : before) {
      own = std::min(own, distance.at(y + sign * step.down, x + sign * step.right) + step.length);
    }
  };
  for (std::int64_t y = 0; y < grey.height; ++y) {
    for (std::int64_t x = 0; x < grey.width; ++x) relax(y, x, 1);
  }
  std::vector<double> result(grey.bytes.size());
  for (std::int64_t y = grey.height - 1; y >= 0; --y) {
    for (std::int64_t x = grey.width - 1; x >= 0; --x) {
      relax(y, x, -1);
      result[static_cast<std::size_t>(y * grey.width + x)] = double(distance.at(y, x)) / kUnit;
    }
  }
  return result;
}

void equalise_levels(Pixels& grey) {
  std::array<std::int64_t, 256> count{};
  for (const std::uint8_t byte : grey.bytes) ++count[byte];
  const auto total = static_cast<std::int64_t>(grey.bytes.size());
  const auto* first = std::find_if(count.begin(), count.end(), [](auto n) { return n > 0; });
  if (first == count.end() || *first == total) return;
  const float scale = 255.0F / static_cast<float>(total - *first);
  std::array<std::uint8_t, 256> levels{};
  std::int64_t sum = 0;
  for (auto level = static_cast<std::size_t>(first - count.begin()) + 1; level < 256; ++level) {
    sum += count[level];
    levels[level] = static_cast<std::uint8_t>(std::nearbyint(static_cast<float>(sum) * scale));
  }
  for (std::uint8_t& byte : grey.bytes) byte = levels[byte];
}

void add_water(FloatImage& x, const FloatImage& liquid, double amount) {
  Pixels bytes(liquid.height, liquid.width, 1);
  for (std::size_t i = 0; i < bytes.bytes.size(); ++i) {
    bytes.bytes[i] = static_cast<std::uint8_t>(static_cast<std::int64_t>(liquid.values[i] * 255));
  }
  FloatImage m = light_of(bytes);
  for (std::size_t i = 0; i < m.values.size(); ++i) m.values[i] *= bytes.bytes[i];
  const double most = *std::max_element(m.values.begin(), m.values.end());
  if (most == 0) return;
  for (double& value : m.values) value *= amount / most;
  paint(x, m, 0, {175.0 / 255, 238.0 / 255, 238.0 / 255});
}

void add_mud(FloatImage& x, const FloatImage& liquid, double threshold, double sigma) {
  FloatImage m = liquid;
  for (double& value : m.values) value = value > threshold ? 1 : 0;
  m = gaussian(m, sigma);
  for (double& value : m.values) value = value < 0.8 ? 0 : value;
  paint(x, m, 1, {63.0 / 255, 42.0 / 255, 20.0 / 255});
}

void spatter(FloatImage& x, const Constants& c, Random& random) {
  FloatImage liquid(x.height, x.width, 1);
  for (double& value : liquid.values) value = c[0] + c[1] * random.normal();
  liquid = gaussian(liquid, c[2]);
  for (double& value : liquid.values) value = value < c[3] ? 0 : value;
  if (c[5] > 0) {
    add_mud(x, liquid, c[3], c[4]);
  } else {
    add_water(x, liquid, c[4]);
  }
}

}  // namespace attnlab::corruptions
