// What a run records of its attention layers while it trains (`trace:` of an experiment): largest
// logit and the norms of its query and key, norms of all queries and keys, entropy of the weights,
// and the bias that an attention adds.
//
// The step's batch goes through the model once more before the step, without gradients and in
// evaluation mode: no dropout, no stochastic depth, no running statistics updated. So recording
// changes no number of the training. Cost: a forward pass that holds one layer's
// [B, H, Lq, Lk] logits at a time.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "framework/contracts/task.h"
#include "framework/experiment/experiment.h"

namespace attnlab {

/// Whether a step (they count from 1) is recorded: the first one and each `every`-th.
bool trace_due(const TraceOptions& options, std::int64_t step);

/// What a layer adds to its logits, by the place of the key after the query.
struct BiasByOffset {
  std::int64_t first = 0;  ///< j - i of the first column; the others follow one by one
  /// A row for each head: the mean over all examples and pairs with that offset.
  std::vector<std::vector<double>> heads;
};

/// What the records of one attention layer come to, over all examples of a batch.
struct LayerSummary {
  std::int64_t layer = 0;  ///< AttentionContext::layer
  std::int64_t call = 0;   ///< tells calls with the same `layer` in one pass apart; 0 the first
  /// Over all heads and queries (keys, pairs): logit_max of the visible pairs, logit_max_query_norm
  /// and logit_max_key_norm of the pair that has it (the first of several), query_norm_mean,
  /// query_norm_max, key_norm_mean, key_norm_max, entropy (the mean, in nats), and key_norm_mean/K
  /// of the keys of kind K. Only what was asked for and the mechanism and the batch have; not
  /// finite where the layer's own numbers are not, and -inf for the largest logit where nobody sees
  /// anything.
  Metrics numbers;
  std::optional<BiasByOffset> bias;  ///< where it was asked for and the mechanism adds one
};

/// Runs the model on a batch, given in one part or several, and puts its modules' modes back.
///
/// For `key_norm_by_kind` a batch has the field `kind` [B, N] int64; negative: of no kind. Keys may
/// be more than N: the last N of them are the tokens (a class token comes before).
/// @param record  names of TraceOptions::record
/// @param data    what the kinds are called (FieldInfo::values); null, or without a name for a
///                value: "kind_2"
/// @param carried  what the batch goes on from, of all rows; it is copied, so that looking changes
///                 nothing. Null where batches do not continue each other.
/// @returns one summary for each attention layer, in the order of layers.
/// @throws ConfigError when no layer recorded anything, and for kinds that the batch lacks;
///         ShapeError for ragged batches, which have no rectangular logits, and where keys are no
///         tokens that have a kind.
std::vector<LayerSummary> summarise_attention(Model& model, const std::vector<Batch>& parts,
                                              const std::vector<std::string>& record,
                                              const DatasetInfo* data = nullptr,
                                              const NamedTensors* carried = nullptr);

/// A layer's members of a line of metrics.jsonl: its numbers (null where not finite), `layer`,
/// `call` from the second on, and `bias` as {"first": -9, "heads": [[...], ...]}.
nlohmann::json trace_line(const LayerSummary& layer);

}  // namespace attnlab
