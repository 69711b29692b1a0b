#include "framework/experiment/installed.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "framework/base/files.h"
#include "framework/config/compose.h"
#include "framework/experiment/identity.h"

namespace attnlab {

namespace fs = std::filesystem;

std::optional<InstalledFrom> installed_from(const std::string& library) {
  std::error_code error;
  const fs::path file = fs::canonical(library, error);
  const std::string record = (file.parent_path() / "record.json").string();
  const bool bundled = !error && fs::exists(file.parent_path() / "bundle.attnlab", error);
  if (!bundled || !fs::exists(record, error)) return std::nullopt;
  try {
    const auto in = nlohmann::json::parse(read_text(record));
    return InstalledFrom{in.at("id"), in.at("version"), in.at("bundle"), in.at("key"),
                         in.at("library_hash")};
  } catch (const nlohmann::json::exception& damage) {
    throw PluginError(fmt::format("{}: damaged: {}; remove the plugin and install it again", record,
                                  damage.what()));
  }
}

namespace {

/// `unsigned: refuse` in ~/.config/attnlab/policy.yaml, which may be newer than what is installed.
bool unsigned_are_refused() {
  const char* const home = std::getenv("HOME");
  const std::string path =
      std::string(home == nullptr ? "" : home) + "/.config/attnlab/policy.yaml";
  std::error_code error;
  if (home == nullptr || !fs::exists(path, error)) return false;
  const Node policy = parse_yaml(read_text(path), path);
  const Node* const rule = policy.find("unsigned");
  return rule != nullptr && rule->as_string() == "refuse";
}

}  // namespace

void check_installed(const std::string& library) {
  const std::optional<InstalledFrom> from = installed_from(library);
  if (!from) return;
  if (from->key.empty() && unsigned_are_refused()) {
    throw PluginError(
        fmt::format("{}: is not signed, and ~/.config/attnlab/policy.yaml refuses what "
                    "is not; install a signed {}, or change the policy",
                    library, from->id));
  }
  if (from->library_hash == file_hash(library)) return;
  throw PluginError(fmt::format(
      "{}: was altered since it was installed as {} {}; it is not loaded. Remove it and install it "
      "again: attnlab plugin remove {}",
      library, from->id, from->version, from->id));
}

}  // namespace attnlab
