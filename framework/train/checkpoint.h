// Everything a run needs to go on exactly where it was.
//
// Random numbers need no saving: every stream is a function of seed and position. A checkpoint is a
// safetensors file with tensors `model.<name>`, `task.<name>`, `optimizer.<name>` and, where there
// are any, `average.model.<name>`, `average.task.<name>` and `carried.<name>`, and the position as
// metadata; also how weights lie of layers that say so (framework/tensor/saved_layout.h).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "framework/data/formats/safetensors.h"
#include "framework/train/loss_scale.h"
#include "framework/train/optimizer.h"
#include "framework/train/run.h"
#include "framework/train/selection.h"

namespace attnlab {

/// Where a run stands.
struct Position {
  std::int64_t step = 0;              ///< optimiser steps done
  std::int64_t evaluated_epochs = 0;  ///< epochs whose evaluation is recorded
  std::int64_t units = 0;             ///< of the dataset (examples, tokens), trained on so far
  double epoch_loss = 0;              ///< sum of the losses of this epoch's steps so far
  BestEpoch best;                     ///< whose model is kept beside the checkpoint
  double last_epoch_loss = 0;         ///< mean training loss of the last whole epoch
  std::int64_t metrics_bytes = 0;     ///< length of metrics.jsonl
  double seconds = 0;                 ///< since the run began, while a process trained it
  double processor_seconds = 0;       ///< as of RunStatus
  double device_seconds = 0;          ///< likewise
  double train_seconds = 0;           ///< of `seconds`, in training (throughput counts these)
  double step_seconds = 0;            ///< of `seconds`, in the model and the optimiser
  LossScale loss_scale;               ///< of the next step, in float16
};

/// A file of tensors. Those that runs write carry a checksum, which is checked; others (of earlier
/// versions, of other programs) are taken as they are. @throws DataError, FileError naming the
/// file.
TensorFile read_sealed(const std::string& path);
/// Writes a file with a checksum. @param file  whose metadata has a `hash`
/// @param numbers  as of `write_safetensors`; asked twice for each tensor
void write_sealed(const std::string& path, TensorFile file, const TensorNumbers& numbers = nullptr);

/// Modules, each with what stands before its tensors' names in a file.
using SavedModules = std::vector<std::pair<std::string, torch::nn::Module*>>;

/// Model and task of a run, and their means.
SavedModules modules_of(const BuiltRun& run);

/// Whose a file is: no other run takes it.
struct FileOwner {
  std::string hash;       ///< Experiment::hash(), in which no seed stands
  std::int64_t seed = 0;  ///< checked where the file has one (those of earlier versions have none)
};

/// What makes a checkpoint.
struct CheckpointParts {
  SavedModules modules;
  Optimizer& optimizer;
  NamedTensors& carried;
};

/// The same file, whether the optimiser remembers all here or in shares: of several processes with
/// shares, process 0 writes, and the others call `Optimizer::hand_over`.
void write_checkpoint(const std::string& path, const CheckpointParts& parts,
                      const Position& position, const FileOwner& owner);

/// Reads into the parts. Nothing changes when it does not fit.
/// @throws DataError naming the file and every entry that does not fit, or another owner.
Position read_checkpoint(const std::string& path, const CheckpointParts& parts,
                         const FileOwner& owner);

/// The modules alone, in the same format: the best epoch's. @param epoch  which; 0: it is not said
void write_weights(const std::string& path, const SavedModules& modules, const FileOwner& owner,
                   std::int64_t epoch = 0);

/// Which epoch's modules a file of `write_weights` holds; 0: it does not say.
/// @throws DataError, FileError naming the file.
std::int64_t epoch_of_weights(const std::string& path);

/// Reads modules from a checkpoint, or from what `write_weights` wrote.
/// @throws DataError naming the file and every entry that does not fit, or another owner; nothing
/// changes then.
void read_weights(const std::string& path, const SavedModules& modules, const FileOwner& owner);

}  // namespace attnlab
