#include "framework/experiment/installed.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "framework/base/files.h"
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

void check_installed(const std::string& library) {
  const std::optional<InstalledFrom> from = installed_from(library);
  if (!from || from->library_hash == file_hash(library)) return;
  throw PluginError(fmt::format(
      "{}: was altered since it was installed as {} {}; it is not loaded. Remove it and install it "
      "again: attnlab plugin remove {}",
      library, from->id, from->version, from->id));
}

}  // namespace attnlab
