#include "framework/runs/run_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "framework/base/error.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

/// Whether the folder is a run's; its own folders are not searched then.
bool look_into(const fs::path& path, FoundFolders& found) {
  std::error_code error;
  if (!suite_record_file(path.string()).empty()) found.suites.push_back(path.string());
  if (!fs::exists(path / "config.yaml", error)) return false;
  found.runs.push_back(path.string());
  return true;
}

void search_below(const fs::path& path, FoundFolders& found) {
  if (look_into(path, found)) return;
  std::error_code error;
  fs::directory_iterator entries(path, error);
  while (!error && entries != fs::directory_iterator()) {
    std::error_code unknown;
    if (entries->is_directory(unknown)) {
      // A link is looked at and not followed further: it may lead in a circle.
      entries->is_symlink(unknown) ? void(look_into(entries->path(), found))
                                   : search_below(entries->path(), found);
    }
    entries.increment(error);
  }
  if (error) found.unreadable.push_back({path.string(), error.message()});
}

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
  FoundFolders found;
  search_below(top, found);
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
