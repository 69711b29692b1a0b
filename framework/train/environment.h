// What a run ran on: machine, libraries, plugins, data.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "framework/base/metric.h"
#include "framework/train/run.h"

namespace attnlab {

/// JSON: processor with its family and model, cores that this process may use, memory, operating
/// system.
std::string machine_json();

/// What the last bits of a run's numbers depend on beside its configuration, plugins and data: what
/// people call it, and what it is here.
std::vector<std::pair<std::string, std::string>> makers_of_numbers(const BuiltRun& run);

/// What a run's numbers mean: the task's metrics, its headline first, and the host's own.
std::vector<MetricInfo> run_metrics(const BuiltRun& run);

/// JSON for environment.json. Cost: a forward pass, whose FLOPs it counts.
std::string environment_json(const BuiltRun& run);

/// Writes environment.json where the run starts at step 0; later starts are added to it, as a list
/// "resumed" of what they ran on, from which step, and which changes were accepted. One that begins
/// anew, and was begun with others before, has as "began_together" with how many.
/// @throws DataError naming a damaged file.
void record_environment(const BuiltRun& run, const RunFolder& folder, std::int64_t step);

/// Relative paths of the run's data lead where they led when it was begun, whatever the working
/// folder is now (`look_for_data_in`). A folder without a run, or with a damaged record, says none.
void look_for_data_of(const RunFolder& folder);

/// Corrects with how many a run is trained, where fewer of an ensemble can keep step with it (their
/// checkpoints are of another step), or none.
void record_together(const BuiltRun& run, const RunFolder& folder);

/// What computes another way than when the run began, or since changes were accepted last, for
/// people: "the file of attention 'quest' changed". What entries with `when: each` have of their
/// own counts. Empty where environment.json is not there.
/// @throws DataError naming a damaged environment.json.
std::vector<std::string> changes_since_start(const BuiltRun& run, const RunFolder& folder);

/// The same of the run's own parts, for results that are made now of a finished run. A damaged
/// environment.json keeps nobody from them: that it cannot be read is what is said.
std::vector<std::string> changes_for_results(const BuiltRun& run, const RunFolder& folder);

/// The same of the run's own data alone: "the data of dataset 'cifar' changed". Empty where they
/// are those of the run, or its folder does not say which it had. (Data that an evaluation names
/// are not the run's.)
/// @throws DataError naming a damaged environment.json.
std::string change_of_data(const BuiltRun& run, const RunFolder& folder);

}  // namespace attnlab
