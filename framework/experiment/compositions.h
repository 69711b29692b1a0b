// Files of compositions, found by their names: experiments, suites, attentions, maps.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace attnlab {

/// Files of the compositions in FOLDER of `config_folders()` and below, by name; the first folder
/// that has a name gives it. @param folder  "experiments" or "suites"
std::map<std::string, std::vector<std::string>> compositions(const std::string& folder);

/// Finds a composition by path, or by name ("vit_small" in configs/experiments/**).
/// @param folder  "experiments" or "suites"
/// @throws ConfigError listing near names.
std::string find_composition(const std::string& path_or_name, const std::string& folder);

}  // namespace attnlab
