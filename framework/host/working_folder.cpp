#include "framework/host/working_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>

#include "framework/base/error.h"

namespace attnlab {

WorkingFolder::WorkingFolder() {
  std::error_code error;
  path_ = std::filesystem::current_path(error).string();
  struct stat here {};
  ::stat(".", &here);
  device_ = here.st_dev;
  file_ = here.st_ino;
}

bool WorkingFolder::is_here() const noexcept {
  struct stat here {};
  return ::stat(".", &here) == 0 && here.st_dev == device_ && here.st_ino == file_;
}

void WorkingFolder::go_back() const noexcept {
  std::error_code ignored;
  if (!is_here()) std::filesystem::current_path(path_, ignored);
}

void WorkingFolder::check(const std::string& what) const {
  if (is_here()) return;
  std::error_code error;
  const std::string other = std::filesystem::current_path(error).string();
  std::filesystem::current_path(path_, error);
  if (error) {
    throw FileError(fmt::format("{}: cannot go back to this folder: {}", path_, error.message()));
  }
  throw PluginError(
      fmt::format("{} changed the working folder to {}, where results do not belong; a plugin must "
                  "leave it alone (attnlab plugin test finds which does)",
                  what, other));
}

}  // namespace attnlab
