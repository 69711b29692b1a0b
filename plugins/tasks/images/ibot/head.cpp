#include "plugins/tasks/images/ibot/head.h"

#include <cmath>

#include "framework/nn/kernels/gelu.h"
#include "framework/nn/kernels/linear.h"
#include "framework/nn/kernels/unit.h"

namespace attnlab {
namespace {

constexpr double kEps = 1e-12;

}  // namespace

ProjectionHead::ProjectionHead(std::int64_t width, std::int64_t hidden, std::int64_t out)
    : first_(register_module("first", std::make_shared<Linear>(width, hidden))),
      second_(register_module("second", std::make_shared<Linear>(hidden, hidden))),
      third_(register_module("third", std::make_shared<Linear>(hidden, out))) {}

Tensor ProjectionHead::forward(const Tensor& x) const {
  const Tensor hidden = attnlab::gelu(second_->forward(attnlab::gelu(first_->forward(x))));
  return unit(third_->forward(hidden), kEps);
}

Tensor vmf_log_normaliser(const Tensor& concentration, std::int64_t dimensions) {
  const double order = static_cast<double>(dimensions) / 2 - 1;
  const Tensor root = (concentration.square() + order * order).sqrt();
  return (root + order).log() * order - root + root.log() / 2;
}

Prototypes::Prototypes(std::int64_t dimensions, std::int64_t count, Kind kind) : kind_(kind) {
  const double bound = 1 / std::sqrt(static_cast<double>(dimensions));
  directions_ =
      register_parameter("directions", at::empty({count, dimensions}).uniform_(-bound, bound));
  if (kind != Kind::unit) norms_ = register_parameter("norms", at::ones({count, 1}));
}

Tensor Prototypes::weights() const {
  const Tensor directions = unit(directions_, kEps);
  return norms_.defined() ? directions * norms_ : directions;
}

Tensor Prototypes::log_normaliser(double temperature) const {
  return vmf_log_normaliser(norms_.squeeze(1).abs() / temperature, directions_.size(1));
}

Tensor Prototypes::student(const Tensor& z, double temperature) const {
  const Tensor logits = attnlab::linear(z, weights(), {}) / temperature;
  return kind_ == Kind::vmf ? logits + log_normaliser(temperature) : logits;
}

Tensor Prototypes::teacher(const Tensor& z, double temperature, const Tensor& centre) const {
  if (kind_ == Kind::vmf) return (student(z, temperature) - centre).softmax(-1);
  return ((attnlab::linear(z, weights(), {}) - centre) / temperature).softmax(-1);
}

Tensor Prototypes::sum_of(const Tensor& z, double temperature) const {
  if (kind_ == Kind::vmf) {  // by logarithms: float32 holds no shares below 1e-45
    const Tensor log_shares = student(z, temperature).log_softmax(-1);
    return log_shares.logsumexp(at::IntArrayRef({0})).to(at::kDouble).exp();
  }
  const Tensor sum = z.sum(0, /*keepdim=*/true);  // the map is linear
  return attnlab::linear(sum, weights(), {}).squeeze(0).to(at::kDouble);
}

Tensor Prototypes::centre_of(const Tensor& sum, double tokens) const {
  const Tensor mean = sum / tokens;
  return kind_ == Kind::vmf ? mean.clamp_min(1e-300).log() : mean;
}

}  // namespace attnlab
