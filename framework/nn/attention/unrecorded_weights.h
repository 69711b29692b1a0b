// A trace without weights, for outputs that are not weights times values.
#pragma once

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

}  // namespace attnlab
