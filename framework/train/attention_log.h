// What a run records of its attention layers while it trains (`trace:` of an experiment): largest
// logit, norms of queries and keys, entropy of the weights.
//
// The step's batch goes through the model once more before the step, without gradients and in
// evaluation mode: no dropout, no stochastic depth, no running statistics updated. So recording
// changes no number of the training. Cost: a forward pass that holds one layer's
// [B, H, Lq, Lk] logits at a time.
#pragma once

#include <string>
#include <vector>

#include "framework/core/experiment.h"
#include "framework/eval/task.h"

namespace attnlab {

/// Whether a step (they count from 1) is recorded: the first one and each `every`-th.
bool trace_due(const TraceOptions& options, std::int64_t step);

/// What the records of one attention layer come to, over all examples of a batch.
struct LayerSummary {
  std::int64_t layer = 0;  ///< AttentionContext::layer
  std::int64_t call = 0;   ///< tells calls with the same `layer` in one pass apart; 0 the first
  /// Over all heads and queries (keys, pairs): logit_max of the visible pairs, query_norm_mean,
  /// query_norm_max, key_norm_mean, key_norm_max, entropy (the mean, in nats). Only what was asked
  /// for and the mechanism has; not finite where the layer's own numbers are not, and -inf for the
  /// largest logit where nobody sees anything.
  Metrics numbers;
};

/// Runs the model on a batch, given in one part or several, and puts its modules' modes back.
/// @param record  names of TraceOptions::record
/// @returns one summary for each attention layer, in the order of layers.
/// @throws ConfigError when no layer recorded anything; ShapeError for ragged batches, which have
///         no rectangular logits.
std::vector<LayerSummary> summarise_attention(Model& model, const std::vector<Batch>& parts,
                                              const std::vector<std::string>& record);

}  // namespace attnlab
