// Asks the engine, in a process of its own, what an experiment's data are and what it costs.
#pragma once

#include "framework/suites/dry_run.h"
#include "runner/fork_server.h"

namespace attnlab {

/// @param steps   training steps to measure; 0: only build it
/// @param server  starts the engine
/// @param also    experiments that differ in train.optimizer and train.schedule alone, for
///                RunForecast::problems
/// Writes nothing but a file in the system's folder for temporary files, which goes again.
/// @throws DataMissingError when the data are not on this machine; ConfigError when the experiment
///         cannot be built, in the engine's words.
RunForecast probe_experiment(const Experiment& experiment, std::int64_t steps, ForkServer& server,
                             const std::vector<const Experiment*>& also = {});

/// The fingerprints of the cells' data, asked for once for each different dataset section. Where an
/// experiment cannot be built with its attention, the next attention is tried.
/// @param server  must outlive what is returned
/// @returns a function for `identify`.
DataOf ask_data(const std::vector<Cell>& cells, ForkServer& server);

/// Measures every experiment with every attention that has something to run, once for all that cost
/// the same (cost_key). What cannot be built, or trained, has a `problem`.
SuiteForecast measure_costs(const Suite& suite, std::int64_t steps, ForkServer& server);

}  // namespace attnlab
