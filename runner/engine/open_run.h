// A finished run, opened to be asked.
#pragma once

#include "framework/train/run.h"

namespace attnlab {

/// The experiment that a word names: a run's folder, whose configuration is frozen, or a file or a
/// name of a composition. @throws ConfigError.
Experiment experiment_of(const std::string& what, const std::vector<std::string>& overrides,
                         const Catalogue& catalogue);

/// The run's parts, with the parameters of its checkpoint, ready to evaluate. What changed since
/// the run began is said on stderr: what is asked of it now is answered with what is here now.
/// @param accept  although its data changed (`--accept-changes`)
/// @throws as `build_run`, `check_data` and `load_model` do.
BuiltRun open_run(const RunFolder& folder, Registry& registry, bool accept);

/// Data are not those that a run was trained on.
class ChangedDataError : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

/// For people: what changed since the run began, or nothing.
/// @param entries  results of entries are made now, which will say it, too
std::string note_on_changes(const BuiltRun& run, const RunFolder& folder, bool entries = true);

/// That a run's own data are those that it was trained on. @param accept  they need not be
/// @throws ChangedDataError, which names the dataset.
void check_data(const BuiltRun& run, const RunFolder& folder, bool accept);

}  // namespace attnlab
