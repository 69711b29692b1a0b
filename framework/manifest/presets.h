// Presets: named sets of options that a plugin brings along, such as the sizes of a published
// model.
//
// NAME.presets.yaml beside a plugin's source NAME.cpp becomes a section of its library:
//
//   Ti: {dim: 192, depth: 12, heads: 3}
//
// The plugin's option `preset` names one. A configuration records the name and not what it stands
// for, so presets travel with the plugin and are part of its hash.
#pragma once

#include <string>

#include "framework/config/node.h"
#include "framework/manifest/schema.h"

namespace attnlab {

inline constexpr const char* kPresetsSection = ".attnlab.presets";

/// The presets of a plugin's file, by name; an empty map where it has none.
/// @throws PluginError, ConfigError where the section is damaged.
Node read_presets(const std::string& plugin_path);

/// The values of the options that a plugin's preset sets; an empty map where it has none of the
/// name. @throws as `read_presets`; Error where one does not fit.
Node preset_values(const std::string& plugin_path, const std::string& name, const Schema& options);

/// Checks presets against the plugin's options, and makes their names the choices of `preset`.
/// @param text  the section's content. @throws Error saying what is wrong with them.
void add_presets(const std::string& text, Schema& options);

}  // namespace attnlab
