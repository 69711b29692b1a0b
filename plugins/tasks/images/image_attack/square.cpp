// Square attack: random search, without gradients.
#include <algorithm>
#include <cmath>

#include "plugins/tasks/images/image_attack/attack.h"

namespace attnlab {
namespace {

/// Share of the image that a square covers at a query. The schedule is of queries as they are,
/// however many there will be: AutoAttack's standard version sets resc_schedule=False.
double share_at(std::int64_t query) {
  const std::int64_t ends[] = {10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000};
  double share = 0.8;
  for (const std::int64_t end : ends) {
    if (query > end) share /= 2;
  }
  return share;
}

double sign(Random& random) { return random.uniform() < 0.5 ? -1 : 1; }

/// 2 eps or -2 eps in one square of each image, by channel; 0 elsewhere.
Tensor squares(const Tensor& like, std::int64_t side, double eps,
               const std::vector<Random*>& random) {
  const std::int64_t channels = like.size(1), height = like.size(2), width = like.size(3);
  Tensor delta = at::zeros(like.sizes(), at::kFloat);
  for (std::size_t i = 0; i < random.size(); ++i) {
    const std::int64_t top = random[i]->below(std::max<std::int64_t>(height - side, 1));
    const std::int64_t left = random[i]->below(std::max<std::int64_t>(width - side, 1));
    const Tensor image = delta[static_cast<std::int64_t>(i)];
    for (std::int64_t c = 0; c < channels; ++c) {
      image[c].narrow(0, top, side).narrow(1, left, side).fill_(2 * eps * sign(*random[i]));
    }
  }
  return delta.to(like.options());
}

/// The start: stripes of +-eps.
Tensor stripes(const Tensor& like, double eps, std::vector<Random>& random) {
  Tensor delta = at::empty({like.size(0), like.size(1), 1, like.size(3)}, at::kFloat);
  auto* out = delta.data_ptr<float>();
  for (Random& own : random) {
    for (std::int64_t i = 0; i < like.size(1) * like.size(3); ++i) {
      *out++ = static_cast<float>(eps * sign(own));
    }
  }
  return delta.to(like.options());
}

}  // namespace

// The start comes on top of the queries, as in AutoAttack's code.
Tensor square_attack(const Target& target, std::int64_t queries) {
  std::vector<Random> random = target.random("square");
  const std::int64_t height = target.images.size(2), width = target.images.size(3);
  Tensor best = target.inside(target.images + stripes(target.images, target.eps, random));
  Tensor margin = margin_of(target.classifier.logits(best), target.labels);
  for (std::int64_t query = 0; query < queries; ++query) {
    const Tensor left = rows_where(margin.gt(0));
    if (left.numel() == 0) break;
    std::vector<Random*> own;
    const Tensor rows = left.to(at::kCPU);
    const auto* row = rows.data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < rows.numel(); ++i) {
      own.push_back(&random[static_cast<std::size_t>(row[i])]);
    }
    const double area = share_at(query) * double(height * width);
    const auto side =
        std::clamp<std::int64_t>(std::llrint(std::sqrt(area)), 1, std::min(height, width));
    const Target some = target.part(left);
    const Tensor before = best.index_select(0, left);
    const Tensor tried = some.inside(before + squares(before, side, target.eps, own));
    const Tensor found = margin_of(target.classifier.logits(tried), some.labels);
    const Tensor old = margin.index_select(0, left);
    const Tensor better = found.lt(old).logical_or(found.le(0));
    best = best.index_copy(0, left, chosen(better, tried, before));
    margin = margin.index_copy(0, left, at::where(better, found, old));
  }
  return best;
}

}  // namespace attnlab
