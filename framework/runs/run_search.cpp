#include "framework/runs/run_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>
#include <utility>

#include "framework/base/error.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

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
    below(top_, top_);
    // Links come last: what lies here itself has its own path.
    while (!links_.empty()) {
      const fs::path link = *links_.begin();
      links_.erase(links_.begin());
      follow(link);
    }
    return std::move(found_);
  }

 private:
  /// Whether the folder is a run's; its own folders are not searched then.
  bool look_into(const fs::path& path) {
    std::error_code error;
    if (!suite_record_file(path.string()).empty()) found_.suites.push_back(path.string());
    if (!fs::exists(path / "config.yaml", error)) return false;
    found_.runs.push_back(path.string());
    return true;
  }

  /// @param real  the same without links
  void below(const fs::path& path, const fs::path& real) {
    if (!seen_.insert(real.string()).second || look_into(path)) return;
    std::error_code error;
    fs::directory_iterator entries(path, error);
    while (!error && entries != fs::directory_iterator()) {
      std::error_code unknown;
      if (entries->is_symlink(unknown)) {
        links_.insert(entries->path());
      } else if (entries->is_directory(unknown)) {
        below(entries->path(), real / entries->path().filename());
      }
      entries.increment(error);
    }
    if (error) found_.unreadable.push_back({path.string(), error.message()});
  }

  void follow(const fs::path& link) {
    std::error_code error;
    const fs::path real = fs::canonical(link, error);
    if (error) {
      const Unreadable lost{link.string(), "the link cannot be followed: " + error.message()};
      if (lost.cell()) found_.unreadable.push_back(lost);  // other files than runs may be links
    }
    if (error || is_above(real, top_) || !fs::is_directory(real, error)) return;
    below(link, real);
  }

  fs::path top_;
  FoundFolders found_;
  std::set<std::string> seen_;
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

std::string suite_record_file(const std::string& folder) {
  std::error_code error;
  for (const char* name : {"/suite.json", "/table.json"}) {
    if (fs::exists(folder + name, error)) return folder + name;
  }
  return "";
}

}  // namespace attnlab
