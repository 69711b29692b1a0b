#include "framework/runs/run_search.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <set>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "framework/base/error.h"
#include "framework/runs/open_folder.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSuiteRecords[] = {"/suite.json", "/table.json"};

/// Whether one path is the other, or lies above it.
bool is_above(const fs::path& path, const fs::path& other) {
  const auto end = std::mismatch(path.begin(), path.end(), other.begin(), other.end());
  return end.first == path.end();
}

/// Each folder once, whatever links lead to it.
class FolderSearch {
 public:
  explicit FolderSearch(fs::path top) : top_(std::move(top)) {}

  FoundFolders all() {
    search(top_.string(), top_.string());
    // Links come last: what lies here itself has its own path.
    while (!links_.empty()) {
      const fs::path link = *links_.begin();
      links_.erase(links_.begin());
      follow(link);
    }
    return std::move(found_);
  }

 private:
  /// @param at    the folder that `path` begins in, or AT_FDCWD
  /// @param name  of the folder there
  /// @returns whether the folder is a run's: nothing else is searched for in it
  bool look_into(int at, const std::string& name, const std::string& path) {
    const auto holds = [&](const char* file) {
      struct stat unused {};
      return ::fstatat(at, (name + file).c_str(), &unused, 0) == 0;
    };
    if (holds("/config.yaml")) {
      found_.runs.push_back(path);
      return true;
    }
    if (std::any_of(std::begin(kSuiteRecords), std::end(kSuiteRecords), holds)) {
      found_.suites.push_back(path);
    }
    return false;
  }

  /// A folder in another one, that is not a run's.
  struct Inner {
    std::string path, real;
  };

  /// @param real  the same without links
  void search(const std::string& path, const std::string& real) {
    if (seen_.insert(real).second && !look_into(AT_FDCWD, path, path)) below(path, real);
  }

  void below(const std::string& path, const std::string& real) {
    const auto [inner, error] = list(path, real);
    for (const Inner& one : inner) below(one.path, one.real);
    if (error != 0) {
      found_.unreadable.push_back({path, std::generic_category().message(error)});
    }
  }

  /// The folder's own folders that are not runs, after a look into each; and what is wrong, or 0.
  std::pair<std::vector<Inner>, int> list(const std::string& path, const std::string& real) {
    std::vector<Inner> inner;
    OpenFolder folder(AT_FDCWD, path.c_str());
    while (const dirent64* const entry = folder.next()) {
      const std::string name = entry->d_name;
      const unsigned char type = type_of(folder.descriptor(), *entry);
      if (type == DT_LNK) links_.insert(fs::path(path) / name);
      if (type != DT_DIR) continue;
      Inner one{in_folder(path, name), in_folder(real, name)};
      if (!seen_.insert(one.real).second) continue;
      if (!look_into(folder.descriptor(), name, one.path)) inner.push_back(std::move(one));
    }
    return {std::move(inner), folder.error()};
  }

  static std::string in_folder(const std::string& folder, const std::string& name) {
    return folder == "/" ? folder + name : folder + "/" + name;
  }

  static unsigned char type_of(int at, const dirent64& entry) {
    if (entry.d_type != DT_UNKNOWN) return entry.d_type;
    struct stat file {};
    if (::fstatat(at, entry.d_name, &file, AT_SYMLINK_NOFOLLOW) != 0) return DT_UNKNOWN;
    return static_cast<unsigned char>(IFTODT(file.st_mode));
  }

  void follow(const fs::path& link) {
    std::error_code error;
    const fs::path real = fs::canonical(link, error);
    if (error) {
      const Unreadable lost{link.string(), "the link cannot be followed: " + error.message()};
      if (lost.cell()) found_.unreadable.push_back(lost);  // other files than runs may be links
    }
    if (error || is_above(real, top_) || !fs::is_directory(real, error)) return;
    search(link.string(), real.string());
  }

  fs::path top_;
  FoundFolders found_;
  std::unordered_set<std::string> seen_;
  std::set<fs::path> links_;
};

}  // namespace

std::string Unreadable::text() const {
  return fmt::format("{} cannot be read and is left out: {}", folder, reason);
}

std::optional<AbsentCell> Unreadable::cell() const {
  const fs::path path(folder), attention = path.parent_path();
  const std::string name = path.filename().string();
  std::int64_t seed = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), seed);
  if (error != std::errc() || *end != '-') return std::nullopt;
  AbsentCell cell;
  cell.experiment = attention.parent_path().filename().string();
  cell.attention = attention.filename().string();
  cell.seed = seed;
  cell.gap = {Absence::unreadable, reason};
  cell.folder = folder;
  return cell;
}

FoundFolders search_folders(const std::string& folder) {
  std::error_code error;
  const fs::path top = fs::canonical(folder, error);
  if (error == std::errc::no_such_file_or_directory) {
    throw ConfigError(Place{folder, 0, 0}, "there is no such folder");
  }
  if (error) throw DataError(fmt::format("{}: cannot be read: {}", folder, error.message()));
  FoundFolders found = FolderSearch(top).all();
  if (found.runs.empty() && !found.unreadable.empty()) {
    throw DataError(fmt::format("{}: cannot be read: {}", found.unreadable.front().folder,
                                found.unreadable.front().reason));
  }
  if (found.runs.empty()) {
    throw ConfigError(Place{folder, 0, 0},
                      "holds no run folder (one with a config.yaml); attnlab run, suite and sweep "
                      "make them");
  }
  std::sort(found.runs.begin(), found.runs.end());
  std::sort(found.suites.begin(), found.suites.end());
  return found;
}

std::string folder_above(const std::string& path) {
  const std::size_t end = path.rfind('/');
  return end == std::string::npos ? "" : path.substr(0, end);
}

std::string suite_record_file(const std::string& folder) {
  std::error_code error;
  for (const char* name : kSuiteRecords) {
    if (fs::exists(folder + name, error)) return folder + name;
  }
  return "";
}

}  // namespace attnlab
