#include "framework/sharing/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>

#include "framework/base/files.h"
#include "framework/base/process_alive.h"
#include "framework/base/text.h"

namespace attnlab::sharing {
namespace {

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
  return is_alive(process);
}

/// The entry that a link of the host's folder leads to, whether it is still there or not.
/// @returns lab, name and entry, or nothing for what is not a link of the store.
std::optional<std::array<std::string, 3>> entry_behind(const fs::path& link) {
  std::error_code error;
  const fs::path target = fs::read_symlink(link, error);
  std::vector<std::string> parts;
  for (const fs::path& part : target) parts.push_back(part.string());
  const bool python = parts.size() == 7 && parts[5] == "python";
  if (error || (parts.size() != 6 && !python) || parts[0] != ".." || parts[1] != "installed") {
    return std::nullopt;
  }
  return std::array{parts[2], parts[3], parts[4]};
}

/// What stands in a folder; nothing where there is none. @throws FileError where that is not known:
/// what cannot be seen may be in use.
std::vector<fs::path> all_in(const std::string& folder) {
  std::vector<fs::path> all;
  std::error_code error;
  fs::directory_iterator at(folder, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) all.push_back(at->path());
  if (error && error != std::errc::no_such_file_or_directory) {
    throw FileError(
        fmt::format("{}: cannot be listed: {}; check its permissions", folder, error.message()));
  }
  return all;
}

std::string with_article(std::string_view kind) {
  return fmt::format("{} {}", kind.starts_with('a') ? "an" : "a", kind);
}

/// An entry, also one whose record cannot be read.
Installed entry_at(const std::string& folder, const std::string& kind, const Id& id) {
  try {
    return read_record(folder);
  } catch (const Error& error) {
    Installed one;
    one.id = id;
    one.kind = kind;
    one.version = name_of_entry(folder);
    one.folder = folder;
    one.problem = error.what();
    return one;
  }
}

}  // namespace

std::vector<Installed> Store::active() const {
  std::vector<Installed> all;
  for (const char* kind : kKinds) {
    for (const fs::path& link : all_in(fmt::format("{}/{}", places_.plugins(), kind))) {
      if (const auto entry = entry_behind(link)) {
        const auto& [lab, name, folder] = *entry;
        all.push_back(entry_at(fmt::format("{}/{}/{}/{}", places_.installed(), lab, name, folder),
                               kind, {lab, name}));
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
  if (one.replaces.empty() || !fs::is_directory(folder, error)) return std::nullopt;
  return entry_at(folder, one.kind, one.id);
}

std::string Store::new_staging() const {
  std::string folder =
      fmt::format("{}/{}{}", places_.installed(), kStaging, static_cast<long>(::getpid()));
  remove_tree(folder);
  make_folder(folder, /*secret=*/true);  // what foreign code makes in it is for nobody else
  return folder;
}

std::string Store::link_of(const Id& id, const std::string& kind, bool python) const {
  return fmt::format("{}/{}/{}{}", places_.plugins(), kind, id.name, python ? ".py" : ".so");
}

void Store::check_name_is_free(const Id& id, const std::string& kind, bool python) const {
  for (const char* other : kKinds) {
    for (const bool in_python : {false, true}) {
      const auto entry = entry_behind(link_of(id, other, in_python));
      if (!entry || (*entry)[0] != id.lab || (*entry)[1] != id.name) continue;
      if (other == kind && in_python == python) continue;
      const auto what = [](const std::string& one, bool file) {
        return with_article(one) + (file ? " in Python" : "");
      };
      throw ConfigError(fmt::format(
          "{0} is installed here as {1}, and this one is {2}: an id has one kind. Remove the other "
          "first: attnlab plugin remove {0}",
          id.str(), what(other, in_python), what(kind, python)));
    }
  }
  for (const bool in_python : {false, true}) {
    const std::string link = link_of(id, kind, in_python);
    std::error_code error;
    if (fs::symlink_status(link, error).type() == fs::file_type::not_found) continue;
    const auto entry = entry_behind(link);
    if (entry && (*entry)[0] == id.lab && (*entry)[1] == id.name) continue;
    throw ConfigError(fmt::format(
        "the name '{}' is taken by {}; remove it first", id.name,
        entry ? fmt::format("{0}/{1} (attnlab plugin remove {0}/{1})", (*entry)[0], (*entry)[1])
              : link + ", which was not installed from a bundle"));
  }
}

void Store::link(const Installed& one) const {
  check_name_is_free(one.id, one.kind, one.python());
  const std::string link = link_of(one.id, one.kind, one.python());
  make_folder(fs::path(link).parent_path().string());
  const std::string target =
      fmt::format("../installed/{}/{}/{}{}", one.id.lab, one.id.name, name_of_entry(one.folder),
                  one.library().substr(one.folder.size()));
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
  try {
    sync(places_.plugins());
  } catch (const FileError&) {  // it is in use all the same
  }
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
  fs::permissions(staging, fs::status(parent, error).permissions(), error);  // no longer foreign
  rename(staging, moved.folder);
  try {
    link(moved);
  } catch (const Error&) {
    remove_tree(moved.folder);
    throw;
  }
  return moved;
}

void Store::remove(const Installed& one) const {
  std::string link = link_of(one.id, one.kind, one.python());
  if (!one.problem.empty() && !entry_behind(link)) {  // its record does not say that it is one
    link = link_of(one.id, one.kind, /*python=*/true);
  }
  if (::unlink(link.c_str()) != 0) fail(link, "remove");
  clean();
}

void Store::clean() const {
  std::set<std::string> kept;
  for (Installed one : active()) {
    kept.insert(one.folder);
    while (const auto earlier = before(one)) {
      if (!kept.insert(earlier->folder).second || !one.for_now) break;
      one = *earlier;
    }
  }
  std::error_code ignored;
  for (const char* kind : kKinds) {  // also what a link leads to that is not written as ours are
    for (const fs::path& link : all_in(fmt::format("{}/{}", places_.plugins(), kind))) {
      const fs::path folder = fs::weakly_canonical(link, ignored).parent_path();
      kept.insert(folder.string());
      if (link.extension() == ".py") kept.insert(folder.parent_path().string());
    }
  }
  for (const std::string& lab : folders_in(places_.installed())) {
    if (name_of_entry(lab).rfind(kStaging, 0) == 0) {
      const bool own = name_of_entry(lab) == fmt::format("{}{}", kStaging, ::getpid());
      if (own || !is_in_use(name_of_entry(lab))) remove_tree(lab);
      continue;
    }
    for (const std::string& plugin : folders_in(lab)) {
      for (const std::string& entry : folders_in(plugin)) {
        const std::string canonical = fs::weakly_canonical(entry, ignored).string();
        if (kept.count(canonical) == 0 && kept.count(entry) == 0) remove_tree(entry);
      }
      ::rmdir(plugin.c_str());  // where nothing is left in it
    }
    ::rmdir(lab.c_str());
  }
}

StoreLock::StoreLock(const Places& places, const std::function<void(const std::string&)>& say) {
  make_folder(places.installed());
  const std::string path = places.installed() + "/lock";
  for (bool told = false;; told = true) {
    lock_.emplace(path);
    if (lock_->state() == FileLock::State::unknown && say) {
      say(path + ": this file system knows no locks; install nothing else at the same time");
    }
    if (lock_->state() != FileLock::State::taken) return;
    if (!told && say) say("another process is changing the installed plugins; waiting for it");
    lock_.reset();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace attnlab::sharing
