// Stored results (framework/runs/stored_run.h) in the place of a suite's runs, where everything
// that decides about a run's numbers agrees.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "framework/manifest/discovery.h"
#include "framework/runs/stored_run.h"
#include "framework/suites/suite.h"

namespace attnlab {

/// Stored results that were found for a suite.
struct StoredUse {
  /// A cell that one stands for.
  struct Match {
    std::size_t cell = 0;  ///< its place in the suite
    StoredRun run;
    bool other_numbers = false;  ///< counts by --accept-revision
  };
  std::vector<Match> matches;
  std::size_t files = 0;             ///< stored runs that were looked at
  std::vector<std::string> refused;  ///< "cross_cora/quest/0: the configuration changed"
  /// How many of those would count with --accept-revision.
  std::size_t acceptable = 0;
  double refused_seconds = 0;        ///< that those took where they were made, without evaluations
  std::vector<std::string> damaged;  ///< files that could not be read, with reasons
};

/// What keeps a stored run from standing for a cell: "the data of dataset 'cora' changed". Empty
/// where configuration, data and the version of the framework's numbers agree, plugins have the
/// versions that they had, and it has every evaluation that the experiment asks for, made with the
/// versions that are installed (of a run that diverged: none). Configurations agree, too, where
/// they do once the stored one is filled in with defaults of options that are younger than it.
/// @param other_numbers  set where the version of the framework's numbers differs
std::vector<std::string> differences_to(const StoredRun& run, const Cell& cell,
                                        const Catalogue& catalogue, bool& other_numbers);

/// What it costs where more stored runs are refused than used, and what helps; else empty.
std::string refusal_warning(const StoredUse& use);

/// Marks finished cells as stale that are stored results of which an evaluation was made with other
/// settings or other versions of plugins: without weights they cannot be evaluated again.
/// @param again    such cells are run, their folders removed: the files that they came from stay
/// @param dry_run  removes nothing
/// @throws DataError for a damaged stored.json, naming it.
void check_restored(Suite& suite, const Catalogue& catalogue, bool again, bool dry_run);

/// Looks for stored runs of the cells that are to be run, and of those whose stored result was
/// restored before and is stale by now. Writes nothing. A cell whose weights another one begins
/// with is left: stored results have none. So is one whose result would take the place of a run
/// that was made here.
/// @param accept_revision  those of another version of the framework's numbers count
StoredUse find_stored(const Suite& suite, const Catalogue& catalogue, bool accept_revision);

/// Writes the folders of what was found, and marks the cells as finished. A folder that was
/// restored before is written anew.
void use_stored(const StoredUse& use, Suite& suite);

}  // namespace attnlab
