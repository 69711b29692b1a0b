// Which training of another experiment `init.experiment` means.
#pragma once

#include <string>
#include <vector>

#include "framework/experiment/experiment.h"

namespace attnlab {

/// Checks `init` of an experiment whose sections are read. Where it names another experiment and
/// not which configuration of it, that is filled in: what its file says with this attention. So a
/// run's identity covers what it begins with, and a frozen run means the same although the file
/// changes.
/// @param beginning  files of experiments that begin with this one, so that circles are found
/// @param problems   what is wrong is appended
/// @param unfit      the other experiment cannot have this attention
void resolve_init(Experiment& experiment, const Catalogue& catalogue,
                  const std::vector<std::string>& beginning, Problems& problems, Problems& unfit);

/// Has an experiment begin with this configuration of the other one.
/// @param place  where that comes from
void set_source(Experiment& experiment, const std::string& configuration, const Place& place);

}  // namespace attnlab
