#include "framework/base/installation.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "framework/base/error.h"

namespace attnlab {

namespace fs = std::filesystem;

namespace {

constexpr const char* kCoreLibrary = "/lib/libattnlab_core.so";

/// The file that this code was loaded from, the core library; empty where that is not known.
fs::path running_library() {
  Dl_info found{};
  std::error_code error;
  if (::dladdr(kCoreLibrary, &found) == 0 || found.dli_fname == nullptr) return {};
  const fs::path file = fs::canonical(found.dli_fname, error);
  return error ? fs::path() : file;
}

/// Whether an installation has another core library than the one that runs: a Python below /usr
/// may have loaded that of a build while /usr has attnlab, too.
bool is_another(const Installation& candidate, const fs::path& running) {
  const std::string core = candidate.root + kCoreLibrary;
  std::error_code error;
  return running.filename().string().rfind("libattnlab_core", 0) == 0 && fs::exists(core, error) &&
         !fs::equivalent(core, running, error) && !error;
}

}  // namespace

Installation Installation::of_this_program() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) throw Error("cannot find this program's own path: " + error.message());
  const fs::path running = running_library();
  // Programs stand in bin/ (tests below it too): the nearest ancestor that has the library.
  for (fs::path folder = program.parent_path(); folder.has_relative_path();
       folder = folder.parent_path()) {
    Installation candidate{folder.string()};
    if (fs::exists(candidate.library(), error) && !is_another(candidate, running)) return candidate;
  }
  // A Python that has loaded the libraries stands elsewhere: they lie in lib/.
  Installation own{running.parent_path().parent_path().string()};
  if (!running.empty() && fs::exists(own.library(), error)) return own;
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
