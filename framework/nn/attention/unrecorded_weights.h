// A trace without weights, for outputs that are not weights times values.
#pragma once

#include <utility>

#include "framework/contracts/attention.h"

namespace attnlab {

/// While it lives, a trace records no weights: those of a trace give the output with the values.
class UnrecordedWeights {
 public:
  /// @param trace  null: nothing is recorded
  explicit UnrecordedWeights(AttentionTrace* trace)
      : trace_(trace != nullptr && trace->weights ? trace : nullptr) {
    if (trace_ != nullptr) trace_->weights = false;
  }
  ~UnrecordedWeights() {
    if (trace_ != nullptr) trace_->weights = true;
  }
  UnrecordedWeights(const UnrecordedWeights&) = delete;
  UnrecordedWeights& operator=(const UnrecordedWeights&) = delete;

 private:
  AttentionTrace* trace_;  ///< null: there is nothing to put back
};

/// Adds a record of the norms of queries and keys alone, where asked for.
/// @param context  with a trace
inline void record_norms(const AttentionInput& input, AttentionContext& context) {
  AttentionTrace& asked = *context.trace;
  const auto norms_of = [&](const Tensor& x) {
    return (asked.attached ? x : x.detach()).norm(2, -1);
  };
  LayerTrace layer;
  layer.layer = context.layer;
  if (asked.norms) {
    layer.query_norms = norms_of(input.queries);
    layer.key_norms = norms_of(input.keys);
  }
  asked.take(std::move(layer));
}

}  // namespace attnlab
