// Attentions that read a sequence in its order, as recurrences do: a base class for both ways of
// reading, ragged batches, dropout and traces.
//
// With the causal rule a sequence is read forward. Without it, which takes the option `both_ways`,
// it is read forward and backward by the same parameters, and the output is the mean of the two:
// what a reading does to its own output, a norm or a gate, stands before the mean.
//
// A recurrence has no weights: dropout applies to the output, and a trace records norms alone.
#pragma once

#include "framework/config/options.h"
#include "framework/contracts/attention.h"

namespace attnlab {

struct OrderedOptions {
  bool both_ways = false;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("both_ways", both_ways,
      "if not causal: mean of a left-to-right and a right-to-left scan; needs as many queries as "
      "keys");
  }
};

class OrderedAttention : public Attention {
 public:
  static constexpr AttentionTraits kTraits{.causal = true,
                                           .padding = true,
                                           .ragged = true,
                                           .different_lengths = true,
                                           .different_source = true,
                                           .second_order = true,
                                           .linear_cost = true,
                                           .sources = true,
                                           .ordered = true};

  OrderedAttention(const OrderedOptions& options, const AttentionShape& shape);

  /// Read both ways, every query has a place among all.
  bool couples_queries() const override { return both_ways_; }
  bool reads_order() const override { return true; }
  /// The state of the recurrence, however many tokens there were.
  bool remembers() const final { return true; }

 protected:
  /// One reading, from the first key to the last.
  /// @param input  not ragged. The last query stands at the last key.
  /// @param state  `Recurrence::state`
  /// @returns [B, H, Lq, Dv], zeros for queries that see nothing.
  virtual Tensor read(const AttentionInput& input, Tensor* state) const = 0;

  Tensor attend(const AttentionInput& input, AttentionContext& context) final;
  Tensor attend_behind(const AttentionInput& input, AttentionMemory& memory,
                       AttentionContext& context) final;

 private:
  Tensor attend_dense(const AttentionInput& input) const;
  Tensor attend_ragged(const AttentionInput& input) const;

  bool both_ways_;
};

}  // namespace attnlab
