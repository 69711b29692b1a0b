#include "framework/sharing/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/experiment/identity.h"
#include "framework/sharing/hash.h"

namespace attnlab::sharing {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::string_view kStaging = ".staging-";
constexpr const char* kKinds[] = {"attention", "model", "task", "dataset"};

[[noreturn]] void fail(const std::string& path, const char* action) {
  throw FileError(fmt::format("{}: cannot {}: {}", path, action, std::strerror(errno)));
}

/// Everything that was written on the file system of a folder reaches the disk.
void sync(const std::string& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail(folder, "open");
  const bool synced = ::syncfs(descriptor) == 0;
  ::close(descriptor);
  if (!synced) fail(folder, "make durable");
}

void rename(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail(to, "put in place");
}

std::vector<std::string> folders_in(const std::string& folder) {
  std::vector<std::string> all;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_directory(error) && !entry.is_symlink(error)) all.push_back(entry.path().string());
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::string name_of_entry(const std::string& folder) {
  return fs::path(folder).filename().string();
}

/// Whether the process that a staging folder is called after lives.
bool is_in_use(const std::string& name) {
  pid_t process = 0;
  const std::string_view digits = std::string_view(name).substr(kStaging.size());
  std::from_chars(digits.data(), digits.data() + digits.size(), process);
  return process > 0 && (::kill(process, 0) == 0 || errno != ESRCH);
}

/// Where a link of the host's folder leads, if that is an entry of the store.
std::optional<std::string> entry_behind(const fs::path& link, const std::string& store) {
  std::error_code error;
  if (!fs::is_symlink(link, error)) return std::nullopt;
  const fs::path target = fs::weakly_canonical(link, error);
  const fs::path root = fs::weakly_canonical(store, error);
  if (error || target.string().rfind(root.string() + "/", 0) != 0) return std::nullopt;
  return target.parent_path().string();
}

}  // namespace

Installed read_record(const std::string& folder) {
  const std::string path = folder + "/record.json";
  try {
    const json in = json::parse(read_text(path));
    Installed one;
    one.folder = folder;
    one.id = parse_id(in.at("id"));
    one.kind = in.at("kind");
    one.version = in.at("version");
    one.bundle = in.at("bundle");
    one.library_hash = in.at("library_hash");
    one.key = in.at("key");
    one.replaces = in.at("replaces");
    one.built = in.at("built");
    one.kit = in.at("kit");
    one.date = in.at("date");
    return one;
  } catch (const json::exception& damage) {
    throw BundleError(fmt::format("{}: damaged: {}; remove the plugin and install it again", path,
                                  damage.what()));
  } catch (const BundleError& damage) {
    throw BundleError(fmt::format("{}: {}", path, damage.what()));
  }
}

void write_record(const Installed& one) {
  const json out = {{"format", 1},          {"id", one.id.str()},
                    {"kind", one.kind},     {"version", one.version},
                    {"bundle", one.bundle}, {"library_hash", one.library_hash},
                    {"key", one.key},       {"replaces", one.replaces},
                    {"built", one.built},   {"kit", one.kit},
                    {"date", one.date}};
  write_file(one.folder + "/record.json", out.dump(1) + "\n");
}

std::string damage_of(const Installed& one) {
  try {
    if (file_hash(one.library()) != one.library_hash) return one.library() + ": was altered";
    const Bundle bundle = read_bundle(one.bundle_file());
    if (bundle.sha256 != one.bundle) return one.bundle_file() + ": was altered";
    if (bundle.contents.id != one.id || bundle.contents.version != one.version) {
      return one.folder + "/record.json: is of another bundle";
    }
    const std::string key = bundle.signer ? bundle.signer->key.id_text() : "";
    return key == one.key ? "" : one.bundle_file() + ": is signed by another key";
  } catch (const Error& error) {
    return error.what();
  }
}

std::vector<Installed> Store::active() const {
  std::vector<Installed> all;
  for (const char* kind : kKinds) {
    std::error_code error;
    for (const auto& link : fs::directory_iterator(places_.plugins() + "/" + kind, error)) {
      if (const auto entry = entry_behind(link.path(), places_.installed())) {
        all.push_back(read_record(*entry));
      }
    }
  }
  std::sort(all.begin(), all.end(),
            [](const Installed& a, const Installed& b) { return a.id.str() < b.id.str(); });
  return all;
}

std::optional<Installed> Store::find(const std::string& word) const {
  std::optional<Installed> found;
  for (const Installed& one : active()) {
    if (one.id.str() != word && one.id.name != word) continue;
    if (found) {
      throw ConfigError(fmt::format("'{}' is the name of {} and {}; write the lab before it", word,
                                    found->id.str(), one.id.str()));
    }
    found = one;
  }
  return found;
}

Installed Store::need(const std::string& word) const {
  if (auto found = find(word)) return *found;
  std::vector<std::string> names;
  for (const Installed& one : active()) names.push_back(one.id.str());
  throw ConfigError(
      fmt::format("plugin '{}' is not installed{}; attnlab list --installed shows what is", word,
                  suggestion(word, names)));
}

std::optional<Installed> Store::before(const Installed& one) const {
  const std::string folder = (fs::path(one.folder).parent_path() / one.replaces).string();
  std::error_code error;
  if (one.replaces.empty() || !fs::exists(folder + "/record.json", error)) return std::nullopt;
  return read_record(folder);
}

std::string Store::new_staging() const {
  const std::string folder =
      fmt::format("{}/{}{}", places_.installed(), kStaging, static_cast<long>(::getpid()));
  std::error_code error;
  fs::remove_all(folder, error);
  make_folder(folder);
  return folder;
}

std::string Store::link_of(const Installed& one) const {
  return fmt::format("{}/{}/{}.so", places_.plugins(), one.kind, one.id.name);
}

void Store::link(const Installed& one) const {
  const std::string link = link_of(one);
  make_folder(fs::path(link).parent_path().string());
  const std::string target = fmt::format("../installed/{}/{}/{}/{}.so", one.id.lab, one.id.name,
                                         name_of_entry(one.folder), one.id.name);
  const std::string temporary =
      fmt::format("{}/.link-{}", places_.installed(), static_cast<long>(::getpid()));
  ::unlink(temporary.c_str());
  if (::symlink(target.c_str(), temporary.c_str()) != 0) fail(temporary, "make a link");
  try {
    rename(temporary, link);
  } catch (const FileError&) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync(places_.plugins());
}

Installed Store::activate(const std::string& staging, const Installed& one) const {
  const std::string parent = fmt::format("{}/{}/{}", places_.installed(), one.id.lab, one.id.name);
  make_folder(parent);
  const std::string name = fmt::format("{}-{}", one.version, one.bundle.substr(0, 12));
  Installed moved = one;
  moved.folder = parent + "/" + name;
  std::error_code error;
  for (int n = 2; fs::exists(moved.folder, error); ++n) {
    moved.folder = fmt::format("{}/{}-{}", parent, name, n);
  }
  sync(staging);
  rename(staging, moved.folder);
  link(moved);
  return moved;
}

void Store::remove(const Installed& one) const {
  const std::string link = link_of(one);
  if (::unlink(link.c_str()) != 0) fail(link, "remove");
  clean();
}

void Store::clean() const {
  std::set<std::string> kept;
  for (Installed one : active()) {
    kept.insert(one.folder);
    if (const auto earlier = before(one)) kept.insert(earlier->folder);
  }
  std::error_code ignored;
  for (const std::string& lab : folders_in(places_.installed())) {
    if (name_of_entry(lab).rfind(kStaging, 0) == 0) {
      const bool own = name_of_entry(lab) == fmt::format("{}{}", kStaging, ::getpid());
      if (own || !is_in_use(name_of_entry(lab))) fs::remove_all(lab, ignored);
      continue;
    }
    for (const std::string& plugin : folders_in(lab)) {
      for (const std::string& entry : folders_in(plugin)) {
        const std::string canonical = fs::weakly_canonical(entry, ignored).string();
        if (kept.count(canonical) == 0 && kept.count(entry) == 0) fs::remove_all(entry, ignored);
      }
      ::rmdir(plugin.c_str());  // where nothing is left in it
    }
    ::rmdir(lab.c_str());
  }
}

StoreLock::StoreLock(const Places& places, const std::function<void()>& on_wait) {
  make_folder(places.installed());
  const std::string path = places.installed() + "/lock";
  for (bool told = false;; told = true) {
    lock_.emplace(path);
    if (lock_->state() != FileLock::State::taken) return;
    if (!told && on_wait) on_wait();
    lock_.reset();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace attnlab::sharing
