// Folders of runs and of suites in or below a folder. What cannot be read is named, and the rest
// goes on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/runs/absence.h"

namespace attnlab {

/// A folder of a run, or one with runs below it, that cannot be read.
struct Unreadable {
  std::string folder, reason;

  /// "FOLDER cannot be read and is left out: REASON".
  std::string text() const;
  /// The cell that it has the place of, where its path says so: experiment/attention/seed-hash.
  std::optional<AbsentCell> cell() const;
};

struct FoundFolders {
  /// Below the canonical path of what was searched, sorted. Links are followed; what several paths
  /// lead to stands here once.
  std::vector<std::string> runs, suites;
  std::vector<Unreadable> unreadable;
};

/// @throws ConfigError for a folder that is not there or holds no run; DataError where nothing
///         below it can be read.
FoundFolders search_folders(const std::string& folder);

/// The folder that a path lies in; empty of what lies in the root.
std::string folder_above(const std::string& path);

/// The record of the suite or sweep that is filed in a folder: suite.json, or table.json of an
/// earlier attnlab. Empty without one.
std::string suite_record_file(const std::string& folder);

}  // namespace attnlab
