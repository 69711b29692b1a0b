#include "framework/nn/modules/relative_positions.h"

#include <cmath>

namespace attnlab {
namespace {

constexpr double kRelativeStd = 0.02;

}  // namespace

Tensor sinusoids(const Tensor& places, std::int64_t dim, const at::TensorOptions& options) {
  const at::TensorOptions exact = at::TensorOptions().dtype(at::kDouble);
  const Tensor rates =
      at::exp(at::arange(0, dim, 2, exact) * (-std::log(10000.0) / static_cast<double>(dim)));
  const Tensor angles = places.to(at::kCPU, at::kDouble).unsqueeze(1) * rates;
  return at::cat({angles.sin(), angles.cos()}, 1).to(options.requires_grad(false));
}

Tensor sinusoids_of_distances(std::int64_t queries, std::int64_t keys, std::int64_t dim,
                              const at::TensorOptions& options) {
  return sinusoids(at::arange(1 - queries, keys).flip(0), dim, options);
}

RelativeKeys::RelativeKeys(std::int64_t dim, std::int64_t heads) : heads_(heads) {
  places_ = register_module("places", std::make_shared<Linear>(dim, dim, false));
  start_normal(*this, kRelativeStd);
  const auto learned = [&](const char* name) {
    return register_parameter(name, at::empty({heads, dim / heads}).normal_(0, kRelativeStd));
  };
  content_bias_ = learned("content_bias");
  position_bias_ = learned("position_bias");
}

RelativePositions RelativeKeys::forward(const Tensor& distances) const {
  const Tensor keys = places_->forward(distances).view({distances.size(0), heads_, -1});
  return {keys.transpose(0, 1), content_bias_, position_bias_};
}

}  // namespace attnlab
