// Where a bundle comes from: a file, a folder, a web address, or a name in an index.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "framework/sharing/index_list.h"
#include "framework/sharing/keyring.h"
#include "framework/sharing/places.h"
#include "runner/sharing/workshop.h"

namespace attnlab {

struct BundleSource {
  std::string bytes;
  std::string origin;        ///< what messages call it
  std::string sha256 = {};   ///< that an index promises; empty: none does
  std::string id = {};       ///< that was found in an index; empty: it comes from elsewhere
  std::string version = {};  ///< the same
  bool agreed = false;       ///< it was agreed already that nobody vouches for it
};

/// Finds bundles for one command; the indices are fetched once, when they are first needed.
class BundleFinder {
 public:
  /// @param workshop  for a folder with source, which is built where the policy lets it in
  BundleFinder(const sharing::Places& places, sharing::Keyring& keys, sharing::Ask ask,
               sharing::Policy policy, WorkshopOptions workshop);

  /// @throws ConfigError when the word names nothing, TrustError where an index of its lab is
  /// refused.
  BundleSource find(const std::string& word);
  /// Of a plugin in the indices; empty: it is in none. @throws TrustError as `find`.
  std::string newest_version(const std::string& id);

 private:
  BundleSource from_folder(const std::string& folder);
  void agree_to_build(const std::string& folder) const;
  BundleSource from_index(const std::string& word);
  void refresh();
  void refuse_for(const std::string& lab) const;

  const sharing::Places& places_;
  sharing::Keyring& keys_;
  sharing::Ask ask_;
  sharing::Policy policy_;
  WorkshopOptions workshop_;
  sharing::IndexList indices_;
  bool fresh_ = false;
  std::vector<std::pair<std::string, std::string>> refused_;  ///< lab, why its index does not count
};

}  // namespace attnlab
