// FGSM, PGD, SPSA, and what all attacks share.
#include <c10/core/GradMode.h>

#include <cmath>

#include "plugins/tasks/images/image_attack/attack.h"

namespace attnlab {

Target Target::part(const Tensor& rows) const {
  Target some = *this;
  some.images = images.index_select(0, rows);
  some.labels = labels.index_select(0, rows);
  some.keys.clear();
  const Tensor list = rows.to(at::kCPU);
  for (std::int64_t i = 0; i < list.numel(); ++i) {
    some.keys.push_back(keys[static_cast<std::size_t>(list[i].item<std::int64_t>())]);
  }
  return some;
}

Tensor Target::inside(const Tensor& candidates) const {
  const Tensor near = at::minimum(at::maximum(candidates, images - eps), images + eps);
  return at::minimum(at::maximum(near, low), high);
}

std::vector<Random> Target::random(std::string_view attack, std::uint64_t round) const {
  std::vector<Random> all;
  for (const std::uint64_t key : keys) all.push_back(streams.stream(attack, key, round));
  return all;
}

Tensor uniform_like(const Tensor& images, std::vector<Random>& random) {
  Tensor values = at::empty(images.sizes(), at::kFloat);
  const std::int64_t each = images.numel() / images.size(0);
  auto* out = values.data_ptr<float>();
  for (Random& own : random) {
    for (std::int64_t i = 0; i < each; ++i) *out++ = static_cast<float>(2 * own.uniform() - 1);
  }
  return values.to(images.options());
}

Tensor rows_where(const Tensor& mask) { return mask.nonzero().view({-1}); }

Tensor chosen(const Tensor& mask, const Tensor& one, const Tensor& other) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(one.dim()), 1);
  shape[0] = mask.size(0);
  return at::where(mask.view(shape), one, other);
}

Tensor margin_of(const Tensor& logits, const Tensor& labels) {
  const Tensor column = labels.view({-1, 1});
  const Tensor own = logits.gather(1, column).view({-1});
  const Tensor others = logits.scatter(1, column, -INFINITY);
  // What is not a number answers wrongly (`right_of`), by as much as can be.
  const Tensor numbers = logits.isnan().any(1).logical_not().logical_and(own.isfinite());
  return at::where(numbers, own - std::get<0>(others.max(1)), at::full_like(own, -INFINITY));
}

Tensor by_likelihood(const Tensor& logits) {
  return std::get<1>(logits.sort(/*stable=*/true, 1, /*descending=*/true));
}

Tensor cross_entropies(const Tensor& logits, const Tensor& labels) {
  return -logits.log_softmax(1).gather(1, labels.view({-1, 1})).view({-1});
}

namespace {

Tensor ascended(const Target& target, const Tensor& at, double step) {
  const auto loss = [&](const Tensor& logits) { return cross_entropies(logits, target.labels); };
  const Tensor gradient = target.classifier.step(at, loss).gradient;
  return target.inside(at + step * gradient.sign());
}

}  // namespace

Tensor fgsm(const Target& target) { return ascended(target, target.images, target.eps); }

Tensor pgd(const Target& target, std::int64_t steps, double step_size) {
  std::vector<Random> random = target.random("pgd");
  Tensor at = target.inside(target.images + target.eps * uniform_like(target.images, random));
  for (std::int64_t i = 0; i < steps; ++i) at = ascended(target, at, step_size);
  return at;
}

namespace {

/// Adam on one image's perturbation.
Tensor spsa_alone(const Target& target, const SpsaSettings& settings) {
  std::vector<Random> random = target.random("spsa");
  const Tensor& x = target.images;
  Tensor moved = target.inside(x + target.eps * uniform_like(x, random)) - x;
  Tensor mean = at::zeros_like(x), square = at::zeros_like(x);
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape[0] = settings.samples;
  std::vector<Random> directions(static_cast<std::size_t>(settings.samples), Random(0));
  const Tensor labels = target.labels.expand({2 * settings.samples});
  for (std::int64_t i = 1; i <= settings.steps; ++i) {
    for (Random& direction : directions) direction = Random(random[0]());
    const Tensor signs = at::where(uniform_like(at::empty(shape, x.options()), directions).ge(0),
                                   at::ones({1}, x.options()), -at::ones({1}, x.options()));
    const Tensor both = at::cat({signs, -signs});
    const Tensor around = settings.published ? x + x : x + moved;
    // The loss falls as the margin of the label does.
    const Tensor margins =
        at::nan_to_num(margin_of(target.classifier.logits(around + settings.delta * both), labels),
                       0.0, 0.0, 0.0);  // no way leads from what is not finite
    const Tensor gradient =
        (margins.view({-1, 1, 1, 1}) * both).mean(0, /*keepdim=*/true) / settings.delta;
    mean = 0.9 * mean + 0.1 * gradient;
    square = 0.999 * square + 0.001 * gradient * gradient;
    const double steps = static_cast<double>(i);
    const Tensor first = mean / (1 - std::pow(0.9, steps));
    const Tensor second = square / (1 - std::pow(0.999, steps));
    moved = target.inside(x + moved - settings.rate * first / (second.sqrt() + 1e-8)) - x;
  }
  return x + moved;
}

}  // namespace

Tensor spsa(const Target& target, const SpsaSettings& settings) {
  std::vector<Tensor> found;
  for (std::int64_t i = 0; i < target.images.size(0); ++i) {
    const Tensor row = at::full({1}, i, target.labels.options());
    found.push_back(spsa_alone(target.part(row), settings));
  }
  return at::cat(found);
}

}  // namespace attnlab
