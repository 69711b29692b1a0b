// The run of another experiment that a run begins with: `init.experiment`.
#pragma once

#include <optional>
#include <string>

#include "framework/runs/run_folder.h"

namespace attnlab {

/// The finished run that `init.experiment` means, with the same attention and seed; of several the
/// one begun last that was made here, or, where all are stored results, the one begun last. It may
/// be filed under any name: that of a grid's point, say. Empty: none.
/// @param folder  of the run that begins with it; the other is looked for in
///                ../../../*/ATTENTION/SEED-*
std::optional<RunFolder> source_run(const Experiment& experiment, std::int64_t seed,
                                    const RunFolder& folder, const Catalogue& catalogue);

/// What a run that has begun would begin with otherwise now, for people: "it began with
/// first/quest/3-0a1b2c3d, and the run of 'first' is first/quest/3-4e5f6a7b by now". Runs of one
/// identity count as one, as they do elsewhere. Empty where all is as it was, or that is not known:
/// what it began with was deleted since, or not recorded.
/// @param source  what it would begin with now; empty: nothing is there
std::string source_change(const Experiment& experiment, const RunFolder& folder,
                          const std::optional<RunFolder>& source);

}  // namespace attnlab
