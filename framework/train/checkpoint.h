// Everything a run needs to go on exactly where it was.
//
// Random numbers need no saving: every stream is a function of seed and position. A checkpoint is a
// safetensors file with tensors `model.<name>` and `optimizer.<name>`, and the position as
// metadata.
#pragma once

#include <string>

#include "framework/contracts/model.h"
#include "framework/train/optimizer.h"
#include "framework/train/selection.h"

namespace attnlab {

/// Where a run stands.
struct Position {
  std::int64_t step = 0;              ///< optimiser steps done
  std::int64_t evaluated_epochs = 0;  ///< epochs whose evaluation is recorded
  double epoch_loss = 0;              ///< sum of the losses of this epoch's steps so far
  BestEpoch best;                     ///< whose model is kept beside the checkpoint
  double last_epoch_loss = 0;         ///< mean training loss of the last whole epoch
  std::int64_t metrics_bytes = 0;     ///< length of metrics.jsonl
  double seconds = 0;                 ///< spent so far, over all sittings
  double train_seconds = 0;           ///< of them in training (throughput counts these)
  double step_seconds = 0;            ///< of them in the model and the optimiser
};

/// @param hash  of the configuration; reading checks it.
void write_checkpoint(const std::string& path, const Model& model, const Optimizer& optimizer,
                      const Position& position, const std::string& hash);

/// Reads into the model and, unless it is null, the optimiser. Nothing changes when it does not
/// fit.
/// @throws DataError naming the file and every entry that does not fit.
Position read_checkpoint(const std::string& path, Model& model, Optimizer* optimizer,
                         const std::string& hash);

/// The model alone, in the same format: the best epoch's.
void write_model(const std::string& path, const Model& model, const std::string& hash);
/// @throws DataError naming the file and every entry that does not fit; nothing changes then.
void read_model(const std::string& path, Model& model, const std::string& hash);

}  // namespace attnlab
