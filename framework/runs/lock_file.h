// lock.json, in every run's and suite's folder: which code and data its numbers are of, so that
// another machine can tell whether it has the same.
//
//   framework   version and revision (revision.h)
//   parts       each plugin: kind, id, version, hash of its file, its build stamp; of one from a
//               bundle also the bundle's SHA-256 and the key that signed it
//   data        fingerprints of the datasets, with seed 0
#pragma once

#include <set>
#include <string>
#include <vector>

#include "framework/experiment/experiment.h"

namespace attnlab {

inline constexpr const char* kLockFile = "lock.json";

/// @param data  fingerprints; unknown ones are left out
/// @throws PluginError, FileError when a plugin's file cannot be read.
std::string lock_text(const std::vector<const Experiment*>& experiments,
                      const std::set<std::string>& data);

}  // namespace attnlab
