#include "framework/data/image/mixing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "framework/base/error.h"

namespace attnlab {
namespace {

/// Gamma(shape, 1) by Marsaglia and Tsang, ACM TOMS 2000; for shapes below 1 of shape + 1, times a
/// power of a uniform number. The logarithm, since small shapes give numbers below the least
/// double.
double log_gamma_draw(double shape, Random& random) {
  if (shape < 1) {
    const double less = std::log(1 - random.uniform()) / shape;
    return log_gamma_draw(shape + 1, random) + less;
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double z = random.normal(), v = 1 + c * z;
    if (v <= 0) continue;
    const double cube = v * v * v;
    if (std::log(1 - random.uniform()) < z * z / 2 + d * (1 - cube + std::log(cube))) {
      return std::log(d * cube);
    }
  }
}

struct Span {
  std::int64_t begin, size;
};

/// A span of a share of the length about a random middle, cut at the ends.
Span draw_span(std::int64_t length, double share, Random& random) {
  const auto half = static_cast<std::int64_t>(static_cast<double>(length) * share) / 2;
  const std::int64_t middle = random.below(length);
  const std::int64_t begin = std::max<std::int64_t>(0, middle - half);
  return {begin, std::min(length, middle + half) - begin};
}

}  // namespace

double draw_beta(double a, Random& random) {
  const double x = log_gamma_draw(a, random), y = log_gamma_draw(a, random);
  const double share = 1 / (1 + std::exp(y - x));
  // So small an `a` that both logarithms are beyond every double: it is one of the ends.
  return std::isnan(share) ? static_cast<double>(random.below(2)) : share;
}

Tensor class_targets(const Tensor& classes, std::int64_t count, double label_smoothing) {
  // To read numbers of another device would wait for it.
  if (classes.device().is_cpu() && classes.lt(0).logical_or(classes.ge(count)).any().item<bool>()) {
    throw DataError(fmt::format("class: the batch has a class that is not 0 to {}", count - 1));
  }
  const double off = label_smoothing / static_cast<double>(count);
  const Tensor targets =
      at::full({classes.size(0), count}, off, classes.options().dtype(at::kFloat));
  return targets.scatter_(1, classes.unsqueeze(1), 1 - label_smoothing + off);
}

MixedBatch mixed(const Tensor& images, const Tensor& targets, const MixingOptions& options,
                 Random& random) {
  if (!options.mixes() || random.uniform() >= options.probability) return {images, targets};
  const bool both = options.mixup > 0 && options.cutmix > 0;
  const bool cut = both ? random.uniform() < options.switching : options.cutmix > 0;
  double keep = draw_beta(cut ? options.cutmix : options.mixup, random);
  Tensor out;
  if (cut) {
    const std::int64_t height = images.size(2), width = images.size(3);
    const double side = std::sqrt(1 - keep);
    const Span rows = draw_span(height, side, random), columns = draw_span(width, side, random);
    out = images.clone();
    const auto part = [&](const Tensor& of) {
      return of.narrow(2, rows.begin, rows.size).narrow(3, columns.begin, columns.size);
    };
    part(out).copy_(part(images).flip(0));
    keep = 1 - static_cast<double>(rows.size * columns.size) / static_cast<double>(height * width);
  } else {
    out = images * keep + images.flip(0) * (1 - keep);
  }
  return {out, targets * keep + targets.flip(0) * (1 - keep)};
}

}  // namespace attnlab
