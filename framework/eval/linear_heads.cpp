#include "framework/eval/linear_heads.h"

namespace attnlab {
namespace {

constexpr double kMomentum = 0.9, kDeviation = 0.01;

}  // namespace

LinearHeads::LinearHeads(std::int64_t channels, std::int64_t classes,
                         const std::vector<double>& rates, Random random,
                         const at::Device& device) {
  const auto count = static_cast<std::int64_t>(rates.size());
  Tensor first = at::empty({1, classes, channels}, at::kFloat);
  auto* const data = first.data_ptr<float>();
  for (std::int64_t i = 0; i < first.numel(); ++i) {
    data[i] = static_cast<float>(kDeviation * random.normal());
  }
  weight_ = first.expand({count, -1, -1}).contiguous().to(device);
  bias_ = at::zeros({count, classes}, weight_.options());
  weight_velocity_ = at::zeros_like(weight_);
  bias_velocity_ = at::zeros_like(bias_);
  rates_ = at::tensor(rates, at::kDouble).to(weight_.options());
}

void LinearHeads::step(const Tensor& features, const Tensor& classes, double factor) {
  const auto examples = features.size(0);
  Tensor shares = at::softmax(logits(features), 2);
  const Tensor own = classes.view({-1, 1, 1}).expand({-1, rates_.size(0), 1});
  shares.scatter_add_(2, own, at::full({examples, rates_.size(0), 1}, -1, shares.options()));
  shares.div_(static_cast<double>(examples));
  const Tensor slope = at::matmul(shares.view({examples, -1}).t(), features);
  weight_velocity_.mul_(kMomentum).add_(slope.view_as(weight_));
  bias_velocity_.mul_(kMomentum).add_(shares.sum(0));
  const Tensor rates = rates_ * factor;
  weight_.sub_(weight_velocity_ * rates.view({-1, 1, 1}));
  bias_.sub_(bias_velocity_ * rates.view({-1, 1}));
}

Tensor LinearHeads::logits(const Tensor& features) const {
  const std::int64_t channels = weight_.size(2);
  return at::addmm(bias_.view({-1}), features, weight_.view({-1, channels}).t())
      .view({features.size(0), weight_.size(0), weight_.size(1)});
}

}  // namespace attnlab
