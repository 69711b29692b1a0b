// An index: what a lab publishes, as static files that any server, repository or shared disk can
// hold:
//
//   index.json           the bundles beside it, a line each, with hashes; a number that grows with
//                        every change; until when it counts
//   index.json.minisig   the lab's signature of it
//   LAB.pub              named in index.json; the lab's key
//   NAME-VERSION.attnlab the bundles
//
// An older index served again has a smaller number than one seen before; one that is served on and
// on has expired. Both are refused. A lab has one index; copies of it may be served at many places.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/sharing/keyring.h"

namespace attnlab::sharing {

inline constexpr const char* kIndexFile = "index.json";
/// Bytes of an index: some 50,000 bundles. It is read before its key is known.
inline constexpr std::int64_t kLargestIndex = std::int64_t{16} << 20;

/// One bundle of an index.
struct IndexEntry {
  std::string id, kind, version, summary, licence, file, sha256;
  std::int64_t size = 0;
};

struct Index {
  std::string lab;
  std::int64_t serial = 0;  ///< grows with every change
  std::string created;      ///< a time
  std::string expires;      ///< a date, the last day on which it counts
  std::vector<IndexEntry> bundles;
  std::vector<std::string> revocations;  ///< texts of key_card.h
};

/// Whether a stands before b in an index and in what a search finds: by id, newest versions first,
/// then by file.
bool in_order(const IndexEntry& a, const IndexEntry& b);

/// A bundle a line, so that a search need not parse what it does not want.
std::string write_index(const Index& index);
/// @throws BundleError.
Index parse_index(std::string_view text);

/// The trusted comment of its signature.
std::string index_comment(const Index& index);

/// The parts of an index as it is served.
struct ServedIndex {
  std::string text, signature, card;
};

/// Makes or renews the index of a folder from the bundles in it, signed with the lab's key: number
/// one above that of the index that is there.
/// @param days  for which it counts
/// @param seen  the number of the newest index of the lab that is known; a lab has one index
/// @throws BundleError for a bundle that is not whole or is another lab's, naming it.
Index make_index(const std::string& folder, const std::string& lab, const SecretKey& key,
                 const std::string& card, int days, std::int64_t seen = 0);

/// Reads the three files beside an address. @throws FileError.
ServedIndex fetch_index(const std::string& place);

/// Checks signature and key, remembers the index's number and takes its revocations in.
/// @throws BundleError; TrustError for another key, an older index than one of the lab that was
/// seen anywhere, another of the same number, an expired one, and one with another lab's bundles.
Index check_index(const ServedIndex& served, const std::string& place, Keyring& keys,
                  const Policy& policy, const Ask& ask);

}  // namespace attnlab::sharing
