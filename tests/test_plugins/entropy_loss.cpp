// Entropy loss: an attention that adds a loss, for tests of `train.attention_losses`.
//
//   Y = A V,  A = softmax(Q Kᵀ / √D),  and "entropy" = the mean over queries of -Σ_j A_ij log A_ij
//
// in nats. A weight of 0 adds nothing, and neither does its gradient.
#include <limits>

#include "framework/nn/attention/dot_product_attention.h"
#include "framework/plugin.h"

namespace attnlab {

class EntropyLoss final : public DotProductAttention {
 public:
  EntropyLoss(const NoOptions&, const AttentionShape& shape)
      : DotProductAttention(shape, {.normaliser = Normaliser::custom}) {}

 protected:
  Tensor normalise(const Tensor& logits, const Tensor& visible,
                   AttentionContext& context) const override {
    const Tensor weights = DotProductAttention::normalise(logits, visible, context);
    if (context.losses != nullptr) {
      const Tensor positive = weights.clamp_min(std::numeric_limits<float>::min());
      context.losses->add("entropy", -(weights * positive.log()).sum(-1).mean());
    }
    return weights;
  }
};

ATTNLAB_PLUGIN(attention, EntropyLoss, NoOptions,
               {.id = "test/entropy_loss",
                .version = "1.0.0",
                .summary = "as standard, and the entropy of its weights as a loss",
                .citation = "made for a test",
                .licence = "Apache-2.0"})

}  // namespace attnlab
