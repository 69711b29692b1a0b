#include "framework/sharing/source_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "framework/base/files.h"

namespace attnlab::sharing {
namespace {

namespace fs = std::filesystem;

bool is_left_out(const fs::path& path, bool folder) {
  const std::string name = path.filename().string();
  if (name.empty() || name[0] == '.') return true;
  std::error_code ignored;
  if (folder) return fs::exists(path / "CMakeCache.txt", ignored) || name == "__pycache__";
  return name.ends_with(".attnlab") || name.ends_with(".minisig");
}

void collect(const fs::path& folder, const std::string& prefix, std::vector<ArchiveFile>& out) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const fs::file_status status = fs::symlink_status(entry.path(), error);
    const std::string path = prefix + entry.path().filename().string();
    if (is_left_out(entry.path(), fs::is_directory(status))) continue;
    if (fs::is_directory(status)) {
      collect(entry.path(), path + "/", out);
      continue;
    }
    if (!fs::is_regular_file(status)) {
      throw BundleError(fmt::format("{}: a link or a device; a bundle holds regular files alone",
                                    entry.path().string()));
    }
    check_path(path);
    const bool executable = (status.permissions() & fs::perms::owner_exec) != fs::perms::none;
    out.push_back({path, read_text(entry.path().string()), executable});
  }
  if (error) throw FileError(fmt::format("{}: cannot read: {}", folder.string(), error.message()));
}

bool has_file(const std::vector<ArchiveFile>& files, const std::string& name) {
  return std::any_of(files.begin(), files.end(),
                     [&](const ArchiveFile& file) { return file.path == name; });
}

/// LICENSE, LICENSE.txt, LICENSE-MIT; in the folder itself.
bool is_licence(const std::string& path) {
  constexpr std::array kNames = {"LICENSE", "LICENCE", "COPYING"};
  return path.find('/') == std::string::npos &&
         std::any_of(kNames.begin(), kNames.end(), [&](const std::string& name) {
           return path.rfind(name, 0) == 0 &&
                  (path.size() == name.size() || path[name.size()] == '.' ||
                   path[name.size()] == '-');
         });
}

}  // namespace

SourceFiles source_files(const std::string& folder) {
  if (!fs::is_directory(folder)) throw FileError(folder + ": is not a folder");
  std::vector<ArchiveFile> all;
  collect(folder, "", all);
  std::sort(all.begin(), all.end(),
            [](const ArchiveFile& a, const ArchiveFile& b) { return a.path < b.path; });
  if (!has_file(all, "CMakeLists.txt")) {
    throw BundleError(folder +
                      ": has no CMakeLists.txt; attnlab new attention NAME makes a folder "
                      "that can be packed");
  }
  if (std::none_of(all.begin(), all.end(),
                   [](const ArchiveFile& file) { return is_licence(file.path); })) {
    throw BundleError(folder +
                      ": has no licence (LICENSE, LICENCE or COPYING); without one nobody "
                      "may use it");
  }
  SourceFiles files;
  for (ArchiveFile& file : all) {
    const bool number = file.path.rfind("expected/", 0) == 0;
    (number ? files.expected : files.source).push_back(std::move(file));
  }
  return files;
}

}  // namespace attnlab::sharing
