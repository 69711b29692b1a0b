// Writes what an entry of `evaluate:` keeps of each example (framework/runs/predictions.h).
#pragma once

#include <atomic>
#include <string>

#include "framework/train/overlay.h"

namespace attnlab {

/// Evaluates an entry example by example and writes the file, whole or not at all. Cost: a forward
/// pass per example.
/// @param path    of the file, in a folder that is there
/// @param fitted  what the evaluation has fitted
/// @returns the fingerprint of its bytes, as a result names it: 16 hexadecimal digits.
/// @throws ConfigError where the file would be longer than `kLargestRecord`, before anything is
///         evaluated; Interrupted; FileError; what an evaluation throws.
std::string keep_predictions(BuiltRun& overlay, const EvaluationEntry& entry,
                             const std::string& path, const std::atomic<bool>& stop,
                             Fitted& fitted);

}  // namespace attnlab
