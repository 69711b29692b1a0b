#include "framework/sharing/places.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "framework/base/error.h"

namespace attnlab::sharing {

namespace fs = std::filesystem;

Places Places::of_this_user() {
  const char* const home = std::getenv("HOME");
  if (home == nullptr || home[0] != '/') {
    throw ConfigError("$HOME is not set to a folder; keys and plugins are kept below it");
  }
  return {std::string(home) + "/.config/attnlab", std::string(home) + "/.local/share/attnlab"};
}

void make_folder(const std::string& path, bool secret) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error || !fs::is_directory(path)) {
    throw FileError(fmt::format("{}: cannot make the folder: {}; check permissions and free space",
                                path, error ? error.message() : "something else is there"));
  }
  if (secret) fs::permissions(path, fs::perms::owner_all, error);
}

}  // namespace attnlab::sharing
