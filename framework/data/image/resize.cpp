#include "framework/data/image/resize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "framework/base/error.h"
#include "framework/base/vector_clones.h"

namespace attnlab {
namespace {

double bilinear(double t) { return std::max(0.0, 1 - std::abs(t)); }

double bicubic(double t) {
  constexpr double a = -0.5;
  t = std::abs(t);
  if (t < 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  return t < 2 ? (((t - 5) * t + 8) * t - 4) * a : 0;
}

double weight(Filter filter, double t) {
  if (filter == Filter::box) return t > -0.5 && t <= 0.5 ? 1 : 0;
  return filter == Filter::bicubic ? bicubic(t) : bilinear(t);
}

double support_of(Filter filter) {
  if (filter == Filter::box) return 0.5;
  return filter == Filter::bicubic ? 2 : 1;
}

/// What each pixel of a row or column of the result is the weighted sum of.
struct Taps {
  std::vector<std::int64_t> first, count;
  std::vector<float> weights;         ///< `stride` for each pixel
  std::int64_t stride = 0, most = 0;  ///< weights behind a pixel's last are 0, up to `most`

  const float* of(std::int64_t pixel) const { return weights.data() + pixel * stride; }
};

/// @param in, out  pixels of the whole row   @param begin, size  of the result that is wanted
Taps taps_of(std::int64_t in, std::int64_t out, std::int64_t begin, std::int64_t size,
             Filter filter) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double spread = std::max(scale, 1.0);
  const double support = support_of(filter) * spread;
  Taps taps;
  taps.stride = static_cast<std::int64_t>(std::ceil(support)) * 2 + 1;
  taps.weights.assign(static_cast<std::size_t>(size * taps.stride), 0);
  std::vector<double> row(static_cast<std::size_t>(taps.stride));
  for (std::int64_t i = 0; i < size; ++i) {
    const double centre = (static_cast<double>(begin + i) + 0.5) * scale;
    const auto first = std::max<std::int64_t>(0, static_cast<std::int64_t>(centre - support + 0.5));
    const auto last = std::min<std::int64_t>(in, static_cast<std::int64_t>(centre + support + 0.5));
    double sum = 0;
    for (std::int64_t j = first; j < last; ++j) {
      const double t = (static_cast<double>(j) + 0.5 - centre) / spread;
      sum += row[static_cast<std::size_t>(j - first)] = weight(filter, t);
    }
    for (std::int64_t j = first; j < last; ++j) {
      taps.weights[static_cast<std::size_t>(i * taps.stride + j - first)] =
          static_cast<float>(row[static_cast<std::size_t>(j - first)] / sum);
    }
    taps.first.push_back(first);
    taps.count.push_back(last - first);
    taps.most = std::max(taps.most, last - first);
  }
  return taps;
}

constexpr std::int64_t kBlock = 32;  ///< sums that are held in registers

/// out[i] = sum over rows of weight * row[i].
/// @param step  bytes from one row to the next
ATTNLAB_VECTOR_CLONES
void blend_rows(const std::uint8_t* rows, std::int64_t step, const float* weights,
                std::int64_t taps, std::int64_t count, float* __restrict__ out) {
  std::int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    float sums[kBlock] = {};
    for (std::int64_t t = 0; t < taps; ++t) {
      const std::uint8_t* row = rows + t * step + i;
      for (std::int64_t k = 0; k < kBlock; ++k) sums[k] += weights[t] * static_cast<float>(row[k]);
    }
    for (std::int64_t k = 0; k < kBlock; ++k) out[i + k] = sums[k];
  }
  for (; i < count; ++i) {
    float sum = 0;
    for (std::int64_t t = 0; t < taps; ++t) {
      sum += weights[t] * static_cast<float>(rows[t * step + i]);
    }
    out[i] = sum;
  }
}

[[gnu::always_inline]] inline std::uint8_t byte_of(float value) {
  return static_cast<std::uint8_t>(std::clamp(value + 0.5f, 0.0f, 255.0f));
}

using Four = float __attribute__((vector_size(16)));
using Eight = float __attribute__((vector_size(32)));

/// Each weight four times, two weights per step, 0 where a step's second is missing: what a vector
/// of two pixels is multiplied by.
struct PairedTaps {
  std::vector<float> weights;  ///< 8 * steps for each pixel
  std::int64_t steps = 0;

  explicit PairedTaps(const Taps& taps) : steps((taps.most + 1) / 2) {
    const auto pixels = static_cast<std::int64_t>(taps.first.size());
    weights.assign(static_cast<std::size_t>(pixels * steps * 8), 0.0f);
    for (std::int64_t x = 0; x < pixels; ++x) {
      float* out = weights.data() + x * steps * 8;
      for (std::int64_t t = 0; t < taps.most; ++t, out += 4) std::fill_n(out, 4, taps.of(x)[t]);
    }
  }
};

/// @tparam kSteps  what `taps.steps` is; 0: any
template <int kSteps>
[[gnu::always_inline]] inline void sum_colours(const float* row, const std::int64_t* first,
                                               const PairedTaps& taps, std::int64_t count,
                                               float* __restrict__ sums) {
  const std::int64_t steps = kSteps > 0 ? kSteps : taps.steps;
  const float* weights = taps.weights.data();
  for (std::int64_t x = 0; x < count; ++x, weights += 8 * steps) {
    const float* from = row + 3 * first[x];
    Eight both = {};
    for (std::int64_t t = 0; t < steps; ++t) {
      Four one, next;
      Eight weight;
      std::memcpy(&one, from + 6 * t, sizeof one);
      std::memcpy(&next, from + 6 * t + 3, sizeof next);
      std::memcpy(&weight, weights + 8 * t, sizeof weight);
      both += weight * __builtin_shufflevector(one, next, 0, 1, 2, 3, 4, 5, 6, 7);
    }
    const Four sum = __builtin_shufflevector(both, both, 0, 1, 2, 3) +
                     __builtin_shufflevector(both, both, 4, 5, 6, 7);
    std::memcpy(sums + 3 * x, &sum, sizeof sum);  // the fourth is where the next pixel will be
  }
}

/// One row of three channels: a pixel is the first three of four numbers, and two pixels are one
/// vector.
/// @param row   3 * pixels floats, and zeros for 6 * steps + 2 more
/// @param sums  3 * count + 1 floats, for work   @param out  3 * count
ATTNLAB_VECTOR_CLONES
void blend_colours(const float* row, const std::int64_t* first, const PairedTaps& taps,
                   std::int64_t count, float* __restrict__ sums, std::uint8_t* __restrict__ out) {
  switch (taps.steps) {  // few steps need no loop
    case 2:
      sum_colours<2>(row, first, taps, count, sums);
      break;
    case 3:
      sum_colours<3>(row, first, taps, count, sums);
      break;
    case 4:
      sum_colours<4>(row, first, taps, count, sums);
      break;
    default:
      sum_colours<0>(row, first, taps, count, sums);
  }
  for (std::int64_t i = 0; i < 3 * count; ++i) out[i] = byte_of(sums[i]);
}

/// One row of any number of channels.
void blend_columns(const float* row, const Taps& taps, std::int64_t count, std::int64_t channels,
                   std::uint8_t* out) {
  for (std::int64_t x = 0; x < count; ++x) {
    const float* weights = taps.of(x);
    const std::int64_t first = taps.first[static_cast<std::size_t>(x)];
    for (std::int64_t c = 0; c < channels; ++c) {
      float sum = 0;
      for (std::int64_t t = 0; t < taps.count[static_cast<std::size_t>(x)]; ++t) {
        sum += weights[t] * row[(first + t) * channels + c];
      }
      *out++ = byte_of(sum);
    }
  }
}

}  // namespace

Filter filter_named(const std::string& name) {
  if (name == "bilinear") return Filter::bilinear;
  if (name == "bicubic") return Filter::bicubic;
  throw OptionError("interpolation", fmt::format("is '{}'; take bilinear or bicubic", name));
}

Pixels resized(const Pixels& image, const Box& box, std::int64_t height, std::int64_t width,
               Filter filter, const Box& wanted) {
  const Box window = wanted.height == 0 ? Box{0, 0, height, width} : wanted;
  const std::int64_t channels = image.channels;
  const Taps down = taps_of(box.height, height, window.top, window.height, filter);
  const Taps across = taps_of(box.width, width, window.left, window.width, filter);
  Pixels out(window.height, window.width, channels);
  const std::int64_t count = box.width * channels;
  const PairedTaps pairs(channels == 3 ? across : Taps());
  std::vector<float> row(static_cast<std::size_t>(count + channels * (across.most + 2)), 0.0f);
  std::vector<float> sums(static_cast<std::size_t>(window.width * channels + 1));
  for (std::int64_t y = 0; y < window.height; ++y) {
    const auto at = static_cast<std::size_t>(y);
    blend_rows(image.row(box.top + down.first[at]) + box.left * channels, image.width * channels,
               down.of(y), down.count[at], count, row.data());
    if (channels == 3) {
      blend_colours(row.data(), across.first.data(), pairs, window.width, sums.data(), out.row(y));
    } else {
      blend_columns(row.data(), across, window.width, channels, out.row(y));
    }
  }
  return out;
}

}  // namespace attnlab
