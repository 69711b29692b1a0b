// What `attnlab plugin test` tests: a plugin's file, its options, and an experiment around it.
#pragma once

#include <optional>
#include <string>

#include "framework/experiment/experiment.h"
#include "runner/arguments.h"

namespace attnlab {

/// Finds a plugin of any kind by "quest", "attnlab/quest", "attention/quest" or "mine.py".
/// @throws PluginError saying why it was refused, or with near names.
const Candidate& find_plugin(const Catalogue& catalogue, const std::string& word);

struct TestedPlugin {
  Catalogue catalogue;                   ///< of the file alone
  Part part;                             ///< its options checked and filled in
  std::optional<Experiment> experiment;  ///< the other parts that it is tried with

  const Manifest& manifest() const { return *catalogue.candidates().front().manifest; }
};

/// @param path        of the plugin's file
/// @param overrides   "dim=64": options of the plugin
/// @param experiment  a composition's file or name, which then has the plugin in the place of its
///                    own part of that kind; empty: none
/// @throws PluginError, ConfigError.
TestedPlugin tested_plugin(const std::string& path, const Words& overrides,
                           const std::string& experiment);

}  // namespace attnlab
