// QUEST: query-modulated spherical attention.
//
//   Y = softmax(Q K̄ᵀ) V,   k̄_j = k_j / max(|k_j|₂, eps)
//
// Against standard attention: keys have unit length and the factor 1/√D is gone. A key cannot win
// by its norm; each query's norm still sets how sharp its own weights are.
// Source: QUEST, ICLR 2026, algorithm A1. Cost: as standard attention; the keys' norms are taken
// while they are in cache.
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/plugin.h"

namespace attnlab {

struct QuestOptions {
  double eps = 1e-12;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("eps", eps, range(0, 1), "floor of a key's norm");
  }
};

class Quest final : public DotProductAttention {
 public:
  Quest(const QuestOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape, {.scale = 1.0, .unit_keys = options.eps}) {}
};

ATTNLAB_PLUGIN(attention, Quest, QuestOptions,
               {.id = "attnlab/quest",
                .version = "1.0.0",
                .summary = "softmax(Q K̄ᵀ) V with keys of unit length",
                .citation = "QUEST: query-modulated spherical attention, ICLR 2026",
                .licence = "Apache-2.0"})

}  // namespace attnlab
