// Where this program is installed or built, and where its configurations are.
#pragma once

#include <string>
#include <vector>

namespace attnlab {

/// The installation that this program belongs to, found from the program's own path, else from that
/// of the running library: bin/, lib/, lib/attnlab/plugins/, share/attnlab/configs/ under one root.
struct Installation {
  std::string root;
  std::string library() const { return root + "/lib/libattnlab.so"; }
  /// Libraries of commands that run plugin code.
  std::string engine() const { return root + "/lib/attnlab/attnlab_engine.so"; }
  std::string inspection() const { return root + "/lib/attnlab/attnlab_inspect.so"; }
  std::string plugins() const { return root + "/lib/attnlab/plugins"; }
  std::string configs() const { return root + "/share/attnlab/configs"; }

  /// @throws Error when the running program's path cannot be found.
  static Installation of_this_program();
};

/// Where files that are named without their folder are looked for, in order: ./configs (project),
/// ~/.local/share/attnlab/configs (user), those of the build or the installation.
std::vector<std::string> config_folders();

}  // namespace attnlab
