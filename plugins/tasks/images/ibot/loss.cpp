#include "plugins/tasks/images/ibot/loss.h"

namespace attnlab {

Tensor soft_cross_entropies(const Tensor& target, const Tensor& logits) {
  return logits.logsumexp(at::IntArrayRef({-1})) - (target * logits).sum(-1);
}

Tensor class_token_loss(const Tensor& target, const Tensor& logits) {
  const std::int64_t examples = target.size(0), seen = target.size(1), views = logits.size(1);
  const Tensor log_shares = logits.log_softmax(-1);
  const Tensor all = (target.sum(1) * log_shares.sum(1)).sum();
  const Tensor same = (target * log_shares.narrow(1, 0, seen)).sum();
  return (same - all) / static_cast<double>(examples * seen * (views - 1));
}

HiddenPatches hidden_patches(const Tensor& masked, const at::TensorOptions& options) {
  HiddenPatches out;
  out.rows = masked.reshape({-1}).nonzero().squeeze(1);
  const Tensor counts = masked.sum(1).clamp_min(1).to(options) * masked.size(0);
  out.weights =
      counts.reciprocal().index_select(0, out.rows.div(masked.size(1), /*rounding_mode=*/"floor"));
  return out;
}

}  // namespace attnlab
