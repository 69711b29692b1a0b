// What a report takes from the runs' own files beside their records: curves, learned biases, and
// where runs were made.
#pragma once

#include "framework/report/report.h"

namespace attnlab {

/// Fills `curves`, `lost_logs`, `biases`, `environment` and `plugins` of a report that has its
/// collection and its slices. Of many runs they are kept (kept_file.h): of runs none of whose files
/// has changed they are not made again.
void read_run_files(Report& report);

}  // namespace attnlab
