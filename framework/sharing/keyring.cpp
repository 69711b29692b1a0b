#include "framework/sharing/keyring.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "framework/base/file_lock.h"
#include "framework/base/files.h"
#include "framework/sharing/hash.h"
#include "framework/sharing/names.h"
#include "framework/sharing/places.h"

namespace attnlab::sharing {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// A file that nobody else may read, from its first byte on.
void write_secret(const std::string& path, const std::string& text) {
  const int descriptor =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (descriptor < 0) throw FileError(path + ": cannot write: it is there, or not permitted");
  const bool written =
      ::write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::fsync(descriptor) == 0;
  ::close(descriptor);
  if (written) return;
  ::unlink(path.c_str());
  throw FileError(path + ": cannot write; free some space");
}

json key_json(const KnownKey& key) {
  json out = {{"lab", key.lab},     {"key", key.key.base64()}, {"id", key.key.id_text()},
              {"added", key.added}, {"expires", key.expires},  {"how", key.how}};
  if (!key.revoked.empty()) out["revoked"] = key.revoked;
  return out;
}

KnownKey key_of(const json& in) {
  return {in.at("lab"),
          parse_public_key(in.at("key").get<std::string>()),
          in.at("added"),
          in.at("expires"),
          in.value("revoked", ""),
          in.at("how")};
}

}  // namespace

std::string KnownKey::objection() const {
  if (!revoked.empty()) return fmt::format("was revoked on {}", revoked);
  if (expires != kNever && expires < date_in(0)) return fmt::format("expired on {}", expires);
  return "";
}

Keyring::Keyring(std::string folder) : folder_(std::move(folder)) {
  start_sodium();
  read();
}

void Keyring::read() {
  const std::string path = folder_ + "/known.json";
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return;
  try {
    const json in = json::parse(read_text(path));
    for (const json& key : in.at("keys")) keys_.push_back(key_of(key));
    for (const auto& [id, version] : in.at("versions").items()) {
      versions_.emplace_back(id, version.get<std::string>());
    }
  } catch (const FileError&) {
    throw;
  } catch (const std::exception& damage) {
    throw BundleError(
        fmt::format("{}: damaged: {}; keys are pinned there: restore it from a backup, or remove "
                    "it and add the "
                    "labs' keys again (attnlab key add)",
                    path, damage.what()));
  }
}

void Keyring::change(const std::function<void()>& how) {
  make_folder(folder_, /*secret=*/true);
  std::optional<FileLock> lock;
  for (lock.emplace(folder_ + "/lock"); lock->state() == FileLock::State::taken;) {
    lock.reset();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    lock.emplace(folder_ + "/lock");
  }
  keys_.clear();
  versions_.clear();
  read();
  how();
  json out = {{"format", 1}, {"keys", json::array()}, {"versions", json::object()}};
  for (const KnownKey& key : keys_) out["keys"].push_back(key_json(key));
  for (const auto& [id, version] : versions_) out["versions"][id] = version;
  write_file(folder_ + "/known.json", out.dump(1) + "\n");
}

std::vector<KnownKey> Keyring::keys_of(const std::string& lab) const {
  std::vector<KnownKey> found;
  std::copy_if(keys_.begin(), keys_.end(), std::back_inserter(found),
               [&](const KnownKey& key) { return key.lab == lab; });
  return found;
}

KnownKey* Keyring::find(const std::string& key_id) {
  const auto found = std::find_if(keys_.begin(), keys_.end(),
                                  [&](const KnownKey& key) { return key.key.id_text() == key_id; });
  return found == keys_.end() ? nullptr : &*found;
}

KeyCard Keyring::make(const std::string& lab, const std::string& expires,
                      const std::string& password) {
  check_name(lab, "the lab");
  if (has_secret(lab)) {
    throw ConfigError(fmt::format(
        "{}/{}.key: lab '{}' has a key; revoke it (attnlab key revoke {}) before making another",
        folder_, lab, lab, own_key_id(lab)));
  }
  make_folder(folder_, /*secret=*/true);
  const SecretKey key = SecretKey::make();
  const KeyCard card{lab, key.public_key(), date_in(0), expires};
  write_secret(fmt::format("{}/{}.key", folder_, lab),
               key.text(fmt::format("attnlab secret key of {}", lab), password));
  write_file(fmt::format("{}/{}.pub", folder_, lab), write_key_card(card, key));
  change([&] { keys_.push_back({lab, card.key, card.created, card.expires, "", "made here"}); });
  return card;
}

bool Keyring::has_secret(const std::string& lab) const {
  std::error_code ignored;
  return fs::exists(fmt::format("{}/{}.key", folder_, lab), ignored);
}

bool Keyring::secret_is_encrypted(const std::string& lab) const {
  return SecretKey::is_encrypted(read_text(fmt::format("{}/{}.key", folder_, lab)));
}

std::string Keyring::own_card(const std::string& lab) const {
  return read_text(fmt::format("{}/{}.pub", folder_, lab));
}

std::string Keyring::own_key_id(const std::string& lab) const {
  return parse_key_card(own_card(lab)).key.id_text();
}

SecretKey Keyring::secret(const std::string& lab, const std::string& password) const {
  const std::string path = fmt::format("{}/{}.key", folder_, lab);
  if (!has_secret(lab)) {
    throw TrustError(
        fmt::format("there is no key of lab '{0}' here; make one: attnlab key new {0}", lab));
  }
  try {
    SecretKey key = SecretKey::parse(read_text(path), password);
    for (const KnownKey& known : keys_) {
      if (known.key != key.public_key() || known.objection().empty()) continue;
      throw TrustError(
          fmt::format("the key {} {}; make another", known.key.id_text(), known.objection()));
    }
    return key;
  } catch (const BundleError& damage) {
    throw BundleError(fmt::format("{}: {}", path, damage.what()));
  } catch (const TrustError& refusal) {
    throw TrustError(fmt::format("{}: {}", path, refusal.what()));
  }
}

void Keyring::add(const KeyCard& card, const std::string& how) {
  if (card.expired(date_in(0))) {
    throw TrustError(fmt::format("key {} of lab '{}' expired on {}; ask the lab for its new key",
                                 card.key.id_text(), card.lab, card.expires));
  }
  if (const KnownKey* known = find(card.key.id_text())) {
    if (known->key == card.key && known->lab == card.lab && known->revoked.empty()) return;
    throw TrustError(fmt::format("key {} is known already, as one of lab '{}'{}",
                                 card.key.id_text(), known->lab,
                                 known->revoked.empty() ? "" : " that was revoked"));
  }
  change([&] { keys_.push_back({card.lab, card.key, date_in(0), card.expires, "", how}); });
}

void Keyring::revoke(const std::string& key_id) {
  if (find(key_id) == nullptr) {
    throw ConfigError(
        fmt::format("there is no key {}; attnlab key list shows those known", key_id));
  }
  change([&] {
    KnownKey* const key = find(key_id);
    if (key != nullptr && key->revoked.empty()) key->revoked = date_in(0);
  });
}

void Keyring::retire(const std::string& lab) {
  const std::string id = own_key_id(lab);
  for (const char* ending : {"key", "pub"}) {
    std::error_code error;
    fs::rename(fmt::format("{}/{}.{}", folder_, lab, ending),
               fmt::format("{}/{}-{}.{}", folder_, lab, id, ending), error);
    if (error)
      throw FileError(fmt::format("{}: cannot rename the key: {}", folder_, error.message()));
  }
}

bool Keyring::take(const Revocation& revocation) {
  KnownKey* const key = find(revocation.key_id);
  if (key == nullptr || key->lab != revocation.lab) return false;
  if (!revocation.made_by(key->key)) {
    throw TrustError(
        fmt::format("the revocation of key {} was not made by that key", revocation.key_id));
  }
  if (!key->revoked.empty()) return false;
  change([&] {
    KnownKey* const now = find(revocation.key_id);
    if (now != nullptr) now->revoked = revocation.date;
  });
  return true;
}

void Keyring::refuse_look_alikes(const std::string& lab, const std::string& what) const {
  for (const KnownKey& key : keys_) {
    if (key.lab == lab || look_of(key.lab) != look_of(lab)) continue;
    throw TrustError(
        fmt::format("{}: REFUSED: lab '{}' looks like lab '{}', whose key you know. If they are "
                    "two labs indeed, "
                    "add its key by hand: attnlab key add FILE",
                    what, lab, key.lab));
  }
}

void Keyring::admit(const KeyCard& card, const std::string& what, const Policy& policy,
                    const Ask& ask) {
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
    throw TrustError(fmt::format(
        "{}: REFUSED: THE KEY OF LAB '{}' HAS CHANGED. It is signed by {}, and the lab's key is {} "
        "(since {}). Somebody else may have made it. Ask the lab by another way; if the new key is "
        "the lab's: attnlab key add FILE",
        what, card.lab, card.key.id_text(), known.front().key.id_text(), known.front().added));
  }
  refuse_look_alikes(card.lab, what);
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
  change([&] {
    if (keys_of(card.lab).empty()) {
      keys_.push_back({card.lab, card.key, date_in(0), card.expires, "", "first use"});
    }
  });
  // Another process may have met the lab in the same moment, with another key.
  admit(card, what, policy, nullptr);
}

std::string Keyring::highest(const std::string& id) const {
  for (const auto& [known, version] : versions_) {
    if (known == id) return version;
  }
  return "";
}

void Keyring::note_version(const std::string& id, const std::string& version) {
  change([&] {
    const std::string before = highest(id);
    if (!before.empty() && compare_versions(version, before) <= 0) return;
    std::erase_if(versions_, [&](const auto& entry) { return entry.first == id; });
    versions_.emplace_back(id, version);
  });
}

}  // namespace attnlab::sharing
