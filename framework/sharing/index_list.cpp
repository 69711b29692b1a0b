#include "framework/sharing/index_list.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/parsed_json.h"
#include "framework/sharing/fetch.h"
#include "framework/sharing/hash.h"
#include "framework/sharing/names.h"
#include "framework/sharing/places.h"
#include "framework/sharing/waiting_lock.h"

namespace attnlab::sharing {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// Takes a text away from the front, where it stands there.
bool take(std::string_view& line, std::string_view text) {
  if (!line.starts_with(text)) return false;
  line.remove_prefix(text.size());
  return true;
}

/// What stands before the next quote, which is taken away with it.
std::optional<std::string_view> take_text(std::string_view& line) {
  const std::size_t end = line.find('"');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view text = line.substr(0, end);
  line.remove_prefix(end + 1);
  return text;
}

/// A line as we write it: {"key":"text","size":3}. A JSON parser takes ten times as long, which is
/// much for a word that all lines have. @returns nothing for any other form: a text with escapes.
std::optional<IndexEntry> plain_entry(std::string_view line) {
  if (line.find('\\') != std::string_view::npos || !take(line, "{")) return std::nullopt;
  IndexEntry entry;
  const std::pair<std::string_view, std::string*> texts[] = {
      {"id", &entry.id},           {"kind", &entry.kind},       {"version", &entry.version},
      {"summary", &entry.summary}, {"licence", &entry.licence}, {"file", &entry.file},
      {"sha256", &entry.sha256}};
  std::size_t members = 0;
  do {
    const auto key = take(line, "\"") ? take_text(line) : std::nullopt;
    if (!key || !take(line, ":")) return std::nullopt;
    ++members;
    if (*key == "size") {
      const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), entry.size);
      if (error != std::errc()) return std::nullopt;
      line.remove_prefix(static_cast<std::size_t>(end - line.data()));
      continue;
    }
    const auto text = take(line, "\"") ? take_text(line) : std::nullopt;
    const auto same = [&](const auto& one) { return one.first == *key; };
    const auto found = std::find_if(std::begin(texts), std::end(texts), same);
    if (!text || found == std::end(texts)) return std::nullopt;
    *found->second = *text;
  } while (take(line, ","));
  return line == "}" && members == 1 + std::size(texts) ? std::optional(std::move(entry))
                                                        : std::nullopt;
}

IndexEntry entry_in(std::string_view line) {
  if (line.ends_with(',')) line.remove_suffix(1);
  if (auto entry = plain_entry(line)) return std::move(*entry);
  const json in = parsed_json(line);
  return {in.at("id"),      in.at("kind"), in.at("version"), in.at("summary"),
          in.at("licence"), in.at("file"), in.at("sha256"),  in.at("size")};
}

std::string damaged_copy(const AddedIndex& index, const std::string& how) {
  return fmt::format("{}: damaged: {}; attnlab index update takes a new copy", index.copy, how);
}

/// The lines of a copy that have the word, in lower case, in them. A copy is our own writing: a
/// head, then one bundle per line.
void search_copy(const AddedIndex& index, const std::string& word, std::vector<Found>& out) {
  const std::string text = read_text(index.copy);
  const std::string folded = lower(text);
  const std::size_t head = text.find('\n');
  if (head == std::string::npos) throw BundleError(damaged_copy(index, "it has no lines"));
  std::vector<std::string_view> lines;
  for (std::size_t at = head + 1; (at = folded.find(word, at)) != std::string::npos;) {
    const std::size_t begin = text.rfind('\n', at) + 1, end = text.find('\n', at);
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    if (line.starts_with('{')) lines.push_back(line);
    if (end == std::string::npos) break;
    at = end + 1;
  }
  out.reserve(out.size() + lines.size());
  try {
    for (const std::string_view line : lines) out.push_back({entry_in(line), index.place});
  } catch (const json::exception& damage) {
    throw BundleError(damaged_copy(index, damage.what()));
  }
}

/// How an index is named in the list: an address, or a whole path.
std::string place_of(const std::string& given) {
  return is_url(given) ? given : fs::absolute(given).lexically_normal().string();
}

bool before(const Found& a, const Found& b) { return in_order(a.entry, b.entry); }

/// A copy is in order, as its index was; several together are not. (Pointers are sorted: a bundle's
/// members take 300 bytes.)
std::vector<Found> sorted(std::vector<Found> all) {
  if (std::is_sorted(all.begin(), all.end(), before)) return all;
  std::vector<Found*> order;
  order.reserve(all.size());
  for (Found& one : all) order.push_back(&one);
  std::sort(order.begin(), order.end(),
            [](const Found* a, const Found* b) { return before(*a, *b); });
  std::vector<Found> out;
  out.reserve(all.size());
  for (Found* const one : order) out.push_back(std::move(*one));
  return out;
}

}  // namespace

IndexList::IndexList(std::string folder) : folder_(std::move(folder)) { read(); }

void IndexList::read() {
  const std::string path = folder_ + "/list.json";
  all_.clear();
  if (!is_there(path)) return;
  try {
    const json list = parsed_json_file(path);
    for (const json& in : list.at("indices")) {
      all_.push_back({in.at("place"), in.at("lab"), in.at("serial"), in.at("taken"),
                      in.at("expires"), in.at("copy")});
    }
  } catch (const json::exception& damage) {
    throw BundleError(
        fmt::format("{}: damaged: {}; remove it and add the indices again", path, damage.what()));
  }
}

void IndexList::write() const {
  json out = {{"format", 1}, {"indices", json::array()}};
  for (const AddedIndex& one : all_) {
    out["indices"].push_back({{"place", one.place},
                              {"lab", one.lab},
                              {"serial", one.serial},
                              {"taken", one.taken},
                              {"expires", one.expires},
                              {"copy", one.copy}});
  }
  write_file(folder_ + "/list.json", out.dump(1) + "\n");
}

Index IndexList::take(const std::string& given, Keyring& keys, const Policy& policy,
                      const Ask& ask) {
  const std::string place = place_of(given);
  Index index = check_index(fetch_index(place), place, keys, policy, ask);
  make_folder(folder_, /*secret=*/true);  // addresses may hold passwords
  const WaitingLock lock(folder_ + "/lock");
  read();
  const auto same = [&](const AddedIndex& one) { return one.place == place; };
  const auto known = std::find_if(all_.begin(), all_.end(), same);
  if (known != all_.end() && known->lab != index.lab) {
    throw TrustError(fmt::format("index {}: REFUSED: it was lab '{}''s, now it is lab '{}''s",
                                 shown(place), known->lab, index.lab));
  }
  if (known != all_.end() && known->serial > index.serial) return index;  // another was quicker
  const std::string copy = fmt::format("{}/{}.json", folder_, sha256(place).substr(0, 16));
  write_file(copy, write_index(index));
  std::erase_if(all_, same);
  all_.push_back({place, index.lab, index.serial, time_text(), index.expires, copy});
  write();
  return index;
}

void IndexList::remove(const std::string& given) {
  make_folder(folder_);
  const WaitingLock lock(folder_ + "/lock");
  read();
  const std::string place = place_of(given);
  for (auto one = all_.begin(); one != all_.end(); ++one) {
    if (one->place != place && one->place != given && shown(one->place) != given) continue;
    const std::string copy = one->copy;
    all_.erase(one);
    write();
    ::unlink(copy.c_str());
    return;
  }
  throw ConfigError(
      fmt::format("index {} was not added; attnlab index list shows those that were", given));
}

std::vector<Found> IndexList::search(const std::string& word,
                                     std::vector<std::string>& expired) const {
  if (std::any_of(word.begin(), word.end(), [](unsigned char c) { return c < 0x20; })) {
    throw ConfigError(fmt::format("'{}': no entry has control characters", one_line(word, 100)));
  }
  const std::string wanted = lower(word);
  std::vector<Found> found;
  const std::string today = date_in(0);
  for (const AddedIndex& index : all_) {
    if (index.expires < today) expired.push_back(shown(index.place));
    search_copy(index, wanted, found);
  }
  return sorted(std::move(found));
}

std::optional<Found> IndexList::newest(const std::string& word, const std::string& version) const {
  std::vector<std::string> expired;
  std::optional<Found> best;
  for (const Found& one : search(word, expired)) {
    const std::string name = one.entry.id.substr(one.entry.id.find('/') + 1);
    if (one.entry.id != word && name != word) continue;
    if (one.entry.kind == "result" || (!version.empty() && one.entry.version != version)) continue;
    if (best && best->entry.id != one.entry.id) {
      throw ConfigError(fmt::format("'{}' is the name of {} and {}; write the lab before it", word,
                                    best->entry.id, one.entry.id));
    }
    if (!best) best = one;
  }
  return best;
}

}  // namespace attnlab::sharing
