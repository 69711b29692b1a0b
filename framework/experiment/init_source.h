// Which training of another experiment `init.experiment` means.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/experiment/experiment.h"

namespace attnlab {

/// Reads `init` of a composition. Where it names another experiment and not which configuration of
/// it, that is filled in: what its file says with this attention. So a run's identity covers what
/// it begins with, and a frozen run means the same although the file changes.
/// @param attention  the section as it is resolved; null: it could not be
/// @param beginning  files of experiments that begin with this one, so that circles are found
/// @param problems   what is wrong is appended
/// @param unfit      the other experiment cannot have this attention
/// @returns the resolved options, or null without `init`
Node resolve_init(const Node* given, const Node* attention, const Catalogue& catalogue,
                  const std::vector<std::string>& beginning, std::optional<InitOptions>& options,
                  Problems& problems, Problems& unfit);

/// Has an experiment begin with this configuration of the other one.
/// @param place  where that comes from
void set_source(Experiment& experiment, const std::string& configuration, const Place& place);

}  // namespace attnlab
