#include "framework/manifest/discovery.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "framework/base/side_by_side.h"
#include "framework/base/text.h"
#include "framework/manifest/python_plugin.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVariable = "ATTNLAB_PLUGIN_PATH";
constexpr const char* kUser = "user";

std::vector<std::string> split_path(const char* list) {
  std::vector<std::string> parts;
  std::string rest = list == nullptr ? "" : list;
  while (!rest.empty()) {
    const std::size_t colon = rest.find(':');
    if (colon != 0) parts.push_back(rest.substr(0, colon));
    rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
  }
  return parts;
}

std::vector<std::string> sorted_entries(const std::string& folder, std::error_code& error) {
  std::vector<std::string> entries;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    entries.push_back(entry->path().string());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

Candidate candidate_at(const std::string& path) {
  Candidate candidate;
  candidate.path = path;
  return candidate;
}

/// A folder that is there and cannot be listed: its plugins are not known.
Candidate closed_folder(const std::string& path, const std::error_code& error) {
  Candidate candidate = candidate_at(path);
  candidate.refused =
      fmt::format("{}: this folder of plugins cannot be read: {}; check its permissions", path,
                  error.message());
  return candidate;
}

/// A folder that was named, and cannot be meant.
Candidate wrong_folder(const std::string& path, const std::string& why) {
  Candidate candidate = candidate_at(path);
  candidate.refused = fmt::format("{}: {}; correct {}", path, why, kVariable);
  return candidate;
}

/// Why it is not known whether a folder is there; none where it is known.
std::error_code closed_above(const std::string& path) {
  struct stat unused {};
  if (::stat(path.c_str(), &unused) == 0 || errno == ENOENT || errno == ENOTDIR) return {};
  return {errno, std::generic_category()};
}

void read_candidate(Candidate& candidate, const Stamp& host_stamp) {
  if (!candidate.refused.empty()) return;
  try {
    if (fs::path(candidate.path).extension() == ".py") {
      candidate = python_plugin(candidate.path);
      return;
    }
    candidate.manifest = read_manifest(candidate.path);
    const auto differences = stamp_differences(host_stamp, candidate.manifest->stamp);
    if (!differences.empty()) {
      candidate.refused = fmt::format("{}: was built for another host: {}; rebuild it: {}",
                                      candidate.path, join(differences, "; "),
                                      rebuild_command(Installation::of_this_program().root));
    }
  } catch (const std::exception& error) {  // of any kind: it must not leave a thread
    candidate.refused = error.what();
  }
}

/// Whether this program's build knows how to make a plugin (that is not there).
bool is_not_built(Kind kind, const std::string& name) {
  std::ifstream list(Installation::of_this_program().root + "/share/attnlab/plugins.txt");
  const std::string wanted = fmt::format("{} {}", name_of(kind), name);
  for (std::string line; std::getline(list, line);) {
    if (line == wanted) return true;
  }
  return false;
}

/// Hundreds of files are read by several threads.
void read_candidates(std::vector<Candidate>& candidates, const Stamp& host_stamp) {
  constexpr std::size_t kFilesWorthAThread = 50;
  side_by_side(candidates.size(), kFilesWorthAThread,
               [&](std::size_t i) { read_candidate(candidates[i], host_stamp); });
}

/// Whether it is a folder that could not be listed: all others without a manifest are libraries.
bool is_folder(const Candidate& candidate) {
  const fs::path ending = fs::path(candidate.path).extension();
  return !candidate.manifest && ending != ".so" && ending != ".py";
}

std::string key_of(const Manifest& manifest) {
  return fmt::format("{} '{}'", name_of(manifest.kind), manifest.name);
}

/// A refused plugin of another lab that has the name of a usable one; null: there is none. What the
/// name alone meant while that one was usable must not become this one in silence.
const Candidate* refused_namesake(const Candidate& usable,
                                  const std::vector<Candidate>& candidates) {
  const Manifest& own = *usable.manifest;
  const auto found =
      std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& other) {
        return other.manifest && other.manifest->kind == own.kind &&
               other.manifest->name == own.name && other.manifest->id != own.id;
      });
  return found == candidates.end() ? nullptr : &*found;
}

}  // namespace

std::vector<SearchPlace> search_places(const Installation& installation) {
  std::vector<SearchPlace> places;
  const auto add = [&](const std::string& folder, const std::string& why) {
    std::error_code error;
    const fs::path whole = fs::weakly_canonical(fs::absolute(folder, error), error);
    const std::string path = error ? folder : whole.string();
    const auto same = [&](const SearchPlace& place) { return place.folder == path; };
    if (std::any_of(places.begin(), places.end(), same)) return;
    places.push_back({path, why, fs::is_directory(path, error)});
  };
  for (const std::string& folder : split_path(std::getenv(kVariable))) {
    add(folder, kVariable);
  }
  add("plugins", "project");
  if (const char* home = std::getenv("HOME")) {
    add(std::string(home) + "/.local/share/attnlab/plugins", kUser);
  }
  add(installation.plugins(), "system");
  return places;
}

Catalogue::Catalogue(const std::vector<SearchPlace>& places, const Stamp& host_stamp)
    : places_(places), host_stamp_(host_stamp) {
  for (const SearchPlace& place : places_) {
    if (!place.exists) {
      const std::error_code closed = closed_above(place.folder);
      if (closed) {
        candidates_.push_back(closed_folder(place.folder, closed));
      } else if (place.why == kVariable) {
        candidates_.push_back(wrong_folder(place.folder, "there is no such folder"));
      }
      continue;
    }
    const std::size_t before = candidates_.size();
    bool has_kinds = false;
    look_into(place.folder);
    for (const Kind kind : {Kind::attention, Kind::model, Kind::task, Kind::dataset}) {
      const std::string folder = fmt::format("{}/{}", place.folder, name_of(kind));
      std::error_code error;
      has_kinds = has_kinds || fs::is_directory(folder, error);
      look_into(folder);
    }
    std::error_code error;
    if (place.why == kVariable && !has_kinds && candidates_.size() == before &&
        !fs::is_empty(place.folder, error)) {
      candidates_.push_back(wrong_folder(
          place.folder, "this folder holds no plugins, nor attention/, model/, task/ or dataset/"));
    }
  }
  read_candidates(candidates_, host_stamp_);
  take_places_of_installed();
  refuse_duplicates();
}

Catalogue Catalogue::of_this_program() {
  const Installation installation = Installation::of_this_program();
  return Catalogue(search_places(installation), read_stamp(installation.library()));
}

Catalogue Catalogue::of_file(const std::string& path) {
  Catalogue catalogue({}, read_stamp(Installation::of_this_program().library()));
  if (is_python_name(path)) {
    catalogue.candidates_.push_back(candidate_of_python(parse_python_name(path)));
    return catalogue;
  }
  catalogue.candidates_.push_back(candidate_at(fs::absolute(path).string()));
  read_candidates(catalogue.candidates_, catalogue.host_stamp_);
  const Candidate& only = catalogue.candidates_.front();
  if (!only.refused.empty()) throw PluginError(only.refused);
  return catalogue;
}

Catalogue Catalogue::with_file(const std::string& path) {
  Catalogue catalogue = of_this_program();
  const Candidate own = of_file(path).candidates_.front();
  std::erase_if(catalogue.candidates_, [&](const Candidate& other) {
    return other.manifest && key_of(*other.manifest) == key_of(*own.manifest);
  });
  catalogue.candidates_.push_back(own);
  return catalogue;
}

void Catalogue::look_into(const std::string& folder) {
  std::error_code error, unknown;
  const std::vector<std::string> entries = sorted_entries(folder, error);
  if (error && fs::is_directory(folder, unknown)) {
    candidates_.push_back(closed_folder(folder, error));
  }
  for (const std::string& path : entries) {
    if (fs::path(path).extension() != ".so" && !is_python_plugin(path)) continue;
    struct stat file {};
    if (::stat(path.c_str(), &file) == 0 && !files_.emplace(file.st_dev, file.st_ino).second)
      continue;
    candidates_.push_back(candidate_at(path));
  }
}

void Catalogue::take_places_of_installed() {
  const auto lies_in = [&](const Candidate& candidate, const std::string& why) {
    return std::any_of(places_.begin(), places_.end(), [&](const SearchPlace& place) {
      return place.why == why && candidate.path.starts_with(place.folder + "/");
    });
  };
  const auto is_usable_in = [&](const Candidate& candidate, const std::string& why) {
    return candidate.refused.empty() && lies_in(candidate, why);
  };
  std::vector<Candidate*> named;
  for (Candidate& candidate : candidates_) {
    if (is_usable_in(candidate, kVariable) && !lies_in(candidate, kUser)) {
      named.push_back(&candidate);
    }
  }
  std::set<std::string> replaced;
  for (const Candidate& installed : candidates_) {
    if (named.empty() || !is_usable_in(installed, kUser)) continue;
    for (Candidate* const own : named) {
      const bool same = own->manifest->kind == installed.manifest->kind &&
                        own->manifest->id == installed.manifest->id;
      if (!same || own == &installed) continue;
      own->instead_of = installed.path;
      replaced.insert(installed.path);
    }
  }
  std::erase_if(candidates_, [&](const Candidate& one) { return replaced.count(one.path) > 0; });
}

void Catalogue::refuse_duplicates() {
  std::map<std::string, std::vector<Candidate*>> by_name;
  for (Candidate& candidate : candidates_) {
    if (candidate.refused.empty()) by_name[key_of(*candidate.manifest)].push_back(&candidate);
  }
  for (const auto& [name, files] : by_name) {
    if (files.size() < 2) continue;
    std::vector<std::string> paths;
    for (const Candidate* file : files) paths.push_back(file->path);
    for (Candidate* file : files) {
      file->refused =
          fmt::format("{}: {} is provided by more than one file: {}; remove or rename one of them",
                      file->path, name, join(paths, " and "));
    }
  }
}

std::vector<const Candidate*> Catalogue::usable(Kind kind) const {
  std::vector<const Candidate*> found;
  for (const Candidate& candidate : candidates_) {
    if (candidate.refused.empty() && candidate.manifest->kind == kind) found.push_back(&candidate);
  }
  std::sort(found.begin(), found.end(), [](const Candidate* a, const Candidate* b) {
    return a->manifest->name < b->manifest->name;
  });
  return found;
}

std::vector<std::string> Catalogue::names(Kind kind) const {
  std::vector<std::string> names;
  for (const Candidate* candidate : usable(kind)) {
    const bool ambiguous = refused_namesake(*candidate, candidates_) != nullptr;
    names.push_back(ambiguous ? candidate->manifest->id : candidate->manifest->name);
  }
  return names;
}

void Catalogue::refuse(const std::function<std::string(const Candidate&)>& why_not) {
  for (Candidate& candidate : candidates_) {
    if (candidate.refused.empty()) candidate.refused = why_not(candidate);
  }
}

const Candidate& Catalogue::find(Kind kind, const std::string& name) const {
  if (is_python_name(name)) {
    if (kind != Kind::task) return python_file(parse_python_name(name), kind).candidate;
    throw PluginError(name +
                      ": a task cannot be a Python file; models, datasets and attentions can");
  }
  const auto called = [&](const Candidate& candidate) {
    return candidate.manifest && candidate.manifest->kind == kind &&
           (candidate.manifest->name == name || candidate.manifest->id == name);
  };
  const Candidate* usable = nullptr;
  const Candidate* refused = nullptr;
  for (const Candidate& candidate : candidates_) {
    if (called(candidate)) (candidate.refused.empty() ? usable : refused) = &candidate;
  }
  if (usable != nullptr) {
    const Manifest& own = *usable->manifest;
    const Candidate* const other =
        own.name == name ? refused_namesake(*usable, candidates_) : nullptr;
    if (other == nullptr) return *usable;
    throw PluginError(fmt::format(
        "{0} may be {1} or {2}, and {2} is refused: {3}; to use {1} ({4}), write {1}, or remove or "
        "rename the file of {2}",
        key_of(own), own.id, other->manifest->id, other->refused, usable->path));
  }
  if (refused != nullptr) throw PluginError(refused->refused);
  // A file of that name without a readable manifest is the likely culprit.
  for (const Candidate& candidate : candidates_) {
    if (!candidate.manifest && !is_folder(candidate) && fs::path(candidate.path).stem() == name) {
      throw PluginError(candidate.refused);
    }
  }
  if (is_not_built(kind, name)) {
    throw PluginError(
        fmt::format("there is no {} '{}': it is not built; build all plugins (make build)",
                    name_of(kind), name));
  }
  const std::vector<std::string> known = names(kind);
  std::string message =
      fmt::format("there is no {} '{}'{}", name_of(kind), name, suggestion(name, known));
  if (known.empty()) message += "; no plugin of this kind was found";
  for (const Candidate& candidate : candidates_) {
    if (is_folder(candidate)) message += "; " + candidate.refused;
  }
  throw PluginError(message + " (attnlab list --explain shows where was looked)");
}

std::string rebuild_command(const std::string& installation_root) {
  return fmt::format("cmake -S SOURCE -B BUILD -DCMAKE_PREFIX_PATH={} && cmake --build BUILD",
                     installation_root);
}

}  // namespace attnlab
