// attnlab eval --examples: a table of what a run gives for each example by itself.
#pragma once

#include <string>
#include <vector>

#include "framework/train/overlay.h"

namespace attnlab {

/// Writes a CSV file, one row per example and evaluation:
///
///   evaluation,example,terms,perplexity,nll
///   lines,0,12,41.5,3.7256
///
/// Numbers have all their digits; a metric that an example does not have is empty: an area under
/// the ROC curve takes two.
/// @param run      with the weights of the folder loaded
/// @param entries  those that are asked for
/// @param clean    the run's own test split, too
/// @throws what an evaluation throws; nothing is written then. Interrupted; FileError.
void write_examples(const std::string& path, BuiltRun& run, const RunFolder& folder,
                    const std::vector<EvaluationEntry>& entries, bool clean, Registry& registry);

}  // namespace attnlab
