// Unit channels: an attention whose parameter has norm 1 after each step, for tests of
// `after_step`.
//
//   Y = softmax((c_h ⊙ Q) Kᵀ) V,  |c_h| = 1 for each head h
//
// The optimiser moves c_h, then c_h <- c_h / |c_h|, as nGPT keeps its matrices (Loshchilov et al.,
// nGPT: normalized transformer with representation learning on the hypersphere, 2024,
// arXiv:2410.01131).
#include <cmath>

#include "framework/nn/attention/dot_product_attention.h"
#include "framework/plugin.h"

namespace attnlab {

class UnitChannels final : public DotProductAttention {
 public:
  UnitChannels(const NoOptions&, const AttentionShape& shape)
      : DotProductAttention(shape, {.scale = 1.0}) {
    const double start = 1 / std::sqrt(static_cast<double>(shape.head_dim));
    channels_ = register_parameter("channels", at::full({shape.heads, shape.head_dim}, start));
  }

  void after_step(const StepFacts&) override { channels_.div_(channels_.norm(2, -1, true)); }

 protected:
  Tensor map_queries(const Tensor& queries, AttentionContext&) const override {
    return queries * channels_.unsqueeze(1);
  }

 private:
  Tensor channels_;  ///< [H, D], H of all members
};

ATTNLAB_PLUGIN(attention, UnitChannels, NoOptions,
               {.id = "test/unit_channels",
                .version = "1.0.0",
                .summary = "softmax((c ⊙ Q) Kᵀ) V with a c of norm 1 for each head",
                .citation = "made for a test",
                .licence = "Apache-2.0"})

}  // namespace attnlab
