// The indices that a user has added, kept below ~/.config/attnlab/indices: where each is, and the
// copy that was taken last, in which is searched without a network.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/sharing/index.h"

namespace attnlab::sharing {

struct AddedIndex {
  std::string place;  ///< an address or a folder
  std::string lab;
  std::int64_t serial = 0;
  std::string taken;  ///< when the copy was taken
  std::string expires;
  std::string copy;  ///< the file
};

/// A bundle that a search found.
struct Found {
  IndexEntry entry;
  std::string place;  ///< of its index
};

class IndexList {
 public:
  /// @throws BundleError for a damaged list.
  explicit IndexList(std::string folder);

  const std::vector<AddedIndex>& all() const { return all_; }
  /// Takes an index in, or a newer copy of one, into the list as it is on the disk now. @throws as
  /// check_index.
  Index take(const std::string& place, Keyring& keys, const Policy& policy, const Ask& ask);
  /// @throws ConfigError when it was not added.
  void remove(const std::string& place);

  /// Bundles in whose line the word stands, upper case aside; newest versions first.
  /// @param expired  gets the places of copies that do not count any more
  std::vector<Found> search(const std::string& word, std::vector<std::string>& expired) const;
  /// The newest version of a plugin, by "lab/name" or by its name alone.
  /// @throws ConfigError where two labs have the name.
  std::optional<Found> newest(const std::string& word, const std::string& version) const;

 private:
  void read();
  void write() const;

  std::string folder_;
  std::vector<AddedIndex> all_;
};

}  // namespace attnlab::sharing
