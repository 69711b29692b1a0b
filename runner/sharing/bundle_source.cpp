#include "runner/sharing/bundle_source.h"

#include <fmt/format.h>

#include <filesystem>

#include "framework/base/error.h"
#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/sharing/bundle.h"
#include "framework/sharing/fetch.h"
#include "framework/sharing/index_list.h"
#include "runner/sharing/sharing.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

/// The one bundle of a folder; a plugin's source is packed first.
BundleSource from_folder(const std::string& folder) {
  std::vector<std::string> bundles;
  for (const auto& file : fs::directory_iterator(folder)) {
    if (file.path().extension() == sharing::kBundleEnding) bundles.push_back(file.path().string());
  }
  if (bundles.size() == 1) return {sharing::read_bundle_bytes(bundles[0]), bundles[0], ""};
  std::error_code ignored;
  if (bundles.empty() && fs::exists(folder + "/CMakeLists.txt", ignored)) {
    const ScratchFolder scratch;
    plugin_pack_command({folder, "--out", scratch.path(), "--no-kit"});
    for (const auto& file : fs::directory_iterator(scratch.path())) {
      return {sharing::read_bundle_bytes(file.path().string()), folder, ""};
    }
  }
  throw ConfigError(fmt::format("{}: holds {} bundles; name one of them", folder, bundles.size()));
}

/// Newer copies of all indices; one that cannot be reached is used as it is, one that is refused is
/// an error.
void refresh(sharing::IndexList& indices, sharing::Keyring& keys, const sharing::Places& places,
             const sharing::Ask& ask, const Say& say) {
  const sharing::Policy policy = sharing::read_policy(places.policy());
  const std::vector<sharing::AddedIndex> all = indices.all();
  for (const sharing::AddedIndex& one : all) {
    try {
      indices.take(one.place, keys, policy, ask);
    } catch (const FileError& error) {
      if (one.expires < sharing::date_in(0)) {
        throw sharing::TrustError(
            fmt::format("{}; the copy of {} has expired", error.what(), one.taken));
      }
      say(fmt::format("{}; the copy of {} is used", error.what(), one.taken));
    }
  }
}

BundleSource from_index(const std::string& word, const sharing::Places& places,
                        sharing::Keyring& keys, const sharing::Ask& ask, const Say& say) {
  const std::size_t at = word.find('@');
  const std::string name = word.substr(0, at);
  const std::string version = at == std::string::npos ? "" : word.substr(at + 1);
  sharing::IndexList indices(places.indices());
  if (indices.all().empty()) {
    throw ConfigError(fmt::format("'{}' is no file, and no index was added (attnlab index add URL)",
                                  one_line(word, 100)));
  }
  refresh(indices, keys, places, ask, say);
  const auto found = indices.newest(name, version);
  if (!found) {
    throw ConfigError(fmt::format("'{}' is no file, and in no index; attnlab plugin search WORD",
                                  one_line(word, 100)));
  }
  const std::string from = sharing::beside(found->place, found->entry.file);
  say(fmt::format("fetching {} {} from {}", found->entry.id, found->entry.version, from));
  return {sharing::fetch(from, found->entry.size), from, found->entry.sha256};
}

}  // namespace

BundleSource bundle_source(const std::string& word, const sharing::Places& places,
                           sharing::Keyring& keys, const sharing::Ask& ask, const Say& say) {
  std::error_code ignored;
  if (sharing::is_url(word)) return {sharing::fetch(word, sharing::kLargestBundle), word, ""};
  if (fs::is_directory(word, ignored)) return from_folder(word);
  if (fs::exists(word, ignored) || word.ends_with(sharing::kBundleEnding)) {
    return {sharing::read_bundle_bytes(word), word, ""};
  }
  return from_index(word, places, keys, ask, say);
}

std::string newest_version(const std::string& id, const sharing::Places& places,
                           sharing::Keyring& keys, const Say& say) {
  sharing::IndexList indices(places.indices());
  refresh(indices, keys, places, nullptr, say);
  const auto found = indices.newest(id, "");
  return found ? found->entry.version : "";
}

}  // namespace attnlab
