#include "plugins/models/ia_detr/heads.h"

#include <cmath>

#include "framework/nn/boxes/boxes.h"

namespace attnlab {
namespace {

constexpr double kFirstScore = 0.01, kFirstSide = 0.05;

}  // namespace

Heads::Heads(std::int64_t dim, std::int64_t classes, std::int64_t features) {
  classes_ = register_module("classes", std::make_shared<Linear>(dim, classes));
  box_ = register_module("box", std::make_shared<DeepHead>(dim, 4, /*start_at_zero=*/true));
  if (features > 0) {
    features_ = register_module("features", std::make_shared<DeepHead>(dim, features, false));
  }
  start_uniform(*classes_);
  const at::NoGradGuard no_gradients;
  classes_->bias.fill_(-std::log((1 - kFirstScore) / kFirstScore));
}

void Heads::start_sides(double change) { box_->start_at({0, 0, change, change}); }

ProposalHead::ProposalHead(std::int64_t dim) {
  map_ = register_module("map", std::make_shared<Linear>(dim, dim));
  norm_ = register_module("norm", std::make_shared<LayerNorm>(dim, 1e-5));
  heads_ = register_module("heads", std::make_shared<Heads>(dim, 1, 0));
}

Proposals ProposalHead::forward(const Tensor& tokens, const Tensor& places,
                                const Tensor& valid) const {
  const Tensor x = norm_->forward(map_->forward(tokens));
  const Tensor middles = places.flip({2}).to(tokens.scalar_type());
  const Tensor starts = at::cat({middles, at::full_like(middles, kFirstSide)}, 2);
  return {heads_->logits(x), (heads_->change(x) + inverse_sigmoid(starts)).sigmoid(),
          valid.flatten(1)};
}

Tensor best_boxes(const Proposals& proposals, std::int64_t count) {
  const Tensor scores =
      proposals.logits.detach().select(2, 0).masked_fill(proposals.valid.logical_not(), -INFINITY);
  const Tensor order = std::get<1>(scores.sort(/*stable=*/true, 1, /*descending=*/true));
  const Tensor real = proposals.valid.sum(1, true).clamp_min(1);
  const Tensor ranks = at::arange(count, real.options()).unsqueeze(0).remainder(real);
  const Tensor chosen = order.gather(1, ranks).unsqueeze(-1).expand({-1, -1, 4});
  return proposals.boxes.detach().gather(1, chosen);
}

}  // namespace attnlab
