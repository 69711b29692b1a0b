// Usages of commands that the engine has: known to the program too, so that completion need not
// load the engine (and LibTorch) to list their options.
#pragma once

#include "runner/arguments.h"

namespace attnlab {

Usage run_usage();
Usage eval_usage();
Usage sample_usage();
Usage detect_usage();
Usage segment_usage();
Usage show_usage();
Usage probe_usage();
Usage summary_usage();
Usage match_usage();
Usage data_show_usage();

}  // namespace attnlab
