#include "framework/manifest/python_plugin.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/parsed_json.h"
#include "framework/base/sha256.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::uint64_t kLargestManifest = std::uint64_t{256} << 10;
/// What a packed manifest has of that which is said of a file.
constexpr const char* kKept[] = {"kind",  "version", "summary", "citation", "licence",
                                 "takes", "gives",   "needs",   "stacks",   "traits"};

/// A file, or what its link leads to.
fs::path real_file(const std::string& file) {
  std::error_code error;
  fs::path real = fs::canonical(file, error);
  return error ? fs::path(file) : real;
}

/// @param file  a Python file. @throws PluginError for anything but a complete manifest beside it.
Manifest read_manifest_beside(const std::string& file) {
  const std::string path = manifest_beside(file);
  try {
    Manifest manifest = parse_manifest(read_text(path, kLargestManifest));
    const std::string& name = manifest.python_class;
    const std::string stem = fs::path(file).stem().string();
    if (name.empty() || one_line(name) != name || name.find_first_of(":/ ") != std::string::npos) {
      throw Error("python_class is not a name of a class");
    }
    if (manifest.name != stem) {
      throw Error(fmt::format("its id is {}, its file {}.py", manifest.id, stem));
    }
    return manifest;
  } catch (const std::exception& error) {
    throw PluginError(
        fmt::format("{}: invalid manifest: {}; remove the plugin, or install it again", path,
                    one_line(error.what())));
  }
}

}  // namespace

std::string packed_manifest(const PythonFile& file, const std::string& lab) {
  const Manifest& whole = *file.candidate.manifest;
  const json said = parsed_json(whole.json);
  json out = {{"id", fmt::format("{}/{}", lab, whole.name)},
              {"options", json::array()},
              {"stamp", json::object()},
              {"python_class", said.at("class")}};
  for (const char* name : kKept) {
    if (said.contains(name)) out[name] = said.at(name);
  }
  for (const json& group : said.at("options")) {
    if (group.at("type") != "group") continue;
    for (json option : group.at("options")) {
      option.erase("place");
      out["options"].push_back(std::move(option));
    }
  }
  std::string text = out.dump(1) + "\n";
  try {
    static_cast<void>(parse_manifest(text));
  } catch (const Error& error) {
    throw PluginError(fmt::format("{}: {}; give the option another name",
                                  parse_python_name(file.candidate.path).file, error.what()));
  }
  return text;
}

std::string manifest_beside(const std::string& file) {
  return real_file(file).replace_extension(".manifest.json").string();
}

bool is_python_plugin(const std::string& file) {
  std::error_code error;
  return fs::path(file).extension() == ".py" &&
         (fs::is_symlink(file, error) || fs::exists(manifest_beside(file), error));
}

Candidate python_plugin(const std::string& file) {
  Candidate candidate;
  candidate.manifest = read_manifest_beside(file);
  candidate.path = PythonName{real_file(file).string(), candidate.manifest->python_class}.text();
  return candidate;
}

Candidate candidate_of_python(const PythonName& name) {
  std::error_code error;
  if (!fs::exists(manifest_beside(name.file), error)) return python_file(name).candidate;
  Candidate plugin = python_plugin(name.file);
  const bool another = !name.name.empty() && name.name != plugin.manifest->python_class;
  return another ? python_file(name).candidate : plugin;
}

std::string hash_of_folder(const std::string& file) {
  const fs::path folder = real_file(file).parent_path();
  std::vector<std::string> lines;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    const fs::file_status status = at->symlink_status();
    if (fs::is_directory(status)) continue;
    const std::string path = at->path().string();
    // A link is none of those that were installed.
    lines.push_back(path.substr(folder.string().size() + 1) + '\0' +
                    (fs::is_regular_file(status) ? sha256_text_of_file(path) : "") + '\n');
  }
  if (error) {
    throw FileError(fmt::format("{}: cannot be read: {}", folder.string(), error.message()));
  }
  std::sort(lines.begin(), lines.end());
  std::string all;
  for (const std::string& line : lines) all += line;
  return sha256_text(all);
}

}  // namespace attnlab
