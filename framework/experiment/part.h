// The parts of an experiment: plugins that its sections name, with their options.
#pragma once

#include <string>

#include "framework/config/node.h"
#include "framework/config/problems.h"
#include "framework/manifest/discovery.h"

namespace attnlab {

/// One part of an experiment: a plugin and its options.
struct Part {
  Kind kind = Kind::attention;
  std::string name;   ///< the plugin's name
  std::string label;  ///< what tables call it (`as:`); the name unless given
  Node options;       ///< resolved: every option of the plugin
  Place place;        ///< where `use:` stands
  std::string path;   ///< the plugin's file
  std::string id;     ///< "lab/name"
};

/// One part outside any experiment, its options checked and filled in.
/// @param name     "quest" or "attnlab/quest"
/// @param options  a map, or null for "all defaults"
/// @throws PluginError when there is no such plugin, ConfigError with every problem of the options.
Part part_of(Kind kind, const std::string& name, const Node& options, const Catalogue& catalogue);

/// Resolves a composition's section of one kind.
/// @param part      what is found
/// @param resolved  gets the section with every option filled in
/// @param problems  what is wrong is appended
/// @returns the plugin's manifest, or null when there were problems with the plugin.
const Manifest* resolve_part(const Node& composed, Kind kind, const Catalogue& catalogue,
                             Part& part, Node& resolved, Problems& problems);

/// Appends to `problems` each trait that the model needs and the attention lacks.
void check_traits(const Part& model, const Manifest& needs, const Part& attention,
                  const Manifest& has, Problems& problems);

}  // namespace attnlab
