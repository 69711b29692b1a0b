// Finds plugins on disk. Reads manifests only; loads no code.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/installation.h"
#include "framework/manifest/manifest.h"

namespace attnlab {

/// A folder that is searched, and why.
struct SearchPlace {
  std::string folder;
  std::string why;  ///< "ATTNLAB_PLUGIN_PATH", "project", "user", "system"
  bool exists = false;
};

/// A file that was looked at, or a folder that could not be.
struct Candidate {
  std::string path;                  ///< of one in Python with its class: a `PythonName`
  std::optional<Manifest> manifest;  ///< empty when it could not be read
  std::string refused;               ///< why it cannot be used; empty when it can
  std::string instead_of;            ///< the installed file whose place it takes; empty: none
};

/// Where plugins are looked for, in order: each entry of $ATTNLAB_PLUGIN_PATH, ./plugins (project),
/// ~/.local/share/attnlab/plugins (user), the build or install tree (system).
std::vector<SearchPlace> search_places(const Installation& installation);

/// All plugins that can be found.
class Catalogue {
 public:
  /// Looks at every *.so, and every Python file with a manifest (python_plugin.h), in the places
  /// and, one level deep, in their folders attention/, model/, task/ and dataset/. Two files of one
  /// kind and name are both refused; but a file in $ATTNLAB_PLUGIN_PATH takes the place of the same
  /// lab's plugin of that name in the user's place: who develops one that is installed tries it.
  Catalogue(const std::vector<SearchPlace>& places, const Stamp& host_stamp);
  /// With the places and the stamp of this program's installation.
  static Catalogue of_this_program();
  /// One library or Python file, wherever it lies, and nothing else; checked as the others are.
  /// @throws PluginError saying why it cannot be used.
  static Catalogue of_file(const std::string& path);
  /// All plugins of this program, with this library in the place of any of its kind and name.
  /// @throws PluginError saying why it cannot be used.
  static Catalogue with_file(const std::string& path);

  const std::vector<SearchPlace>& places() const { return places_; }
  const std::vector<Candidate>& candidates() const { return candidates_; }
  /// Usable plugins of a kind, by name.
  std::vector<const Candidate*> usable(Kind kind) const;
  std::vector<std::string> names(Kind kind) const;

  /// @param name  "quest" or "attnlab/quest"; but of a task also a `PythonName`: "mine.py"
  /// @throws PluginError saying why it was refused, or what there is and where was looked.
  const Candidate& find(Kind kind, const std::string& name) const;

  /// Refuses usable plugins of which something more is known.
  /// @param why_not  empty: nothing is against it
  void refuse(const std::function<std::string(const Candidate&)>& why_not);

 private:
  void look_into(const std::string& folder);
  void take_places_of_installed();
  void refuse_duplicates();

  std::vector<SearchPlace> places_;
  std::vector<Candidate> candidates_;
  /// Device and number: a file that two places lead to is not a duplicate.
  std::set<std::pair<std::uint64_t, std::uint64_t>> files_;
  Stamp host_stamp_;
};

/// What rebuilds a plugin: the remedy of every stamp mismatch.
std::string rebuild_command(const std::string& installation_root);

}  // namespace attnlab
