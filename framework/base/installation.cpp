#include "framework/base/installation.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "framework/base/error.h"

namespace attnlab {

namespace fs = std::filesystem;

Installation Installation::of_this_program() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) throw Error("cannot find this program's own path: " + error.message());
  // Programs stand in bin/ (tests below it too): the nearest ancestor that has the library.
  for (fs::path folder = program.parent_path(); folder.has_relative_path();
       folder = folder.parent_path()) {
    Installation candidate{folder.string()};
    if (fs::exists(candidate.library(), error)) return candidate;
  }
  throw Error(fmt::format(
      "{}: cannot find lib/libattnlab.so beside this program's folder; install attnlab again",
      program.string()));
}

std::vector<std::string> config_folders() {
  std::vector<std::string> folders = {"configs"};
  if (const char* home = std::getenv("HOME")) {
    folders.push_back(std::string(home) + "/.local/share/attnlab/configs");
  }
  folders.push_back(Installation::of_this_program().configs());
  return folders;
}

}  // namespace attnlab
