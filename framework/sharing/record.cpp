// record.json of an installed plugin, and whether all is still as it says.
#include <fmt/format.h>

#include "framework/base/files.h"
#include "framework/base/parsed_json.h"
#include "framework/experiment/installed.h"
#include "framework/sharing/store.h"

namespace attnlab::sharing {

using nlohmann::json;

Installed read_record(const std::string& folder) {
  const std::string path = folder + "/record.json";
  try {
    const json in = parsed_json_file(path);
    Installed one;
    one.folder = folder;
    one.id = parse_id(in.at("id"));
    one.kind = in.at("kind");
    one.version = in.at("version");
    one.bundle = in.at("bundle");
    one.library_hash = in.at("library_hash");
    one.key = in.at("key");
    one.replaces = in.at("replaces");
    one.built = in.at("built");
    one.kit = in.at("kit");
    one.date = in.at("date");
    one.for_now = in.value("for_now", false);
    return one;
  } catch (const json::exception& damage) {
    throw BundleError(fmt::format("{}: damaged: {}; remove the plugin and install it again", path,
                                  damage.what()));
  } catch (const BundleError& damage) {
    throw BundleError(fmt::format("{}: {}", path, damage.what()));
  }
}

void write_record(const Installed& one) {
  json out = {{"format", 1},          {"id", one.id.str()},
              {"kind", one.kind},     {"version", one.version},
              {"bundle", one.bundle}, {"library_hash", one.library_hash},
              {"key", one.key},       {"replaces", one.replaces},
              {"built", one.built},   {"kit", one.kit},
              {"date", one.date}};
  if (one.for_now) out["for_now"] = true;
  write_file(one.folder + "/record.json", out.dump(1) + "\n");
}

std::string damage_of(const Installed& one) {
  if (!one.problem.empty()) return one.problem;
  try {
    if (installed_hash(one.library()) != one.library_hash) {
      return one.library() + ": was altered";
    }
    const Bundle bundle = read_bundle(one.bundle_file());
    if (bundle.sha256 != one.bundle) return one.bundle_file() + ": was altered";
    if (bundle.contents.id != one.id || bundle.contents.version != one.version) {
      return one.folder + "/record.json: is of another bundle";
    }
    const std::string key = bundle.signer ? bundle.signer->key.id_text() : "";
    return key == one.key ? "" : one.bundle_file() + ": is signed by another key";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace attnlab::sharing
