// FAB, the fast adaptive boundary attack, towards each of the classes that come next.
#include <algorithm>

#include "framework/eval/classification.h"
#include "plugins/tasks/images/image_attack/attack.h"

namespace attnlab {
namespace {

constexpr double kMostBack = 0.1;    ///< alpha_max: how far a step is drawn back to the image
constexpr double kOvershoot = 1.05;  ///< eta
constexpr double kBackwards = 0.9;   ///< beta: where to go on from after a success

Tensor flat(const Tensor& images) { return images.reshape({images.size(0), -1}); }

Tensor largest(const Tensor& rows) { return rows.abs().amax(1); }

/// One run towards a class of each image. @returns candidates; the images themselves where none was
/// found.
Tensor towards(const Target& target, const Tensor& classes, std::int64_t steps) {
  const Tensor& x = target.images;
  const Tensor low = flat(target.low.expand_as(x)), high = flat(target.high.expand_as(x));
  const Tensor origin = flat(x);
  const auto loss = [&](const Tensor& logits) {
    const auto of = [&](const Tensor& wanted) {
      return logits.gather(1, wanted.view({-1, 1})).view({-1});
    };
    return of(classes) - of(target.labels);
  };
  Tensor at = origin, found = origin;
  Tensor distance = at::full({x.size(0)}, 1e10, x.options());
  for (std::int64_t i = 0; i < steps; ++i) {
    const Classifier::Step here = target.classifier.step(at.view_as(x), loss);
    const Tensor weights = flat(here.gradient);
    const Tensor offsets = (weights * at).sum(1) - here.loss;
    const Tensor from_here = onto_plane(at, weights, offsets, low, high);
    const Tensor from_origin = onto_plane(origin, weights, offsets, low, high);
    const Tensor near = largest(from_here).clamp_min(1e-8);
    const Tensor far = largest(from_origin).clamp_min(1e-8);
    const Tensor back = (near / (near + far)).clamp(0, kMostBack).view({-1, 1});
    at = (at + kOvershoot * from_here) * (1 - back) + (origin + kOvershoot * from_origin) * back;
    at = at::minimum(at::maximum(at, low), high);
    const Tensor right = right_of(target.classifier.logits(at.view_as(x)), target.labels);
    const Tensor fooled = right.logical_not();
    const Tensor reach = largest(at - origin);
    const Tensor closer = fooled.logical_and(reach.lt(distance));
    found = chosen(closer, at, found);
    distance = chosen(closer, reach, distance);
    at = chosen(fooled, origin + kBackwards * (at - origin), at);
  }
  return found.view_as(x);
}

}  // namespace

Tensor onto_plane(const Tensor& points, const Tensor& weights, const Tensor& offsets,
                  const Tensor& low, const Tensor& high) {
  // Every coordinate moves by l in its own direction, or as far as it may: sum_i |w_i| min(l, m_i)
  // grows with l in straight pieces, whose ends are the rooms m_i in rising order.
  const Tensor needed = offsets - (weights * points).sum(1);
  const Tensor direction = weights.sign() * needed.sign().unsqueeze(1);
  const Tensor room = at::where(direction.gt(0), high - points, points - low).clamp_min(0);
  const Tensor slopes = weights.abs();
  // Many rooms are equal; in which order they are added up shows in the last digits.
  auto [ends, order] = room.sort(/*stable=*/true, 1, /*descending=*/false);
  const Tensor sorted = slopes.gather(1, order);
  const Tensor moving = (sorted.sum(1, true) - sorted.cumsum(1)).clamp_min(0);  // behind each end
  // What the ends before have given; a slope of 0 with unlimited room gives nothing.
  const Tensor finite = at::where(sorted.gt(0), ends, at::zeros_like(ends));
  const Tensor given = (sorted * finite).cumsum(1);
  const Tensor reached =
      given + at::where(moving.gt(0), ends * moving, at::zeros_like(moving));  // at each end
  const Tensor wanted = needed.abs().unsqueeze(1);
  const Tensor piece = reached.lt(wanted).sum(1, true);  // the first end that is far enough
  const Tensor last = (piece - 1).clamp_min(0);
  const Tensor zero = at::zeros_like(wanted);
  const Tensor first = piece.eq(0);
  const Tensor begun = at::where(first, zero, given.gather(1, last));
  const Tensor rest = at::where(first, sorted.sum(1, true), moving.gather(1, last));
  const Tensor length = at::where(rest.gt(0), (wanted - begun) / rest.clamp_min(1e-30),
                                  ends.select(1, ends.size(1) - 1).unsqueeze(1));
  const Tensor move = direction * at::minimum(length, room);
  return at::where(direction.eq(0), at::zeros_like(move), move);
}

Tensor fab_targeted(const Target& target, std::int64_t steps, std::int64_t targets) {
  const Tensor order = by_likelihood(target.classifier.logits(target.images));
  Tensor found = target.images;
  Tensor left = at::arange(target.images.size(0), target.labels.options());
  for (std::int64_t rank = 1; rank <= std::min(targets, order.size(1) - 1); ++rank) {
    if (left.numel() == 0) break;
    const Target some = target.part(left);
    const Tensor candidates = towards(some, order.index_select(0, left).select(1, rank), steps);
    const Tensor outside = largest(flat(candidates - some.images)).gt(target.eps);
    const Tensor right = right_of(target.classifier.logits(candidates), some.labels);
    const Tensor holds = right.logical_or(outside);
    const Tensor fooled = rows_where(holds.logical_not());
    found = found.index_copy(0, left.index_select(0, fooled), candidates.index_select(0, fooled));
    left = left.index_select(0, rows_where(holds));
  }
  return found;
}

}  // namespace attnlab
