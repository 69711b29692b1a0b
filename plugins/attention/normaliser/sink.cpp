// Attention with a sink: a logit without key or value takes part in the softmax of each row.
//
//   Y = W V,   w_ij = exp(l_ij) / (exp(s_h) + sum_j exp(l_ij)),   l = Q Kᵀ / √D
//
// Against standard attention: a row's weights sum to less than one, so that a head whose logits all
// lie far below s gives nearly nothing. s is one learned number for each head, or a constant
// (`learned: false`): 0 is the softmax that adds one to the denominator, "off by one".
// This is the sink of gpt-oss, a learned bias of each head in the denominator, whose published code
// has no start; 0 is ours. The attention sinks of Xiao et al. 2023 (StreamingLLM) are something
// else: the first tokens of a sequence, whose keys and values a cache keeps when a window has left
// them behind.
// Source: OpenAI 2025, gpt-oss-120b & gpt-oss-20b model card; Miller 2023, Attention is off by one.
// Cost: as standard attention.
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/plugin.h"

namespace attnlab {

struct SinkOptions {
  bool learned = true;
  double start = 0;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("learned", learned, "learn s, one for each head; false: s stays at `start`");
    v("start", start, range(-1e4, 1e4), "initial s; 0: adds 1 to the denominator");
  }
};

class Sink final : public DotProductAttention {
 public:
  Sink(const SinkOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape, {.terms = true}), start_(options.start) {
    if (options.learned) sink_ = register_parameter("sink", at::full({shape.heads}, start_));
  }

 protected:
  LogitTerms terms(const AttentionInput& input, AttentionContext&) const override {
    const at::TensorOptions options = input.queries.options();
    return {.sink = sink_.defined() ? sink_.to(options) : at::full({1}, start_, options)};
  }

 private:
  double start_;
  Tensor sink_;  ///< [H]; undefined: a constant
};

ATTNLAB_PLUGIN(attention, Sink, SinkOptions,
               {.id = "attnlab/sink",
                .version = "1.0.0",
                .summary = "exp(l) / (exp(s_h) + Σ exp(l)) V, one learned sink per head",
                .citation = "OpenAI 2025, gpt-oss-120b & gpt-oss-20b model card; Miller 2023, "
                            "Attention is off by one",
                .licence = "Apache-2.0"})

}  // namespace attnlab
