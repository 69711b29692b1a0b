#include "framework/nn/boxes/boxes.h"

namespace attnlab {
namespace {

constexpr double kLeast = 1e-12;

/// max(x1 - x0, 0) max(y1 - y0, 0) of corners.
Tensor area(const Tensor& low, const Tensor& high) {
  const Tensor sides = (high - low).clamp_min(0);
  return sides.select(-1, 0) * sides.select(-1, 1);
}

struct Overlap {
  Tensor iou, together;  ///< together: the area of the union
};

/// Of corners that broadcast against each other.
Overlap overlap(const Tensor& a, const Tensor& b) {
  const Tensor a_low = a.narrow(-1, 0, 2), a_high = a.narrow(-1, 2, 2);
  const Tensor b_low = b.narrow(-1, 0, 2), b_high = b.narrow(-1, 2, 2);
  const Tensor common = area(at::maximum(a_low, b_low), at::minimum(a_high, b_high));
  const Tensor together = area(a_low, a_high) + area(b_low, b_high) - common;
  return {common / together.clamp_min(kLeast), together};
}

void check(const char* what, const Tensor& a, const Tensor& b) {
  if (a.dim() > 0 && b.dim() > 0 && a.size(-1) == 4 && b.size(-1) == 4) return;
  throw ShapeError(std::string(what) + ": boxes have 4 numbers in the last dimension, found " +
                   describe(a) + " and " + describe(b));
}

}  // namespace

Tensor corners_of(const Tensor& centred) {
  const Tensor middle = centred.narrow(-1, 0, 2), half = centred.narrow(-1, 2, 2) / 2;
  return at::cat({middle - half, middle + half}, -1);
}

Tensor centred_of(const Tensor& corners) {
  const Tensor low = corners.narrow(-1, 0, 2), high = corners.narrow(-1, 2, 2);
  return at::cat({(low + high) / 2, high - low}, -1);
}

Tensor pairwise_iou(const Tensor& a, const Tensor& b) {
  check("pairwise_iou", a, b);
  return overlap(a.unsqueeze(-2), b.unsqueeze(-3)).iou;
}

Tensor pairwise_giou(const Tensor& a, const Tensor& b) {
  check("pairwise_giou", a, b);
  return giou(a.unsqueeze(-2), b.unsqueeze(-3));
}

Tensor giou(const Tensor& a, const Tensor& b) {
  check("giou", a, b);
  const Overlap found = overlap(a, b);
  const Tensor around = area(at::minimum(a.narrow(-1, 0, 2), b.narrow(-1, 0, 2)),
                             at::maximum(a.narrow(-1, 2, 2), b.narrow(-1, 2, 2)));
  return found.iou - (around - found.together) / around.clamp_min(kLeast);
}

Tensor inverse_sigmoid(const Tensor& p, double eps) {
  const Tensor cut = p.clamp(eps, 1 - eps);
  return at::log(cut / (1 - cut));
}

}  // namespace attnlab
