// A plugin's manifest, read from its file.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "framework/manifest/schema.h"

namespace attnlab {

/// What a build must agree on with the host, by field (see host/stamp.h).
using Stamp = std::map<std::string, std::string>;

struct Manifest {
  std::string id;    ///< "lab/name"
  std::string name;  ///< what `use:` says: the id's part after the slash
  Kind kind = Kind::attention;
  std::string version, summary, citation, licence;
  std::vector<std::string> takes, gives, needs;
  std::vector<std::string> stacks;     ///< of a model: PluginInfo::stacks
  std::map<std::string, bool> traits;  ///< of an attention
  bool ensemble = false;               ///< of a model or a task: PluginInfo::ensemble
  bool recompute = false;              ///< of a model: PluginInfo::recompute
  Schema options;
  Stamp stamp;
  /// Of a Python file that is a plugin: its class (python_plugin.h). Empty: a library, or a file
  /// that a composition names.
  std::string python_class;
  std::string json;  ///< as written in the file
};

/// @param json  a manifest's text. @throws Error, nlohmann::json::exception for anything but a
///              complete one.
Manifest parse_manifest(const std::string& json);

/// @param path  a library, or a Python file (`PythonName`), of which the manifest beside it counts
/// @throws PluginError "PATH: invalid manifest: ..." for anything but a complete manifest.
Manifest read_manifest(const std::string& path);

/// @throws PluginError when the library carries no stamp.
Stamp read_stamp(const std::string& path);

/// The fields in which a plugin's stamp differs: "compiler: expected GNU 12, found GNU 9".
std::vector<std::string> stamp_differences(const Stamp& expected, const Stamp& found);
/// The same of a plugin; none of a Python file, which no compiler made.
std::vector<std::string> stamp_differences(const Stamp& host, const Manifest& plugin);

}  // namespace attnlab
