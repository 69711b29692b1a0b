#include "framework/sharing/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/json.h"
#include "framework/sharing/bundle.h"
#include "framework/sharing/fetch.h"
#include "framework/sharing/foreign_json.h"
#include "framework/sharing/hash.h"
#include "framework/sharing/lines.h"
#include "framework/sharing/names.h"
#include "framework/sharing/waiting_lock.h"

namespace attnlab::sharing {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::int64_t kLargestSmall = 1 << 16;                 // keys and signatures
constexpr std::int64_t kLargestSerial = std::int64_t{1} << 53;  // as JSON's readers hold it
constexpr const char* kIndexComment = "signature of an attnlab index";

json entry_json(const IndexEntry& entry) {
  return {{"id", entry.id},           {"kind", entry.kind},       {"version", entry.version},
          {"summary", entry.summary}, {"licence", entry.licence}, {"file", entry.file},
          {"sha256", entry.sha256},   {"size", entry.size}};
}

IndexEntry entry_of(const json& in) {
  IndexEntry entry;
  entry.id = parse_id(in.at("id")).str();
  entry.kind = one_line(in.at("kind").get<std::string>(), 20);
  entry.version = in.at("version");
  check_version(entry.version);
  entry.summary = one_line(in.at("summary").get<std::string>());
  entry.licence = one_line(in.at("licence").get<std::string>(), 100);
  entry.file = in.at("file");
  check_path(entry.file);
  entry.sha256 = in.at("sha256");
  entry.size = in.at("size");
  if (entry.sha256.size() != 64 || entry.size <= 0 || entry.size > kLargestBundle) {
    throw BundleError(fmt::format("'{}': its hash or size cannot be", entry.id));
  }
  return entry;
}

IndexEntry entry_of_bundle(const fs::path& path, const std::string& lab) {
  check_path(path.filename().string());
  const Bundle bundle = read_bundle(path.string());
  const Contents& contents = bundle.contents;
  if (contents.id.lab != lab) {
    throw BundleError(fmt::format(
        "{}: holds {}; an index lists bundles of its own lab alone, here '{}': put it elsewhere",
        path.string(), contents.id.str(), lab));
  }
  if (!bundle.signer) {
    throw BundleError(
        fmt::format("{}: is not signed: anyone who knows the key of lab '{}' refuses it; pack it "
                    "where that key is",
                    path.string(), lab));
  }
  return {contents.id.str(), contents.kind.empty() ? contents.type : contents.kind,
          contents.version,  contents.summary,
          contents.licence,  path.filename().string(),
          bundle.sha256,     static_cast<std::int64_t>(fs::file_size(path))};
}

std::int64_t serial_there(const std::string& folder) {
  const std::string path = folder + "/" + kIndexFile;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return 0;
  try {
    return parse_index(read_text(path)).serial;
  } catch (const BundleError& damage) {
    throw BundleError(
        fmt::format("{}: {}; repair or remove it (its number must grow)", path, damage.what()));
  }
}

}  // namespace

std::string write_index(const Index& index) {
  json head = {{"format", 1},
               {"lab", index.lab},
               {"serial", index.serial},
               {"created", index.created},
               {"expires", index.expires},
               {"revocations", index.revocations}};
  std::string text = head.dump();
  text.pop_back();  // the brace
  text += ",\"bundles\":[";
  for (std::size_t i = 0; i < index.bundles.size(); ++i) {
    text += (i == 0 ? "\n" : ",\n") + entry_json(index.bundles[i]).dump();
  }
  return text + "\n]}\n";
}

Index parse_index(std::string_view text) {
  try {
    const json in = parse_json(text, std::size_t{kLargestIndex});
    if (in.at("format") != 1) throw BundleError("is an index of a newer attnlab");
    Index index;
    index.lab = in.at("lab");
    check_name(index.lab, "the lab");
    index.serial = in.at("serial");
    if (index.serial < 1 || index.serial > kLargestSerial)
      throw BundleError("its serial number cannot be");
    index.created = one_line(in.at("created").get<std::string>(), 30);
    index.expires = in.at("expires");
    check_date(index.expires, "expires");
    for (const json& text_of : in.at("revocations")) {
      index.revocations.push_back(text_of.get<std::string>());
    }
    for (const json& entry : in.at("bundles")) index.bundles.push_back(entry_of(entry));
    return index;
  } catch (const json::exception& damage) {
    throw BundleError(fmt::format("is not an index: {}", one_line(damage.what(), 200)));
  } catch (const ConfigError& damage) {
    throw BundleError(fmt::format("is not an index: {}", damage.what()));
  }
}

bool in_order(const IndexEntry& a, const IndexEntry& b) {
  if (const int order = a.id.compare(b.id); order != 0) return order < 0;
  const int order = compare_versions(a.version, b.version);
  return order != 0 ? order > 0 : a.file < b.file;
}

/// Two bundles of one plugin and version, of which a reader gets either.
/// @throws BundleError naming both files.
void refuse_two_of_one(const Index& index, const std::string& folder) {
  std::map<std::string, const IndexEntry*> known;
  for (const IndexEntry& entry : index.bundles) {
    const auto [found, fresh] = known.emplace(entry.id + " " + entry.version, &entry);
    if (fresh || found->second->sha256 == entry.sha256) continue;
    throw BundleError(
        fmt::format("{0}/{1} and {0}/{2}: both are {3} {4}, and are not the same; "
                    "move one away, or give it a version of its own",
                    folder, found->second->file, entry.file, entry.id, entry.version));
  }
}

std::string index_comment(const Index& index) {
  return fmt::format("attnlab-index lab:{} serial:{} expires:{}", index.lab, index.serial,
                     index.expires);
}

Index make_index(const std::string& folder, const std::string& lab, const SecretKey& key,
                 const std::string& card, int days, std::int64_t seen) {
  // Two calls at once would give one number to two indices. (It stays; a dot keeps it out of what
  // servers list.)
  std::optional<WaitingLock> lock;
  try {
    lock.emplace(folder + "/.index.lock");
  } catch (const FileError&) {  // of another user of a shared folder; what is wrong is said below
  }
  Index index;
  index.lab = lab;
  index.serial = std::max(serial_there(folder), seen) + 1;
  index.created = time_text();
  index.expires = date_in(days);
  std::error_code error;
  for (const auto& file : fs::directory_iterator(folder, error)) {
    const std::string ending = file.path().extension().string();
    if (ending != kBundleEnding && ending != ".revoked") continue;
    try {
      if (ending == kBundleEnding) {
        index.bundles.push_back(entry_of_bundle(file.path(), lab));
      } else {
        index.revocations.emplace_back(unmarked(read_text(file.path().string())));
        parse_revocation(index.revocations.back());
      }
    } catch (const BundleError& problem) {
      const std::string path = file.path().string(), what = problem.what();
      throw BundleError(what.starts_with(path) ? what : fmt::format("{}: {}", path, what));
    }
  }
  if (error) throw FileError(fmt::format("{}: cannot read: {}", folder, error.message()));
  std::sort(index.bundles.begin(), index.bundles.end(), in_order);
  refuse_two_of_one(index, folder);
  const std::string text = write_index(index), path = folder + "/" + kIndexFile;
  try {
    parse_index(text);  // as whoever takes it reads it
  } catch (const BundleError& problem) {
    throw BundleError(fmt::format("{}: nobody could read it: {}", path, problem.what()));
  }
  // The signature last: between the two, readers see an index that does not fit and try again
  // later.
  write_file(folder + "/lab.pub", card);
  write_file(path, text);
  write_file(path + ".minisig", key.sign(text, kIndexComment, index_comment(index)));
  return index;
}

ServedIndex fetch_index(const std::string& place) {
  const std::string file = beside(place, kIndexFile);
  return {fetch(file, kLargestIndex), fetch(file + ".minisig", kLargestSmall),
          fetch(beside(place, "lab.pub"), kLargestSmall)};
}

Index check_index(const ServedIndex& served, const std::string& place, Keyring& keys,
                  const Policy& policy, const Ask& ask) {
  const std::string what = "index " + shown(place);
  try {
    const KeyCard card = parse_key_card(served.card);
    const Signature signature = parse_signature(served.signature);
    if (!is_signed_by(signature, card.key, served.text)) {
      throw TrustError(
          fmt::format("{}: REFUSED: its signature does not fit: altered, or in the middle "
                      "of a change",
                      what));
    }
    Index index = parse_index(served.text);
    if (index.lab != card.lab || signature.trusted_comment != index_comment(index)) {
      throw TrustError(fmt::format("{}: REFUSED: it differs from what was signed", what));
    }
    for (const IndexEntry& entry : index.bundles) {
      if (entry.id.starts_with(index.lab + "/")) continue;
      throw TrustError(fmt::format("{}: REFUSED: it lists {}, which is not a bundle of lab '{}'",
                                   what, entry.id, index.lab));
    }
    // Before anything else can refuse the index: a revocation is signed by its own key, and a lab
    // that revoked its key has only a new one, which nobody knows yet, to sign its index with.
    for (const std::string& text : index.revocations) keys.take(parse_revocation(text));
    const SeenIndex seen{index.lab, index.serial, sha256(served.text)};
    keys.check_index_is_new(seen, what);
    if (index.expires < date_in(0)) {
      throw TrustError(
          fmt::format("{}: REFUSED: it expired on {}: somebody may be hiding newer "
                      "bundles, or the lab must renew it (attnlab index make)",
                      what, index.expires));
    }
    keys.admit(card, what, policy, ask);
    keys.note_index(seen, what);
    return index;
  } catch (const BundleError& damage) {
    throw BundleError(fmt::format("{}: {}", what, damage.what()));
  }
}

}  // namespace attnlab::sharing
