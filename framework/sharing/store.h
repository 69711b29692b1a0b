// What is installed for this user, below ~/.local/share/attnlab/plugins:
//
//   attention/sharp.so -> ../installed/acme/sharp/1.0.0-0123456789ab/sharp.so   what the host finds
//   installed/lock                                    held by whoever changes anything
//   installed/.staging-PID/                           what is being installed
//   installed/acme/sharp/1.0.0-0123456789ab/          an entry
//       bundle.attnlab record.json sharp.so log.txt conformance.json
//
// Of one in Python the link is attention/sharp.py, and the entry has a folder for it and for what
// it imports: python/sharp.py, with its manifest (framework/manifest/python_plugin.h).
//
// A version becomes the one in use when its link is renamed into place: before, the old one is,
// after, the new one. What no link leads to, and no `replaces` of what a link leads to, is left
// over from a process that was killed, and goes with the next change. (Where the link leads to an
// entry that is in use for now, one more `replaces` counts.)
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/file_lock.h"
#include "framework/sharing/bundle.h"
#include "framework/sharing/places.h"

namespace attnlab::sharing {

/// An entry of the store.
struct Installed {
  Id id;
  std::string kind, version;
  std::string folder;        ///< of the entry
  std::string bundle;        ///< SHA-256 of the bundle's file
  std::string library_hash;  ///< `installed_hash` of the library
  std::string key;           ///< the id of the key that signed it; empty: unsigned
  std::string replaces;      ///< the name of the entry that it took the place of; empty: none
  std::string built;         ///< "binary", "source" or "python"
  bool kit = true;           ///< the conformance kit passed; false: it was left out
  std::string date;
  /// In use while a result is repeated; then what it took the place of comes back. So both that and
  /// what one can go back to from it are kept.
  bool for_now = false;
  /// What is wrong with its record; then only id, kind and folder are known, from its path.
  std::string problem = {};

  bool python() const { return built == "python"; }
  std::string library() const {
    return folder + "/" + (python() ? "python/" + id.name + ".py" : id.name + ".so");
  }
  std::string bundle_file() const { return folder + "/bundle.attnlab"; }
  std::string label() const { return id.str() + " " + version; }
};

/// @throws BundleError for a damaged record, FileError where there is none; both name it.
Installed read_record(const std::string& folder);
void write_record(const Installed& installed);

/// What is wrong with an entry: files altered or missing, a signature that does not fit. Empty: it
/// is as it was installed.
std::string damage_of(const Installed& installed);

class Store {
 public:
  explicit Store(Places places) : places_(std::move(places)) {}

  const Places& places() const { return places_; }
  /// What is in use, by id; entries with a damaged record, too (Installed::problem).
  std::vector<Installed> active() const;
  /// @param word  "acme/sharp" or "sharp". @throws ConfigError where two have the name.
  std::optional<Installed> find(const std::string& word) const;
  /// The same. @throws ConfigError with near names where there is none.
  Installed need(const std::string& word) const;
  /// The entry that an entry took the place of, if it is still there.
  std::optional<Installed> before(const Installed& installed) const;

  /// A fresh folder for an entry in the making; the lock must be held.
  std::string new_staging() const;
  /// Moves a staged entry, whose record is written, into the store, and makes it the one in use.
  Installed activate(const std::string& staging, const Installed& installed) const;
  /// Refuses a name that another lab's plugin has here, or a file that is none of the store's, and
  /// an id that is installed as another kind, or as Python where this is none: `find` would find
  /// two.
  /// @throws ConfigError naming it.
  void check_name_is_free(const Id& id, const std::string& kind, bool python) const;
  /// Makes an entry of the store the one in use. @throws ConfigError as check_name_is_free.
  void link(const Installed& installed) const;
  void remove(const Installed& installed) const;
  /// Removes what killed processes left, and entries that nothing leads to. The lock must be held.
  void clean() const;

 private:
  std::string link_of(const Id& id, const std::string& kind, bool python) const;

  Places places_;
};

/// Held while the store is changed; waits for another process that holds it.
class StoreLock {
 public:
  /// @param say  told once if somebody else holds it, and where the file system knows no locks
  StoreLock(const Places& places, const std::function<void(const std::string&)>& say);

 private:
  std::optional<FileLock> lock_;
};

}  // namespace attnlab::sharing
