// The tries of suites' `tune:` as a table: how each scored, and what each attention chose.
#pragma once

#include <string>
#include <vector>

#include "framework/document/document.h"
#include "framework/runs/tuning.h"

namespace attnlab {

/// A row for each experiment and attention: by which metric of the validation split its tries are
/// judged, the score of each, which one was chosen, and what all of them took.
/// @param caption  of the table
Table tuning_table(const std::vector<TunedAttention>& attentions, const std::string& caption = "");

}  // namespace attnlab
