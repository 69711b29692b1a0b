#include "runner/sharing/bundle_source.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "framework/base/error.h"
#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/manifest/python_file.h"
#include "framework/sharing/bundle.h"
#include "framework/sharing/fetch.h"
#include "runner/sharing/plugin_pack.h"

namespace attnlab {
namespace fs = std::filesystem;

BundleFinder::BundleFinder(const sharing::Places& places, sharing::Keyring& keys, sharing::Ask ask,
                           sharing::Policy policy, WorkshopOptions workshop)
    : places_(places),
      keys_(keys),
      ask_(std::move(ask)),
      policy_(policy),
      workshop_(std::move(workshop)),
      indices_(places.indices()) {}

/// The one bundle of a folder; a plugin's source is packed, with the library that this builds: it
/// need not be built twice. (The kit is left to the installation.)
BundleSource BundleFinder::from_folder(const std::string& folder) {
  std::vector<std::string> bundles;
  for (const auto& file : fs::directory_iterator(folder)) {
    if (file.path().extension() == sharing::kBundleEnding) bundles.push_back(file.path().string());
  }
  if (is_there(folder + "/CMakeLists.txt")) {
    if (!bundles.empty()) {
      throw ConfigError(
          fmt::format("{}: holds a plugin's source and {}; name that file, or move it away to "
                      "install the source",
                      folder, bundles[0]));
    }
    PackOptions options;
    options.workshop = workshop_;
    options.kit = false;
    options.binary = true;
    agree_to_build(folder);
    BundleSource packed{pack_folder(folder, options).bytes, folder};
    packed.agreed = true;
    return packed;
  }
  if (bundles.size() == 1) return {sharing::read_bundle_bytes(bundles[0]), bundles[0]};
  throw ConfigError(fmt::format("{}: holds {} bundles; name one of them", folder, bundles.size()));
}

/// The policy counts before foreign code is built, not only before it is installed; a folder has
/// no signature. @throws TrustError.
void BundleFinder::agree_to_build(const std::string& folder) const {
  const std::string question = fmt::format(
      "{} holds source, which is not signed: nobody guarantees its origin. It is built here, and "
      "its code will run with your rights. Build and install it?",
      folder);
  if (permits(policy_.unsigned_bundles, ask_, question)) return;
  throw sharing::TrustError(
      fmt::format("{}: source is not signed, and the policy does not let it in; nothing was built; "
                  "--yes, or `unsigned: allow` in policy.yaml",
                  folder));
}

/// Newer copies of all indices; one that cannot be reached is used as it is. One that is refused or
/// has expired matters where something of its lab is asked for.
void BundleFinder::refresh() {
  if (std::exchange(fresh_, true)) return;
  const std::vector<sharing::AddedIndex> all = indices_.all();
  for (const sharing::AddedIndex& one : all) {
    try {
      indices_.take(one.place, keys_, policy_, ask_);
    } catch (const FileError& error) {
      if (one.expires < sharing::date_in(0)) {
        refused_.emplace_back(
            one.lab, fmt::format("{}; the copy of {} has expired", error.what(), one.taken));
      } else {
        workshop_.say(fmt::format("{}; the copy of {} is used", error.what(), one.taken));
      }
    } catch (const sharing::TrustError& error) {
      refused_.emplace_back(one.lab, error.what());
    } catch (const sharing::BundleError& error) {
      refused_.emplace_back(one.lab, error.what());
    }
  }
  for (const auto& [lab, why] : refused_) {
    workshop_.say(fmt::format("nothing of lab '{}' is taken from its index: {}", lab, why));
  }
}

/// @param lab  empty: any
void BundleFinder::refuse_for(const std::string& lab) const {
  for (const auto& [refused, why] : refused_) {
    if (lab.empty() || lab == refused) throw sharing::TrustError(why);
  }
}

BundleSource BundleFinder::from_index(const std::string& word) {
  const std::size_t at = word.find('@');
  const std::string name = word.substr(0, at);
  const std::string version = at == std::string::npos ? "" : word.substr(at + 1);
  if (indices_.all().empty()) {
    throw ConfigError(fmt::format(
        "'{}' is not a file, and no index was added (attnlab index add URL)", one_line(word, 100)));
  }
  refresh();
  const std::size_t slash = name.find('/');
  if (slash != std::string::npos) refuse_for(name.substr(0, slash));
  const auto found = indices_.newest(name, version);
  if (!found) {
    refuse_for("");  // it may be in one of those
    throw ConfigError(fmt::format("'{}' is not a file, and in no index; attnlab plugin search WORD",
                                  one_line(word, 100)));
  }
  refuse_for(found->entry.id.substr(0, found->entry.id.find('/')));
  const std::string from = sharing::beside(found->place, found->entry.file);
  workshop_.say(fmt::format("fetching {} {} from {}", found->entry.id, found->entry.version,
                            sharing::shown(from)));
  return {sharing::fetch(from, found->entry.size, {}, found->entry.sha256), sharing::shown(from),
          found->entry.sha256, found->entry.id, found->entry.version};
}

BundleSource BundleFinder::find(const std::string& word) {
  std::error_code ignored;
  if (is_python_name(word)) {
    throw ConfigError(
        fmt::format("{0}: a Python file is packed before it is installed: attnlab plugin pack {0} "
                    "--lab LAB; in a composition it can be named as it is: use: {0}",
                    one_line(word, 100)));
  }
  if (sharing::is_url(word)) {
    return {sharing::fetch(word, sharing::kLargestBundle), sharing::shown(word)};
  }
  if (fs::is_directory(word, ignored)) return from_folder(word);
  if (fs::exists(word, ignored) || word.ends_with(sharing::kBundleEnding)) {
    return {sharing::read_bundle_bytes(word), word};
  }
  return from_index(word);
}

std::string BundleFinder::newest_version(const std::string& id) {
  refresh();
  refuse_for(id.substr(0, id.find('/')));
  const auto found = indices_.newest(id, "");
  return found ? found->entry.version : "";
}

}  // namespace attnlab
