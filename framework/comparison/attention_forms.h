// What one label stands for: rows, ranks and means over experiments are by label.
#pragma once

#include <string>
#include <vector>

#include "framework/runs/run_records.h"

namespace attnlab {

/// Experiments in which a label stands for one attention with one set of options.
struct AttentionForm {
  const RunRecord* run = nullptr;  ///< the first of them
  std::vector<std::string> experiments;
};

/// The forms of a label, fifty at most. Options do not count that an experiment's name says
/// ("vit,eps=0.1"), nor those that `match:` or `set:` gave.
std::vector<AttentionForm> attention_forms(const std::vector<RunRecord>& runs,
                                           const std::string& label);

/// Labels that stand for plugins of other names in other experiments. (Within one experiment
/// `differences_of` says so.)
std::vector<ConfigDifference> label_differences(const std::vector<RunRecord>& runs,
                                                const std::vector<std::string>& labels);

/// Labels whose options are others in other experiments, one sentence each.
std::vector<std::string> option_notes(const std::vector<RunRecord>& runs,
                                      const std::vector<std::string>& labels);

}  // namespace attnlab
