// Where the runs below a folder stand: what `attnlab status` shows. Reads files only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/manifest/discovery.h"

namespace attnlab {

/// A run's state, as its files, its lock, its suite and its plugins together say.
enum class CellState {
  running,
  queued,  ///< waits at the launcher
  killed,  ///< says `running`, and its process is gone
  interrupted,
  failed,
  unreadable,  ///< its files are damaged or may not be read
  pending,
  stale,    ///< its plugins' files or data have changed since
  skipped,  ///< the suite says so
  incompatible,
  no_data,    ///< its data are not on this machine, and the suite leaves such cells out
  no_plugin,  ///< a part of it is not installed, and the suite leaves such cells out
  diverged,
  done,
  superseded,  ///< of an earlier configuration, plugin or data; another run has its place
};
std::string_view name_of(CellState state);

struct CellReport {
  std::string experiment, attention;  ///< the attention's label
  std::int64_t seed = 0;
  CellState state = CellState::pending;
  std::string folder;  ///< empty where there is none
  std::int64_t step = 0, steps = 0;
  std::optional<double> seconds_left;                ///< of a run under way
  double processor_seconds = 0, device_seconds = 0;  ///< as of RunStatus, so far
  std::string detail;                                ///< reason, what changed, where it runs
  std::string log;                                   ///< last lines of a failed or killed run's log

  /// Something is still to be done or to be known about it.
  bool unfinished() const { return state != CellState::done && state != CellState::diverged; }
};

struct StatusReport {
  std::string folder;
  std::vector<CellReport> cells;  ///< by experiment, attention and seed; superseded ones last
  std::map<CellState, std::int64_t> counts;
  std::vector<std::string> notes;  ///< the suites' own
};

/// @param folder    a suite's, a sweep's, a run's, or any folder with some below it
/// @param launcher  what a launcher says of run folders: "queued as job 12_3"
/// @throws ConfigError for a folder that is not there or holds no run; DataError where no run can
///         be read.
StatusReport status_of(const std::string& folder, const Catalogue& catalogue,
                       const std::map<std::string, std::string>& launcher = {});

/// Counts, then a line for each unfinished run.
std::string status_text(const StatusReport& report);
std::string status_json(const StatusReport& report);

}  // namespace attnlab
