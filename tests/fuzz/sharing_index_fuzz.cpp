// Fuzzes the reader of indices: an index whose entries can be shown and stay beside it, or a
// BundleError. What is read is signed, judged as if it were served, and searched in a list: what
// is let in is the lab's own and nothing it has revoked, and every entry is found as it was.
// Code: framework/sharing/index.cpp framework/sharing/foreign_json.cpp
// Code: framework/sharing/index_list.cpp framework/sharing/keyring_trust.cpp
#include "framework/sharing/index.h"

#include <algorithm>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/json.h"
#include "framework/sharing/archive.h"
#include "framework/sharing/hash.h"
#include "framework/sharing/index_list.h"
#include "tests/fuzz/files_in_memory.h"

namespace attnlab::fuzz {
namespace {

using sharing::IndexEntry;

/// The same in every process, so that kept inputs stay revocations of it: of 32 bytes that are 0.
const sharing::SecretKey& key() {
  static const sharing::SecretKey made = sharing::SecretKey::parse(
      "untrusted comment: for fuzzing\n"
      "RWQAAEIyAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAZml4ZWRrZXkAAAAA"
      "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAADtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdopAAAAAAAA"
      "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
      "");
  return made;
}

const sharing::KeyCard kCard{"acme", key().public_key(), "2026-01-01", sharing::kNever};

/// Keys, as they are once the lab is known, and a list of one index, whose copy inputs make.
struct Home {
  Home() {
    sharing::Keyring keys(folder.path() + "/keys");
    keys.add(kCard, "added");
    known = read_text(folder.path() + "/keys/known.json");
    std::filesystem::create_directories(folder.path() + "/indices");
    folder.write("indices/list.json",
                 nlohmann::json{{"indices",
                                 {{{"place", "/public"},
                                   {"lab", "acme"},
                                   {"serial", 1},
                                   {"taken", ""},
                                   {"expires", "2999-12-31"},
                                   {"copy", folder.path() + "/indices/copy.json"}}}}}
                     .dump());
  }
  MemoryFolder folder;
  std::string known;
  std::string card = write_key_card(kCard, key());
};

const Home& home() {
  static const Home made;
  return made;
}

std::string index_of(int bundles, const std::vector<std::string>& revocations = {}) {
  sharing::Index index;
  index.lab = "acme";
  index.serial = 3;
  index.created = "2026-11-23T16:00:00Z";
  index.expires = "2999-12-31";
  index.revocations = revocations;
  for (int i = 0; i < bundles; ++i) {
    index.bundles.push_back({"acme/sharp", "attention", "1.0." + std::to_string(i), "made up",
                             "MIT", "sharp.attnlab", std::string(64, 'a'), 1000});
  }
  return write_index(index);
}

void check_shown(const Error& error) {
  const std::string what = error.what();
  if (printable(what) != what) fail("an error that cannot be shown: " + what);
}

void check_let_in(const sharing::Index& index, const sharing::Keyring& keys) {
  if (index.lab != kCard.lab || index.serial != keys.seen_index(kCard.lab)) {
    fail("an index that is not noted");
  }
  for (const IndexEntry& entry : index.bundles) {
    if (entry.id.rfind("acme/", 0) != 0) fail("another lab's bundle: " + entry.id);
  }
  for (const std::string& text : index.revocations) {
    const sharing::Revocation one = sharing::parse_revocation(text);
    if (one.lab == kCard.lab && one.made_by(kCard.key)) fail("an index of a key it revokes");
  }
}

/// @returns whether it is let in. @param text  of which `index` was read
bool is_let_in(const std::string& text, const sharing::Index& index) {
  home().folder.write("keys/known.json", home().known);
  sharing::Keyring keys(home().folder.path() + "/keys");
  sharing::ServedIndex served{text, key().sign(text, "", index_comment(index)), home().card};
  const sharing::Policy policy{sharing::Rule::allow, sharing::Rule::allow};
  try {
    check_let_in(check_index(served, "/public", keys, policy, nullptr), keys);
  } catch (const sharing::BundleError& error) {
    check_shown(error);
    return false;
  } catch (const sharing::TrustError& error) {
    check_shown(error);
    return false;
  }
  served.text += '\n';
  try {
    check_index(served, "/public", keys, policy, nullptr);
  } catch (const sharing::TrustError&) {
    return true;
  }
  fail("an index that was altered since it was signed");
}

std::vector<std::string> sorted_texts(const std::vector<IndexEntry>& entries) {
  std::vector<std::string> out;
  for (const IndexEntry& e : entries) {
    std::string text;
    for (const std::string* part :
         {&e.id, &e.kind, &e.version, &e.summary, &e.licence, &e.file, &e.sha256}) {
      text += *part + "\n";
    }
    out.push_back(text + std::to_string(e.size));
  }
  std::sort(out.begin(), out.end());
  return out;
}

void check_found(const sharing::Index& index) try {
  home().folder.write("indices/copy.json", write_index(index));
  const sharing::IndexList list(home().folder.path() + "/indices");
  std::vector<std::string> expired;
  std::vector<IndexEntry> found;
  for (sharing::Found& one : list.search("", expired)) found.push_back(std::move(one.entry));
  if (!std::is_sorted(found.begin(), found.end(), sharing::in_order)) fail("found out of order");
  if (sorted_texts(found) != sorted_texts(index.bundles)) fail("entries are found otherwise");
  if (index.bundles.empty() || index.bundles.front().kind == "result") return;
  const IndexEntry& first = index.bundles.front();
  const auto newest = list.newest(first.id, "");
  if (!newest || sharing::compare_versions(newest->entry.version, first.version) < 0) {
    fail("the newest version is not found of " + first.id);
  }
} catch (const Error& error) {
  fail(std::string("an index that was read is not searched: ") + error.what());
}

}  // namespace

Target target() {
  const std::string revoked = write_revocation("acme", key());
  return {.seeds = {index_of(0), index_of(1), index_of(3), index_of(1, {revoked}),
                    index_of(1, {write_revocation("other", key())}), "{}", "[", "",
                    std::string(5000, '[')},
          .words = {"\"bundles\":[", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
                    "\"serial\":", "../x", "\\u001b", "null", "1e999", "\"expires\":\"2027-01-01\"",
                    "9223372036854775808", "\"kind\":\"result\"", "other/sharp", "\\\"", "\\n",
                    "\\u00e9", " lab:", " date:", "\"revocations\":[\""}};
}

}  // namespace attnlab::fuzz

int attnlab::fuzz::try_input(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const auto index = sharing::parse_index(text);
    for (const sharing::IndexEntry& entry : index.bundles) {
      sharing::check_path(entry.file);
      for (const std::string* one : {&entry.id, &entry.kind, &entry.summary, &entry.licence}) {
        if (printable(*one) != *one) fuzz::fail("a text that cannot be shown: " + *one);
      }
    }
    fuzz::check_found(index);
    return fuzz::is_let_in(text, index) ? 0 : -1;
  } catch (const sharing::BundleError& error) {
    fuzz::check_shown(error);
    return -1;
  }
}
