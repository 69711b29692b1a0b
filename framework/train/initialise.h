// Parameters that begin with those of a file or of another run (`init:` of an experiment).
//
// A file's tensors are renamed by the rules of a map, one after the other:
//
//   # configs/maps/NAME.yaml
//   schema: 1
//   rules:
//     - {match: "^blocks\\.([0-9]+)\\.", to: "layers.$1."}   # ECMAScript regular expressions
//     - {match: "^head\\."}                                  # without `to`: left out
//     - {match: "^q_bias$", to: "qkv.bias", part: 1/3}       # the first third of what it fills
//     - {match: "^(fc.weight)$", to: "$1", transpose: true}  # a matrix that lies the other way
//
// Parts are of the first dimension, and equal. One counts as the whole: a part that nothing fills
// stays as it was, and is listed nowhere.
// then `into` and a dot stand before them. Names are those of the model, and "task.NAME" of the
// task. A run's own files have them already. A tensor of another shape goes through
// `Trainable::adapt`. What `fresh` names keeps its random numbers. What the file had for nothing,
// and what kept its random numbers, stands in the run's environment.json.
#pragma once

#include <string>

#include "framework/train/run.h"

namespace attnlab {

/// Fills the parameters and buffers that `init:` names. Does nothing without `init:`, and where
/// the run goes on from a checkpoint.
/// @param folder  the run's; a run of another experiment is looked for beside it, in
///                ../../../*/ATTENTION/SEED-*
/// @throws DataMissingError where the other experiment has no finished run, DataError where a file
///         is damaged or does not fit (every name), ConfigError for a map that is none.
void initialise(BuiltRun& run, const RunFolder& folder, const Catalogue& catalogue);

}  // namespace attnlab
