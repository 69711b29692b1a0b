#include "framework/experiment/compositions.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "framework/base/error.h"
#include "framework/base/installation.h"
#include "framework/base/text.h"

namespace attnlab {

namespace fs = std::filesystem;

std::map<std::string, std::vector<std::string>> compositions(const std::string& folder) {
  std::map<std::string, std::vector<std::string>> all;
  for (const std::string& root : config_folders()) {
    std::map<std::string, std::vector<std::string>> here;
    std::error_code error;
    for (const auto& entry :
         fs::recursive_directory_iterator(fmt::format("{}/{}", root, folder), error)) {
      if (entry.path().extension() != ".yaml") continue;
      here[entry.path().stem().string()].push_back(entry.path().string());
    }
    all.merge(here);  // what an earlier folder has stays
  }
  for (auto& [name, files] : all) std::sort(files.begin(), files.end());
  return all;
}

namespace {

/// What somebody may have meant by a name that is nowhere in `folder`.
/// @param near  what is said where no other kind has the name
std::string other_kind(const std::string& name, const std::string& folder,
                       const std::string& near) {
  for (const auto& [other, command] : {std::pair{"experiments", "run"}, {"suites", "suite"}}) {
    if (other == folder || !compositions(other).contains(name)) continue;
    return fmt::format("; {} has one: attnlab {} {}", other, command, name);
  }
  return near;
}

}  // namespace

std::string find_composition(const std::string& path_or_name, const std::string& folder) {
  std::error_code error;
  const bool is_path =
      path_or_name.find('/') != std::string::npos || fs::path(path_or_name).extension() == ".yaml";
  // A folder here may by chance be called like a composition.
  const bool is_there = fs::exists(path_or_name, error);
  if (is_there && (is_path || !fs::is_directory(path_or_name, error))) return path_or_name;
  if (is_path) throw ConfigError(Place{path_or_name, 0, 0}, "there is no such file");
  const auto all = compositions(folder);
  const auto named = all.find(path_or_name);
  if (named == all.end()) {
    std::vector<std::string> names;
    names.reserve(all.size());
    for (const auto& [name, files] : all) names.push_back(name);
    throw ConfigError(
        Place{path_or_name, 0, 0},
        fmt::format("there is no such file, and no composition of that name in "
                    "{0} of {1}{2}",
                    folder, join(config_folders(), ", "),
                    other_kind(path_or_name, folder, suggestion(path_or_name, names))));
  }
  const std::vector<std::string>& found = named->second;
  if (found.size() > 1) {
    throw ConfigError(
        Place{path_or_name, 0, 0},
        fmt::format("the name stands for several files: {}; give the path", join(found, ", ")));
  }
  return found.front();
}

}  // namespace attnlab
