// Which keys and indices of others are trusted (keyring.h).
#include <fmt/format.h>

#include <algorithm>

#include "framework/sharing/keyring.h"
#include "framework/sharing/names.h"

namespace attnlab::sharing {

void refuse_reserved(const std::string& lab, const std::string& what) {
  if (!is_reserved_lab(lab)) return;
  const char* const why = look_of(lab) == look_of("attnlab")
                              ? "is attnlab itself, or looks like it"
                              : "is what attnlab calls Python files by, or looks like it";
  throw TrustError(fmt::format("{}: REFUSED: lab '{}' {}; take another name", what, lab, why));
}

bool Keyring::take(const Revocation& revocation) {
  KnownKey* const key = find(revocation.lab, revocation.key_id);
  if (key == nullptr) return false;
  if (!revocation.made_by(key->key)) {
    throw TrustError(
        fmt::format("the revocation of key {} was not made by that key", revocation.key_id));
  }
  if (!key->revoked.empty()) return false;
  change([&] {
    KnownKey* const now = find(revocation.lab, revocation.key_id);
    if (now != nullptr && revocation.made_by(now->key)) now->revoked = revocation.date;
  });
  return true;
}

void Keyring::keep(const Revocation& revocation) {
  if (find(revocation.lab, revocation.key_id) != nullptr) return;
  change([&] {
    if (std::count(waiting_.begin(), waiting_.end(), revocation.text) > 0) return;
    waiting_.push_back(revocation.text);
  });
}

bool Keyring::take_of_installed(const Revocation& revocation, const KeyCard& signer) {
  if (revocation.lab != signer.lab || !revocation.made_by(signer.key)) return false;
  change([&] {
    if (find(signer.lab, revocation.key_id) == nullptr) pin(signer, "revoked");
    KnownKey* const known = find(signer.lab, revocation.key_id);
    if (known->key == signer.key) known->revoked = revocation.date;
  });
  return true;
}

std::string Keyring::kept_revocation(const KeyCard& card) const {
  for (const std::string& text : waiting_) {
    const Revocation revoked = parse_revocation(text);
    if (revoked.lab == card.lab && revoked.made_by(card.key)) return revoked.date;
  }
  return "";
}

void Keyring::refuse_awaited(const KeyCard& card, const std::string& what) const {
  const std::string date = kept_revocation(card);
  if (date.empty()) return;
  throw TrustError(fmt::format("{}: REFUSED: its key {} of lab '{}' was revoked on {}", what,
                               card.key.id_text(), card.lab, date));
}

void Keyring::refuse_taken_number(const KeyCard& card, const std::string& what) const {
  for (const KnownKey& known : keys_) {
    if (known.key.id != card.key.id || (known.key == card.key && known.lab == card.lab)) continue;
    throw TrustError(fmt::format(
        "{}: REFUSED: its key has the number {} of another key that you know, of lab '{}'; numbers "
        "are random, so somebody chose it",
        what, card.key.id_text(), known.lab));
  }
}

void Keyring::refuse_look_alikes(const std::string& lab, const std::string& what) const {
  for (const KnownKey& key : keys_) {
    if (key.lab == lab || look_of(key.lab) != look_of(lab)) continue;
    throw TrustError(
        fmt::format("{}: REFUSED: lab '{}' looks like lab '{}', whose key you know. If they are "
                    "two labs indeed, add its key by hand (attnlab key add FILE) and take what it "
                    "signs",
                    what, lab, key.lab));
  }
}

void Keyring::vet(const KeyCard& card, const std::string& what, const Policy& policy,
                  const Ask& ask) const {
  refuse_reserved(card.lab, what);
  refuse_awaited(card, what);
  const std::vector<KnownKey> known = keys_of(card.lab);
  for (const KnownKey& key : known) {
    if (key.key != card.key) continue;
    const std::string objection = key.objection();
    if (objection.empty()) return;
    throw TrustError(
        fmt::format("{}: REFUSED: its key {} of lab '{}' {}; ask the lab for a bundle "
                    "signed with its new key",
                    what, key.key.id_text(), card.lab, objection));
  }
  if (card.expired(date_in(0))) {
    throw TrustError(fmt::format("{}: REFUSED: its key {} of lab '{}' expired on {}", what,
                                 card.key.id_text(), card.lab, card.expires));
  }
  if (!known.empty()) {
    const KnownKey& first = known.front();
    const std::string objection = first.objection();
    throw TrustError(fmt::format(
        "{}: REFUSED: THE KEY OF LAB '{}' HAS CHANGED. It is signed by {}, and the lab's key is {} "
        "(since {}{}). Somebody else may have made it. Ask the lab by another way; if the new key "
        "is the lab's: attnlab key add FILE",
        what, card.lab, card.key.id_text(), first.key.id_text(), first.added,
        objection.empty() ? "" : "; it " + objection));
  }
  refuse_look_alikes(card.lab, what);
  refuse_taken_number(card, what);
  const std::string question = fmt::format(
      "Lab '{}' is met for the first time, with the key {}. From now on only this key "
      "counts for {}/... Trust it?",
      card.lab, card.key.base64(), card.lab);
  if (!permits(policy.first_use, ask, question)) {
    throw TrustError(
        fmt::format("{}: the key {} of lab '{}' is not known here; compare it with what the lab "
                    "publishes, then: "
                    "attnlab key add FILE, or --yes, or `first_use: allow` in policy.yaml",
                    what, card.key.id_text(), card.lab));
  }
}

void Keyring::meet(const KeyCard& card, const std::string& what) {
  // Another process may have met the lab meanwhile, with another key.
  vet(card, what, {Rule::allow, Rule::allow}, nullptr);
  if (keys_of(card.lab).empty()) pin(card, "first use");
}

void Keyring::admit(const KeyCard& card, const std::string& what, const Policy& policy,
                    const Ask& ask) {
  vet(card, what, policy, ask);
  if (keys_of(card.lab).empty()) change([&] { meet(card, what); });
}

std::int64_t Keyring::seen_index(const std::string& lab) const {
  for (const SeenIndex& seen : indices_) {
    if (seen.lab == lab) return seen.serial;
  }
  return 0;
}

void Keyring::check_index_is_new(const SeenIndex& index, const std::string& what) const {
  for (const SeenIndex& seen : indices_) {
    if (seen.lab != index.lab) continue;
    if (index.serial < seen.serial) {
      throw TrustError(
          fmt::format("{}: REFUSED: an old index is served again (number {}, {} was seen "
                      "before): somebody may be hiding newer bundles",
                      what, index.serial, seen.serial));
    }
    if (index.serial == seen.serial && index.sha256 != seen.sha256) {
      throw TrustError(fmt::format(
          "{}: REFUSED: it is another index than the number {} of lab '{}' that was seen before; "
          "the lab must make it again (attnlab index make), from one place",
          what, index.serial, index.lab));
    }
  }
}

void Keyring::note_index(const SeenIndex& index, const std::string& what) {
  change([&] {
    check_index_is_new(index, what);
    std::erase_if(indices_, [&](const SeenIndex& seen) { return seen.lab == index.lab; });
    indices_.push_back(index);
  });
}

}  // namespace attnlab::sharing
