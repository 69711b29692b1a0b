// Hands a subcommand to the sharing library, which brings libarchive and libsodium with it.
#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

#include "framework/manifest/discovery.h"
#include "runner/sharing_command.h"

namespace attnlab {

int sharing_command(const std::string& command, const Words& words) {
  const std::string path = Installation::of_this_program().root + "/lib/attnlab/attnlab_sharing.so";
  if (!std::filesystem::exists(path)) {
    throw ConfigError(fmt::format(
        "'attnlab {}' is not part of this attnlab: it was built without libarchive, libsodium or "
        "libcurl. Install libarchive-dev, libsodium-dev and libcurl4-openssl-dev, then build again",
        command));
  }
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw PluginError("cannot load " + std::string(::dlerror()));
  using Entry = int(const std::string&, const Words&);
  auto* const entry = reinterpret_cast<Entry*>(::dlsym(library, "attnlab_sharing"));
  if (entry == nullptr) throw PluginError(path + ": is of another attnlab; install it again");
  return entry(command, words);
}

}  // namespace attnlab
