#include "framework/experiment/installed.h"

#include <fmt/format.h>

#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>

#include "framework/base/files.h"
#include "framework/base/parsed_json.h"
#include "framework/base/sha256.h"
#include "framework/experiment/policy.h"
#include "framework/manifest/python_plugin.h"

namespace attnlab {

namespace fs = std::filesystem;

namespace {

/// A file below the user's home; empty where there is none.
std::string below_home(const std::string& name) {
  const char* const home = std::getenv("HOME");
  return home == nullptr ? "" : std::string(home) + "/" + name;
}

/// The folder of an entry of the store. Python files have one of their own in it.
fs::path entry_of(const fs::path& file) {
  const fs::path folder = file.parent_path();
  return file.extension() == ".py" ? folder.parent_path() : folder;
}

/// Whether a file lies where `attnlab plugin install` puts what it installs
/// (framework/sharing/places.h), this user's or another's. What is still being tried is not there
/// yet.
bool is_in_store(const fs::path& file) {
  constexpr const char* kStore = "attnlab/plugins/installed/";
  constexpr const char* kStaging = ".staging-";
  if (entry_of(file).filename().string().rfind(kStaging, 0) == 0) return false;
  std::error_code error;
  const fs::path own =
      fs::weakly_canonical(below_home(std::string(".local/share/") + kStore), error);
  return file.string().find(std::string("/") + kStore) != std::string::npos ||
         (!own.empty() && file.string().rfind(own.string(), 0) == 0);
}

/// What a file and its folder are, as far as it changes when they do.
using Version = std::array<std::int64_t, 8>;

std::optional<Version> version_of(const std::string& path) {
  Version version{};
  const std::string folder = fs::path(path).parent_path().string();
  std::size_t i = 0;
  for (const char* one : {path.c_str(), folder.empty() ? "." : folder.c_str()}) {
    struct stat there {};
    if (::stat(one, &there) != 0) return std::nullopt;
    const timespec& changed = there.st_ctim;
    for (const auto value : {std::int64_t(there.st_dev), std::int64_t(there.st_ino),
                             std::int64_t(changed.tv_sec), std::int64_t(changed.tv_nsec)}) {
      version[i++] = value;
    }
  }
  return version;
}

/// Libraries that nobody installed, as they were: a sweep asks thousands of times for the same
/// ones.
class NotInstalled {
 public:
  bool has(const std::string& library) {
    const std::optional<Version> now = version_of(library);
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(library);
    return now && found != known_.end() && found->second == *now;
  }
  void add(const std::string& library) {
    const std::optional<Version> now = version_of(library);
    const std::lock_guard lock(mutex_);
    if (now) known_[library] = *now;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Version> known_;
};

}  // namespace

std::optional<InstalledFrom> installed_from(const std::string& path) {
  static NotInstalled others;
  const std::string library = plain_file(path);
  if (others.has(library)) return std::nullopt;
  std::error_code error;
  const fs::path file = fs::canonical(library, error);
  if (error) return std::nullopt;
  const std::string record = (entry_of(file) / "record.json").string();
  const bool recorded = fs::exists(record, error);
  const bool bundled = fs::exists(entry_of(file) / "bundle.attnlab", error);
  if (!is_in_store(file) && !(recorded && bundled)) {
    others.add(library);
    return std::nullopt;
  }
  if (!recorded || !bundled) {
    throw PluginError(
        fmt::format("{}: {} is missing beside it, so nobody knows what was "
                    "installed; remove the plugin and install it again",
                    library, recorded ? "bundle.attnlab" : "record.json"));
  }
  try {
    const auto in = parsed_json_file(record);
    return InstalledFrom{in.at("id"), in.at("version"), in.at("bundle"), in.at("key"),
                         in.at("library_hash")};
  } catch (const nlohmann::json::exception& damage) {
    throw PluginError(fmt::format("{}: damaged: {}; remove the plugin and install it again", record,
                                  damage.what()));
  }
}

namespace {

/// The policy may be newer than what is installed.
bool unsigned_are_refused() {
  return sharing::read_policy(below_home(".config/attnlab/policy.yaml")).unsigned_bundles ==
         sharing::Rule::refuse;
}

/// The day on which a key was revoked here; empty: it was not. (framework/sharing/keyring.h)
std::string revocation_of(const std::string& key) {
  const std::string path = below_home(".config/attnlab/keys/known.json");
  if (key.empty() || path.empty() || !is_there(path)) return "";
  try {
    const auto record = parsed_json_file(path);
    for (const auto& known : record.at("keys")) {
      std::string revoked = known.value("revoked", "");
      if (known.at("id") == key && !revoked.empty()) return revoked;
    }
  } catch (const nlohmann::json::exception& damage) {
    throw PluginError(
        fmt::format("{}: damaged: {}; keys are pinned there: restore it from a "
                    "backup, or remove it and add the labs' keys again",
                    path, damage.what()));
  }
  return "";
}

/// The hash of a file that is asked for again for every cell of a suite.
std::string hash_of(const std::string& path) {
  struct Known {
    fs::file_time_type time;
    std::uintmax_t size;
    std::string hash;
  };
  static std::mutex guard;
  static std::map<std::string, Known> all;
  std::error_code error;
  const fs::file_time_type time = fs::last_write_time(path, error);
  const std::uintmax_t size = error ? 0 : fs::file_size(path, error);
  const std::lock_guard<std::mutex> lock(guard);
  const auto found = all.find(path);
  const bool fresh = !error && found != all.end() && found->second.time == time;
  if (fresh && found->second.size == size) return found->second.hash;
  std::string hash = sha256_text_of_file(path);
  if (!error) all[path] = {time, size, hash};
  return hash;
}

}  // namespace

std::string installed_hash(const std::string& library) {
  if (fs::path(library).extension() == ".py") return hash_of_folder(library);
  return hash_of(library);
}

void check_installed(const std::string& path) {
  const std::optional<InstalledFrom> from = installed_from(path);
  if (!from) return;
  const std::string library = plain_file(path);
  if (from->key.empty() && unsigned_are_refused()) {
    throw PluginError(
        fmt::format("{}: is not signed, and ~/.config/attnlab/policy.yaml refuses what "
                    "is not; install a signed {}, or change the policy",
                    library, from->id));
  }
  const std::string revoked = revocation_of(from->key);
  if (!revoked.empty()) {
    throw PluginError(fmt::format(
        "{}: its key {} was revoked on {}; it is not loaded. Remove it, and install one with the "
        "lab's new key: attnlab plugin remove {}",
        library, from->key, revoked, from->id));
  }
  if (from->library_hash == installed_hash(library)) return;
  throw PluginError(fmt::format(
      "{}: was altered since it was installed as {} {}; it is not loaded. Remove it and install it "
      "again: attnlab plugin remove {}",
      library, from->id, from->version, from->id));
}

Catalogue catalogue_of_installed() {
  Catalogue catalogue = Catalogue::of_this_program();
  catalogue.refuse([](const Candidate& candidate) -> std::string {
    try {
      check_installed(candidate.path);
      return "";
    } catch (const PluginError& refusal) {
      return refusal.what();
    }
  });
  return catalogue;
}

}  // namespace attnlab
