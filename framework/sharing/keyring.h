// The keys that this user has and knows: own secret ones, and labs' public ones, each pinned to the
// lab's prefix when it is first met. Kept in ~/.config/attnlab/keys; needs no network.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/experiment/policy.h"
#include "framework/sharing/key_card.h"
#include "framework/sharing/names.h"

namespace attnlab::sharing {

/// A key that is pinned to a lab.
struct KnownKey {
  std::string lab;
  PublicKey key;
  std::string added;    ///< a date
  std::string expires;  ///< a date or "never"
  std::string revoked;  ///< a date; empty: it is not
  std::string how;      ///< "first use", "added", "made here"

  /// Why nothing that it signed is to be trusted today; empty: nothing is against it.
  std::string objection() const;
};

/// An index that was taken in.
struct SeenIndex {
  std::string lab;
  std::int64_t serial = 0;
  std::string sha256;  ///< of its text
};

/// A bundle that was installed.
struct NotedBundle {
  Id id;
  std::string version;
  std::string sha256;  ///< of its file
};

class Keyring {
 public:
  /// @throws BundleError for a damaged record, naming the file.
  explicit Keyring(std::string folder);

  const std::vector<KnownKey>& keys() const { return keys_; }
  std::vector<KnownKey> keys_of(const std::string& lab) const;

  /// Makes a key pair of a lab: LAB.key (mode 0600) and LAB.pub, and knows it. A key that the lab
  /// has here and that has expired or was revoked is put aside first (retire).
  /// @throws ConfigError when the lab has one here that holds; TrustError for a lab's name that is
  /// attnlab's; FileError.
  KeyCard make(const std::string& lab, const std::string& expires, const std::string& password);
  /// The lab's own secret key, to sign with. @throws TrustError saying how to make one, or why it
  /// cannot be used.
  SecretKey secret(const std::string& lab, const std::string& password) const;
  /// The same, to revoke it: one that has expired or was revoked, too.
  SecretKey secret_to_revoke(const std::string& lab, const std::string& password) const;
  /// The text of the lab's own LAB.pub.
  std::string own_card(const std::string& lab) const;
  bool has_secret(const std::string& lab) const;
  std::string own_key_id(const std::string& lab) const;
  bool secret_is_encrypted(const std::string& lab) const;

  /// Adds a key by a person's word, beside those that the lab has; of a key that is known, takes a
  /// later last day in.
  /// @throws TrustError for a revoked or expired one, one whose number another key has, and a lab's
  /// name that is attnlab's.
  void add(const KeyCard& card, const std::string& how);
  /// Marks a key as revoked from today on. @throws ConfigError when it is not known.
  void revoke(const std::string& key_id);
  /// Puts a lab's own key aside (LAB.key becomes LAB-KEY-ID.key), so that it can have another.
  void retire(const std::string& lab);
  /// Takes a lab's own revocation in. @returns whether the key was known and trusted until now.
  /// @throws TrustError when another key made it.
  bool take(const Revocation& revocation);
  /// Keeps the revocation of a key that is not known for the day on which it is met. By a person's
  /// word alone: anybody can make some.
  void keep(const Revocation& revocation);
  /// Pins a key that is not known, as a revoked one: of a plugin that is installed, though its key
  /// is not known any more (its record was lost).
  /// @returns whether the revocation is of that key.
  bool take_of_installed(const Revocation& revocation, const KeyCard& signer);
  /// The day on which a kept revocation says that a key was revoked; empty: none does.
  std::string kept_revocation(const KeyCard& card) const;
  /// Refuses a key whose revocation was kept before it was known. @throws TrustError.
  void refuse_awaited(const KeyCard& card, const std::string& what) const;

  /// Whether something that a key of a lab signed may be used: a pinned key, or a lab's first one
  /// where the policy and the person say so. Pins nothing.
  /// @param what  "bundle acme/x 1.0.0", for messages
  /// @throws TrustError saying what is against it.
  void vet(const KeyCard& card, const std::string& what, const Policy& policy,
           const Ask& ask) const;
  /// The same, and a lab's first key is pinned: from then on only pinned keys count.
  void admit(const KeyCard& card, const std::string& what, const Policy& policy, const Ask& ask);
  /// Refuses a lab that no key is known of and that looks like one whose key is. @throws
  /// TrustError.
  void refuse_look_alikes(const std::string& lab, const std::string& what) const;

  /// The highest version of a plugin that was installed here; empty: none was.
  std::string highest(const std::string& id) const;
  /// The SHA-256 of each bundle of a version that was installed here, also of one that was removed
  /// since; versions count as compare_versions says. Empty: none was, or by an attnlab that did not
  /// note it.
  std::vector<std::string> bundles_of(const std::string& id, const std::string& version) const;
  /// What an installation leaves in this record: the version, its bundle and, of a lab whose first
  /// bundle it is, the key.
  /// @param signer    whose key is pinned, after `vet`; empty: none is
  /// @param activate  puts the plugin into use; called when the record is on the disk, so that a
  ///                  kill cannot leave a plugin without it. Where it throws, the record is as it
  ///                  was before.
  /// @throws TrustError where another process met the lab meanwhile, with another key.
  void note_installation(const NotedBundle& bundle, const std::optional<KeyCard>& signer,
                         const std::function<void()>& activate);

  /// The number of the newest index of a lab that was taken in, wherever it was; 0: none was.
  std::int64_t seen_index(const std::string& lab) const;
  /// @param sha256  of the index's text
  /// @throws TrustError when a newer index of the lab was seen, or another one of this number.
  void check_index_is_new(const SeenIndex& index, const std::string& what) const;
  /// Checks so once more, as the record is now, and remembers it.
  void note_index(const SeenIndex& index, const std::string& what);

 private:
  void read();
  /// Changes the record as it is on the disk now: another process may have changed it meanwhile.
  /// @param then  what is done while the record is still locked; where it throws, the record
  ///              becomes what it was
  void change(const std::function<void()>& how, const std::function<void()>& then = nullptr);
  /// Key numbers are chosen by whoever makes a key: two keys of one number are not an accident.
  void refuse_taken_number(const KeyCard& card, const std::string& what) const;
  KnownKey* find(const std::string& lab, const std::string& key_id);
  std::string path_of(const std::string& lab, const std::string& ending) const;
  /// LAB.pub. @throws BundleError naming a damaged one.
  KeyCard own_key(const std::string& lab) const;
  /// What is against the lab's own key, which is there; empty: nothing.
  std::string own_objection(const std::string& lab) const;
  void pin(const KeyCard& card, const std::string& how);
  /// Pins a lab's first key, which `vet` let in, in the record as it is now.
  void meet(const KeyCard& card, const std::string& what);

  std::string folder_;
  std::vector<KnownKey> keys_;
  std::vector<std::string> waiting_;                           ///< revocations of unknown keys
  std::vector<SeenIndex> indices_;                             ///< one a lab
  std::vector<std::pair<std::string, std::string>> versions_;  ///< id, highest version
  /// By id and version: SHA-256 of the bundles that were installed.
  std::map<std::string, std::map<std::string, std::vector<std::string>>> bundles_;
};

/// Refuses a lab's name that is attnlab's own, or looks like it. @throws TrustError.
void refuse_reserved(const std::string& lab, const std::string& what);

}  // namespace attnlab::sharing
