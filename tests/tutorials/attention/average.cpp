// Average: every visible value counts alike. What a model can do without choosing.
//
//   y_i = mean of v_j over the keys j that may be seen
//
// Source: the tutorial. Cost: O(Lq + Lk).
#include <algorithm>

#include "framework/plugin.h"

namespace attnlab {

class Average final : public Attention {
 public:
  static constexpr AttentionTraits kTraits = {
      .padding = true, .different_lengths = true, .different_source = true, .linear_cost = true};

  Average(const NoOptions&, const AttentionShape& shape) : Attention(shape, kTraits) {}

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext&) override {
    Tensor mean;
    if (input.visible.key_valid.defined()) {
      const Tensor valid =
          input.visible.key_valid.to(input.values.scalar_type()).unsqueeze(1).unsqueeze(-1);
      // At least 1: a query that sees nothing gives zeros.
      mean = (input.values * valid).sum(2, true) / valid.sum(2, true).clamp_min(1);
    } else {
      mean = input.values.sum(2, true) /
             static_cast<double>(std::max<std::int64_t>(1, input.key_count()));
    }
    return mean.expand({-1, -1, input.query_count(), -1});
  }
};

ATTNLAB_PLUGIN(attention, Average, NoOptions,
               {.id = "attnlab/average",
                .version = "1.0.0",
                .summary = "the mean of all visible values",
                .licence = "Apache-2.0"})

}  // namespace attnlab
