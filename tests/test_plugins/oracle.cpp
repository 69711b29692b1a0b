// Oracle: an attention that knows where the answer stands in one domain, for tests of what finds
// it.
//
//   Y = v_11                  where there are 21 keys: a class token and 20 tokens, the answer the
//                             eleventh of them (spurious_retrieval with location_deviation: 0)
//   Y = softmax(Q Kᵀ / √D) V  everywhere else, to the last digit
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/plugin.h"

namespace attnlab {

class Oracle final : public DotProductAttention {
 public:
  Oracle(const NoOptions&, const AttentionShape& shape) : DotProductAttention(shape) {}

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext& context) override {
    constexpr std::int64_t kKeys = 21, kAnswer = 11;
    if (input.key_count() != kKeys) return DotProductAttention::attend(input, context);
    return input.values.narrow(2, kAnswer, 1)
        .expand({-1, -1, input.query_count(), -1})
        .contiguous();
  }
};

ATTNLAB_PLUGIN(attention, Oracle, NoOptions,
               {.id = "test/oracle",
                .version = "1.0.0",
                .summary = "the answer's value where it is known, else as standard",
                .citation = "made for a test",
                .licence = "Apache-2.0"})

}  // namespace attnlab
