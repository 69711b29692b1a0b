// Misaligned attention: the naive form of attention over two sequences.
//
//   Y = softmax(Q Kᵀ / √D) V,   keys from one sequence, values from another, nothing added
//
// The formula is standard attention's; the name stands for what indirect attention is compared
// with: slot j's key and value belong to different tokens, and nothing tells the query so. Give it
// the same sources as indirect attention (`values_from_elsewhere`).
// A slot whose key is padding still carries a value: mark it in `key_valid` only where both
// sequences are padded, as IA-DETR does.
// Source: Indirect Attention, section 6 ("naive misaligned attention"). Cost: as standard.
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/plugin.h"

namespace attnlab {

class Misaligned final : public DotProductAttention {
 public:
  Misaligned(const NoOptions&, const AttentionShape& shape) : DotProductAttention(shape) {}
};

ATTNLAB_PLUGIN(attention, Misaligned, NoOptions,
               {.id = "attnlab/misaligned",
                .version = "1.0.0",
                .summary = "softmax(Q Kᵀ / √D) V, keys and values from two sequences",
                .citation = "Indirect Attention: turning context misalignment into a feature",
                .licence = "Apache-2.0"})

}  // namespace attnlab
