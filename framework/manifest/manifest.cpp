#include "framework/manifest/manifest.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "framework/base/foreign_text.h"
#include "framework/base/parsed_json.h"
#include "framework/base/text.h"
#include "framework/manifest/elf.h"
#include "framework/manifest/presets.h"
#include "framework/manifest/python_plugin.h"
#include "framework/manifest/schema_json.h"

namespace attnlab {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestId = 100;

Kind parse_kind(const std::string& name) {
  std::vector<std::string> names;
  for (const Kind kind : {Kind::attention, Kind::model, Kind::task, Kind::dataset}) {
    if (name == name_of(kind)) return kind;
    names.emplace_back(name_of(kind));
  }
  throw Error(fmt::format("unknown kind '{}'{}", name, suggestion(name, names)));
}

Stamp parse_stamp(const json& object) {
  Stamp stamp;
  for (const auto& [field, value] : object.items()) {
    stamp[field] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  return stamp;
}

/// Names of fields and traits are shown, and are looked up letter by letter.
void check_name(const char* field, const std::string& name) {
  if (one_line(name, kLongestId) == name) return;
  throw Error(fmt::format("{}: '{}' cannot be a name", field, one_line(name, kLongestId)));
}

std::vector<std::string> names_in(const json& root, const char* field) {
  auto names = root.at(field).get<std::vector<std::string>>();
  for (const std::string& name : names) check_name(field, name);
  return names;
}

}  // namespace

Manifest parse_manifest(const std::string& text) {
  const json root = parsed_json(text);
  Manifest manifest;
  manifest.json = text;
  manifest.id = root.at("id").get<std::string>();
  const std::size_t slash = manifest.id.find('/');
  if (slash == 0 || slash == std::string::npos || slash + 1 == manifest.id.size() ||
      manifest.id.find('/', slash + 1) != std::string::npos) {
    throw Error(fmt::format("id '{}' is not of the form lab/name", manifest.id));
  }
  manifest.name = manifest.id.substr(slash + 1);
  if (one_line(manifest.id, kLongestId) != manifest.id) {
    throw Error(fmt::format("id '{}' is too long or has characters that cannot be shown",
                            one_line(manifest.id, kLongestId)));
  }
  if (manifest.name == "." || manifest.name == "..") {  // it becomes the name of a folder
    throw Error(fmt::format("id '{}' ends in no name", manifest.id));
  }
  manifest.kind = parse_kind(root.at("kind").get<std::string>());
  const auto line = [&](const char* field) { return one_line(root.at(field).get<std::string>()); };
  manifest.version = line("version");
  manifest.summary = line("summary");
  manifest.citation = line("citation");
  manifest.licence = line("licence");
  manifest.takes = names_in(root, "takes");
  manifest.gives = names_in(root, "gives");
  manifest.needs = names_in(root, "needs");
  if (root.contains("stacks")) manifest.stacks = names_in(root, "stacks");  // of models
  if (manifest.kind == Kind::attention) {
    manifest.traits = root.at("traits").get<std::map<std::string, bool>>();
    for (const auto& [trait, honoured] : manifest.traits) check_name("traits", trait);
  }
  // Not in attentions and datasets, nor in tasks of earlier contracts, which the stamp refuses.
  manifest.ensemble = root.value("ensemble", false);
  manifest.recompute = root.value("recompute", false);  // of models
  manifest.options = schema_from(root.at("options"));
  for (const OptionSpec& option : manifest.options) {
    const bool own = manifest.kind == Kind::attention &&
                     (option.name == "as" || option.name == "layers" ||
                      option.name == "projection" || option.name == "positions");
    if (option.name != "use" && !own) continue;
    throw Error(fmt::format("'{}' cannot be the name of an option: it chooses the plugin itself",
                            option.name));
  }
  manifest.stamp = parse_stamp(root.at("stamp"));
  manifest.python_class = root.value("python_class", "");
  return manifest;
}

Manifest read_manifest(const std::string& path) {
  if (is_python_name(path)) return *candidate_of_python(parse_python_name(path)).manifest;
  constexpr const char* kRemedy = "; rebuild it with attnlab_add_plugin(), or remove the file";
  std::vector<std::optional<std::string>> texts;
  try {
    texts = read_elf_sections(path, {kManifestSection, kSdkSection, kPresetsSection});
  } catch (const PluginError& error) {
    throw PluginError(error.what() + std::string(kRemedy));
  }
  try {
    Manifest manifest = parse_manifest(*texts[0]);
    manifest.python_class.clear();  // whatever it says, its stamp counts
    if (texts[1]) manifest.stamp["sdk"] = *texts[1];
    if (texts[2]) add_presets(*texts[2], manifest.options);
    return manifest;
  } catch (const std::exception& error) {
    throw PluginError(
        fmt::format("{}: invalid manifest: {}{}", path, one_line(error.what()), kRemedy));
  }
}

Stamp read_stamp(const std::string& path) {
  try {
    Stamp stamp = parse_stamp(parsed_json(read_elf_section(path, kStampSection)));
    if (const auto sdk = find_elf_section(path, kSdkSection)) stamp["sdk"] = *sdk;
    return stamp;
  } catch (const json::exception& error) {
    throw PluginError(fmt::format("{}: invalid build stamp: {}", path, one_line(error.what())));
  }
}

std::vector<std::string> stamp_differences(const Stamp& expected, const Stamp& found) {
  const auto value_of = [](const Stamp& stamp, const std::string& field) -> std::string {
    const auto entry = stamp.find(field);
    if (entry == stamp.end()) return "nothing";
    return entry->second.empty() ? "none" : entry->second;
  };
  Stamp all = expected;
  all.insert(found.begin(), found.end());
  std::vector<std::string> differences;
  for (const auto& [field, unused] : all) {
    const std::string want = value_of(expected, field);
    const std::string have = value_of(found, field);
    if (want == have) continue;  // whole: what is shown may be cut
    differences.push_back(fmt::format("{}: expected {}, found {}", one_line(field, kLongestId),
                                      one_line(want), one_line(have)));
  }
  return differences;
}

std::vector<std::string> stamp_differences(const Stamp& host, const Manifest& plugin) {
  if (!plugin.python_class.empty()) return {};
  return stamp_differences(host, plugin.stamp);
}

}  // namespace attnlab
