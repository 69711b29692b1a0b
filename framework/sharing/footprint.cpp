#include "framework/sharing/footprint.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "framework/base/files.h"

namespace attnlab::sharing {
namespace {

using Inode = std::pair<dev_t, ino_t>;

/// Calls `use` with each name in an open folder, which is closed then.
void each_name(int folder, const std::function<void(int, const char*)>& use) {
  DIR* const names = ::fdopendir(folder);
  if (names == nullptr) {
    ::close(folder);
    return;
  }
  while (const dirent* entry = ::readdir(names)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") use(::dirfd(names), entry->d_name);
  }
  ::closedir(names);
}

/// What the foreign code hides is counted all the same. @returns a descriptor; -1: not a folder
int open_folder(int at, const char* name) {
  constexpr int kHow = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  const int opened = ::openat(at, name, kHow);
  if (opened >= 0 || errno != EACCES) return opened;
  open_to_owner(at, name);
  return ::openat(at, name, kHow);
}

class Footprints {
 public:
  void add(int at, const char* name, int depth) {
    struct stat status {};
    if (::fstatat(at, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return;
    constexpr std::int64_t kEntry = 1024;  // the file system's own note of it
    total.bytes += kEntry;
    // A file of several names takes its blocks once.
    if (S_ISDIR(status.st_mode) || status.st_nlink < 2 || is_new(status)) add_blocks(status);
    if (!S_ISDIR(status.st_mode)) return;
    if (depth == kDeepestFolder) {
      total.too_deep = true;
      return;
    }
    const int folder = open_folder(at, name);
    if (folder < 0) return;
    each_name(folder, [&](int inner, const char* entry) { add(inner, entry, depth + 1); });
  }

  /// Files without a name that a process has open or in its memory.
  void add_nameless(pid_t pid) {
    const std::string process = fmt::format("/proc/{}/", pid);
    const int open = ::open((process + "fd").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (open >= 0) {
      each_name(open, [&](int folder, const char* descriptor) {
        struct stat status {};
        if (::fstatat(folder, descriptor, &status, 0) != 0) return;
        if (S_ISREG(status.st_mode) && status.st_nlink == 0 && is_new(status)) add_blocks(status);
      });
    }
    std::ifstream maps(process + "maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.ends_with(" (deleted)")) add_map(line);
    }
  }

  Footprint total;

 private:
  bool is_new(const struct stat& status) {
    return known_.insert({status.st_dev, status.st_ino}).second;
  }

  void add_blocks(const struct stat& status) {
    constexpr std::int64_t kBlock = 512;
    total.bytes += kBlock * static_cast<std::int64_t>(status.st_blocks);
  }

  /// A line of /proc/PID/maps: "BEGIN-END perms offset MAJOR:MINOR inode path (deleted)".
  void add_map(const std::string& line) {
    std::uint64_t begin = 0, end = 0, inode = 0;
    unsigned major = 0, minor = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %*s %*s %x:%x %lu", &begin, &end, &major, &minor,
                    &inode) == 5 &&
        known_.insert({makedev(major, minor), inode}).second) {
      total.bytes += static_cast<std::int64_t>(end - begin);
    }
  }

  std::set<Inode> known_;
};

/// The process and those below it.
std::vector<pid_t> family_of(pid_t pid) {
  std::multimap<pid_t, pid_t> children;
  const int folder = ::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return {};
  each_name(folder, [&](int, const char* name) {
    const auto one = static_cast<pid_t>(std::strtol(name, nullptr, 10));
    if (one <= 0) return;
    std::ifstream in(fmt::format("/proc/{}/stat", one));
    std::string text;
    std::getline(in, text, '\0');
    const std::size_t end = text.rfind(')');  // of the program's name, which may hold anything
    if (end == std::string::npos) return;
    std::istringstream rest(text.substr(end + 1));
    char state = 0;
    pid_t parent = 0;
    rest >> state >> parent;
    if (state != 'Z') children.emplace(parent, one);
  });
  std::vector<pid_t> family = {pid};
  for (std::size_t i = 0; i < family.size(); ++i) {
    const auto [from, to] = children.equal_range(family[i]);
    for (auto child = from; child != to; ++child) family.push_back(child->second);
  }
  return family;
}

}  // namespace

Footprint footprint_of(pid_t pid, const std::vector<std::string>& paths) {
  Footprints count;
  for (const std::string& path : paths) count.add(AT_FDCWD, path.c_str(), 0);
  const std::vector<pid_t> family = family_of(pid);
  for (const pid_t one : family) count.add_nameless(one);
  count.total.processes = family.size();
  return count.total;
}

}  // namespace attnlab::sharing
