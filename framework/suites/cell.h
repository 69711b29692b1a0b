// One cell of a suite or sweep: a run, and what is to be done with it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "framework/experiment/experiment.h"
#include "framework/runs/run_folder.h"

namespace attnlab {

enum class CellAction {
  run,       ///< not begun, interrupted or killed; failed or stale where that was asked for
  finished,  ///< done or diverged before
  failed,    ///< failed before, and left so
  stale,     ///< a run of its configuration is there, with other plugin files, data or framework
  busy,      ///< another process runs it
};

/// An experiment with one attention and one seed.
struct Cell {
  Experiment experiment;
  std::int64_t seed = 0;
  RunFolder folder;  ///< of a stale cell: the run that is there
  Identity identity;
  CellAction action = CellAction::run;
  std::string reason;  ///< of failed, stale and busy
  /// Of stale and finished cells: the run that is there is of another revision of the framework,
  /// and differs in nothing else. A finished one counts as the user said.
  bool other_revision = false;
};

/// Which cells run again, and which count that else would not.
struct Rerun {
  bool failed = false, stale = false;
  bool accept_revision = false;  ///< finished runs of other revisions of the framework count
};

/// @param words  "failed", "stale", "failed,stale". @throws ConfigError for other words.
Rerun parse_rerun(const std::vector<std::string>& words);

/// A dataset's fingerprint (Identity::data) as an experiment uses it.
using DataOf = std::function<std::string(const Experiment&)>;

/// A cell filed below `root` ("runs/quickstart").
/// @param data  the data's fingerprint, or empty where it is not known
Cell make_cell(Experiment experiment, std::int64_t seed, const std::string& root,
               const std::string& data = "");

/// Files every cell by its whole identity. Plugin files are read, data are asked for once for each
/// different `dataset` section.
void identify(std::vector<Cell>& cells, const std::string& root, const DataOf& data_of);

/// Sets each cell's action from what is on disk. Writes nothing.
/// @throws DataError for damaged records, naming file and remedy.
void decide(std::vector<Cell>& cells, const Rerun& rerun);

/// Records of finished cells of another revision that they count for this one, so that it need not
/// be said again. @throws FileError, DataError.
void record_accepted(const std::vector<Cell>& cells);

/// Takes the mark of failure from a run that is run again, so that it goes on even where the suite
/// is killed before its turn.
void clear_failure(const RunFolder& folder);

}  // namespace attnlab
