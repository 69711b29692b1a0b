// The folder of a run that was made elsewhere.
#pragma once

#include "framework/runs/run_folder.h"

namespace attnlab {

/// As `RunFolder::freeze`, without lock.json: this machine's plugins say nothing of the numbers of
/// a run that was made elsewhere.
void freeze_without_lock(const RunFolder& folder, const Experiment& experiment, std::int64_t seed,
                         const Identity& identity);

}  // namespace attnlab
