#include "framework/sharing/keyring.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "framework/base/files.h"
#include "framework/base/parsed_json.h"
#include "framework/base/write_all.h"
#include "framework/sharing/hash.h"
#include "framework/sharing/lines.h"
#include "framework/sharing/names.h"
#include "framework/sharing/places.h"
#include "framework/sharing/waiting_lock.h"

namespace attnlab::sharing {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// A file that nobody else may read, from its first byte on; it appears whole. The record's lock is
/// held, so nobody else makes it in the same moment.
void write_secret(const std::string& path, const std::string& text) {
  const std::string making = path + ".new";
  ::unlink(making.c_str());  // a killed process's
  const int descriptor =
      ::open(making.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (descriptor < 0) throw FileError(making + ": cannot write; check the permissions");
  const bool written = write_all(descriptor, text) == 0 && ::fsync(descriptor) == 0;
  ::close(descriptor);
  if (written && ::rename(making.c_str(), path.c_str()) == 0) return;
  ::unlink(making.c_str());
  throw FileError(path + ": cannot write; free some space");
}

/// A file becomes what it was. On a disk that has become full it stays as it is.
void put_back(const std::string& path, const std::string& text) {
  try {
    if (text.empty()) {
      ::unlink(path.c_str());
    } else {
      write_file(path, text);
    }
  } catch (const FileError&) {
  }
}

/// Whether a last day is after another one.
bool is_later(const std::string& date, const std::string& than) {
  return than != kNever && (date == kNever || date > than);
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
  keys_.clear();
  versions_.clear();
  bundles_.clear();
  indices_.clear();
  waiting_.clear();
  if (!is_there(path)) return;
  try {
    const json in = parsed_json_file(path);
    for (const json& key : in.at("keys")) keys_.push_back(key_of(key));
    for (const auto& [id, version] : in.at("versions").items()) {
      versions_.emplace_back(id, version.get<std::string>());
    }
    bundles_ = in.value("bundles", json::object()).get<decltype(bundles_)>();
    const json indices = in.value("indices", json::object());
    for (const auto& [lab, seen] : indices.items()) {
      indices_.push_back({lab, seen.at("serial"), seen.at("sha256")});
    }
    waiting_ = in.value("revocations", std::vector<std::string>{});
    for (const std::string& text : waiting_) parse_revocation(text);
  } catch (const FileError&) {
    throw;
  } catch (const std::exception& damage) {
    throw BundleError(
        fmt::format("{}: damaged: {}; keys are pinned there: restore it from a backup, or remove "
                    "it and add the labs' keys again (attnlab key add)",
                    path, damage.what()));
  }
}

void Keyring::change(const std::function<void()>& how, const std::function<void()>& then) {
  make_folder(folder_, /*secret=*/true);
  const WaitingLock lock(folder_ + "/lock");
  const std::string path = folder_ + "/known.json";
  const std::string before = is_there(path) ? read_text(path) : "";
  read();
  how();
  json out = {{"format", 1},
              {"keys", json::array()},
              {"versions", json::object()},
              {"bundles", bundles_},
              {"indices", json::object()}};
  for (const KnownKey& key : keys_) out["keys"].push_back(key_json(key));
  for (const auto& [id, version] : versions_) out["versions"][id] = version;
  for (const SeenIndex& seen : indices_) {
    out["indices"][seen.lab] = {{"serial", seen.serial}, {"sha256", seen.sha256}};
  }
  if (!waiting_.empty()) out["revocations"] = waiting_;
  write_file(path, out.dump(1) + "\n");
  if (!then) return;
  try {
    then();
  } catch (...) {
    put_back(path, before);
    read();
    throw;
  }
}

std::vector<KnownKey> Keyring::keys_of(const std::string& lab) const {
  std::vector<KnownKey> found;
  std::copy_if(keys_.begin(), keys_.end(), std::back_inserter(found),
               [&](const KnownKey& key) { return key.lab == lab; });
  return found;
}

KnownKey* Keyring::find(const std::string& lab, const std::string& key_id) {
  const auto found = std::find_if(keys_.begin(), keys_.end(), [&](const KnownKey& key) {
    return key.lab == lab && key.key.id_text() == key_id;
  });
  return found == keys_.end() ? nullptr : &*found;
}

std::string Keyring::path_of(const std::string& lab, const std::string& ending) const {
  return fmt::format("{}/{}.{}", folder_, lab, ending);
}

void Keyring::pin(const KeyCard& card, const std::string& how) {
  keys_.push_back({card.lab, card.key, date_in(0), card.expires, "", how});
}

std::string Keyring::own_objection(const std::string& lab) const {
  const KeyCard card = own_key(lab);
  for (const KnownKey& known : keys_) {
    if (known.key == card.key && known.lab == lab) return known.objection();
  }
  return card.expired(date_in(0)) ? "expired on " + card.expires : "";
}

KeyCard Keyring::make(const std::string& lab, const std::string& expires,
                      const std::string& password) {
  check_name(lab, "the lab");
  refuse_reserved(lab, "lab '" + lab + "'");
  const SecretKey key = SecretKey::make();
  KeyCard card{lab, key.public_key(), date_in(0), expires};
  bool has_one = false;
  change([&] {
    has_one = has_secret(lab) && own_objection(lab).empty();
    if (has_one) {  // known, unless the process that made it was killed just then
      if (find(lab, own_key_id(lab)) == nullptr) pin(own_key(lab), "made here");
      return;
    }
    if (has_secret(lab)) retire(lab);
    // The secret key last: killed before, the same command begins anew.
    write_file(path_of(lab, "pub"), write_key_card(card, key));
    pin(card, "made here");
    write_secret(path_of(lab, "key"),
                 key.text(fmt::format("attnlab secret key of {}", lab), password));
  });
  if (!has_one) return card;
  throw ConfigError(
      fmt::format("{}: lab '{}' has a key; revoke it (attnlab key revoke {}) before making another",
                  path_of(lab, "key"), lab, own_key_id(lab)));
}

bool Keyring::has_secret(const std::string& lab) const {
  std::error_code ignored;
  return fs::exists(fmt::format("{}/{}.key", folder_, lab), ignored);
}

bool Keyring::secret_is_encrypted(const std::string& lab) const {
  try {
    return SecretKey::is_encrypted(read_text(path_of(lab, "key")));
  } catch (const BundleError& damage) {
    throw BundleError(
        fmt::format("{}: {}; take it from a backup", path_of(lab, "key"), damage.what()));
  }
}

std::string Keyring::own_card(const std::string& lab) const {
  return std::string(unmarked(read_text(path_of(lab, "pub"))));
}

KeyCard Keyring::own_key(const std::string& lab) const {
  try {
    return parse_key_card(own_card(lab));
  } catch (const BundleError& damage) {
    throw BundleError(
        fmt::format("{}: {}; take it from a backup", path_of(lab, "pub"), damage.what()));
  }
}

std::string Keyring::own_key_id(const std::string& lab) const { return own_key(lab).key.id_text(); }

SecretKey Keyring::secret(const std::string& lab, const std::string& password) const {
  SecretKey key = secret_to_revoke(lab, password);
  const std::string objection = own_objection(lab);
  if (objection.empty()) return key;
  throw TrustError(fmt::format("{}: the key {} {}; make another: attnlab key new {}",
                               path_of(lab, "key"), key.public_key().id_text(), objection, lab));
}

SecretKey Keyring::secret_to_revoke(const std::string& lab, const std::string& password) const {
  const std::string path = path_of(lab, "key");
  if (!has_secret(lab)) {
    throw TrustError(
        fmt::format("there is no key of lab '{0}' here; make one: attnlab key new {0}", lab));
  }
  const PublicKey own = own_key(lab).key;
  try {
    SecretKey key = SecretKey::parse(read_text(path), password);
    if (key.public_key() == own) return key;
    throw BundleError(fmt::format("is not the key of {}", path_of(lab, "pub")));
  } catch (const BundleError& damage) {
    throw BundleError(fmt::format("{}: {}", path, damage.what()));
  } catch (const TrustError& refusal) {
    throw TrustError(fmt::format("{}: {}", path, refusal.what()));
  }
}

void Keyring::add(const KeyCard& card, const std::string& how) {
  const std::string what = fmt::format("key {} of lab '{}'", card.key.id_text(), card.lab);
  refuse_reserved(card.lab, what);
  if (card.expired(date_in(0))) {
    throw TrustError(
        fmt::format("{} expired on {}; ask the lab for its new key", what, card.expires));
  }
  change([&] {
    refuse_awaited(card, what);
    refuse_taken_number(card, what);
    KnownKey* const known = find(card.lab, card.key.id_text());
    if (known == nullptr) return pin(card, how);
    if (!known->revoked.empty()) {
      throw TrustError(
          fmt::format("{} is known already, and was revoked on {}", what, known->revoked));
    }
    if (is_later(card.expires, known->expires)) known->expires = card.expires;
  });
}

void Keyring::revoke(const std::string& key_id) {
  change([&] {
    bool known = false;
    for (KnownKey& key : keys_) {
      if (key.key.id_text() != key_id) continue;
      known = true;
      if (key.revoked.empty()) key.revoked = date_in(0);
    }
    if (known) return;
    throw ConfigError(
        fmt::format("there is no key {}; attnlab key list shows those known", key_id));
  });
}

void Keyring::retire(const std::string& lab) {
  const std::string id = own_key_id(lab);
  for (const char* ending : {"key", "pub"}) {
    std::error_code error;
    fs::rename(path_of(lab, ending), path_of(lab + "-" + id, ending), error);
    if (error)
      throw FileError(fmt::format("{}: cannot rename the key: {}", folder_, error.message()));
  }
}

std::string Keyring::highest(const std::string& id) const {
  for (const auto& [known, version] : versions_) {
    if (known == id) return version;
  }
  return "";
}

std::vector<std::string> Keyring::bundles_of(const std::string& id,
                                             const std::string& version) const {
  std::vector<std::string> all;
  const auto found = bundles_.find(id);
  if (found == bundles_.end()) return all;
  for (const auto& [noted, bundles] : found->second) {
    if (compare_versions(noted, version) == 0)
      all.insert(all.end(), bundles.begin(), bundles.end());
  }
  return all;
}

void Keyring::note_installation(const NotedBundle& bundle, const std::optional<KeyCard>& signer,
                                const std::function<void()>& activate) {
  const std::string id = bundle.id.str();
  const auto note = [&] {
    if (signer) meet(*signer, fmt::format("bundle {} {}", id, bundle.version));
    std::vector<std::string>& noted = bundles_[id][bundle.version];
    if (std::find(noted.begin(), noted.end(), bundle.sha256) == noted.end()) {
      noted.push_back(bundle.sha256);
    }
    const std::string before = highest(id);
    if (!before.empty() && compare_versions(bundle.version, before) <= 0) return;
    std::erase_if(versions_, [&](const auto& entry) { return entry.first == id; });
    versions_.emplace_back(id, bundle.version);
  };
  change(note, activate);
}

}  // namespace attnlab::sharing
