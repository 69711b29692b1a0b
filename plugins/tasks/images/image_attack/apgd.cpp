// Auto-PGD, towards no class in particular and towards each of those that come next.
#include <algorithm>

#include "framework/eval/classification.h"
#include "plugins/tasks/images/image_attack/attack.h"

namespace attnlab {

Tensor apgd(const Target& target, std::int64_t steps, const LogitLoss& loss, std::string_view name,
            std::uint64_t round) {
  const auto share = [steps](double part) {
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(part * double(steps)));
  };
  std::vector<Random> random = target.random(name, round);
  const Tensor start = uniform_like(target.images, random);
  const Tensor largest = start.abs().amax({1, 2, 3}, /*keepdim=*/true) + 1e-12;
  Tensor at = at::minimum(at::maximum(target.images + target.eps * start / largest, target.low),
                          target.high);
  Classifier::Step here = target.classifier.step(at, loss);
  Tensor gradient = here.gradient, before = at, best = at, found = at;
  Tensor best_loss = here.loss, best_gradient = gradient;
  Tensor step = at::full({at.size(0), 1, 1, 1}, 2 * target.eps, at.options());
  // Since the last check: how often the loss rose; what it was; whether steps were halved then.
  Tensor rises = at::zeros_like(best_loss), last_loss = at::zeros_like(best_loss);
  Tensor checked_loss = best_loss, halved = at::ones_like(best_loss, at::kBool);
  std::int64_t until_check = share(0.22), since = 0;
  for (std::int64_t i = 0; i < steps; ++i) {
    const double forward = i > 0 ? 0.75 : 1;
    const Tensor plain = target.inside(at + step * gradient.sign());
    const Tensor next = target.inside(at + forward * (plain - at) + (1 - forward) * (at - before));
    before = at;
    at = next;
    here = target.classifier.step(at, loss);
    gradient = here.gradient;
    found = chosen(right_of(here.logits, target.labels), found, at);
    const Tensor better = here.loss.gt(best_loss);
    best = chosen(better, at, best);
    best_gradient = chosen(better, gradient, best_gradient);
    best_loss = chosen(better, here.loss, best_loss);
    rises = rises + here.loss.gt(last_loss);
    last_loss = here.loss;
    if (++since < until_check) continue;
    const Tensor oscillates = rises.le(0.75 * double(until_check));
    const Tensor halve =
        oscillates.logical_or(halved.logical_not().logical_and(checked_loss.ge(best_loss)));
    step = chosen(halve, step / 2, step);
    at = chosen(halve, best, at);
    gradient = chosen(halve, best_gradient, gradient);
    halved = halve;
    checked_loss = best_loss;
    rises = at::zeros_like(rises);
    since = 0;
    until_check = std::max(until_check - share(0.03), share(0.06));
  }
  return found;
}

Tensor apgd_ce(const Target& target, std::int64_t steps) {
  return apgd(
      target, steps, [&](const Tensor& logits) { return cross_entropies(logits, target.labels); },
      "apgd_ce");
}

Tensor targeted_dlr(const Tensor& logits, const Tensor& labels, const Tensor& towards) {
  // The gradient goes to single classes, also where several are equally likely.
  const Tensor sorted = std::get<0>(logits.sort(/*stable=*/true, 1, /*descending=*/false));
  const std::int64_t last = logits.size(1) - 1;
  const auto of = [&](const Tensor& classes) {
    return logits.gather(1, classes.view({-1, 1})).view({-1});
  };
  const Tensor spread = sorted.select(1, last) -
                        (sorted.select(1, last - 2) + sorted.select(1, last - 3)) / 2 + 1e-12;
  return (of(towards) - of(labels)) / spread;
}

Tensor apgd_targeted(const Target& target, std::int64_t steps, std::int64_t targets) {
  const Tensor order = by_likelihood(target.classifier.logits(target.images));
  Tensor found = target.images;
  Tensor left = at::arange(target.images.size(0), target.labels.options());
  for (std::int64_t rank = 1; rank <= std::min(targets, order.size(1) - 1); ++rank) {
    if (left.numel() == 0) break;
    const Target some = target.part(left);
    const Tensor towards = order.index_select(0, left).select(1, rank);
    const Tensor candidates = apgd(
        some, steps,
        [&](const Tensor& logits) { return targeted_dlr(logits, some.labels, towards); }, "apgd_t",
        static_cast<std::uint64_t>(rank));
    found = found.index_copy(0, left, candidates);
    const Tensor right = right_of(target.classifier.logits(candidates), some.labels);
    left = left.index_select(0, rows_where(right));
  }
  return found;
}

}  // namespace attnlab
