// attnlab list: the plugins that there are, from their manifests alone.
#include <fmt/format.h>
#include <cstdio>
#include <iostream>

#include "framework/base/foreign_text.h"
#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/experiment/installed.h"
#include "runner/commands.h"
#include "runner/sharing_command.h"

namespace attnlab {
namespace {

constexpr Kind kKinds[] = {Kind::attention, Kind::model, Kind::task, Kind::dataset};

std::vector<Kind> kinds_of(const Words& words) {
  if (words.empty()) return {std::begin(kKinds), std::end(kKinds)};
  std::vector<std::string> names;
  for (const Kind kind : kKinds) {
    names.emplace_back(name_of(kind));
    if (words[0] == names.back() || words[0] == names.back() + "s") return {kind};
  }
  throw ConfigError(fmt::format("unknown kind '{}'{}", words[0], suggestion(words[0], names)));
}

bool wanted(const Candidate& candidate, const std::vector<Kind>& kinds) {
  if (!candidate.manifest) return kinds.size() > 1;
  return std::find(kinds.begin(), kinds.end(), candidate.manifest->kind) != kinds.end();
}

void print_json(const Catalogue& catalogue, const std::vector<Kind>& kinds) {
  nlohmann::json out = {{"plugins", nlohmann::json::array()}, {"refused", nlohmann::json::array()}};
  for (const Candidate& candidate : catalogue.candidates()) {
    if (!wanted(candidate, kinds)) continue;
    if (!candidate.refused.empty()) {
      out["refused"].push_back({{"path", candidate.path}, {"reason", candidate.refused}});
      continue;
    }
    nlohmann::json manifest = nlohmann::json::parse(candidate.manifest->json);
    manifest["path"] = candidate.path;
    manifest["name"] = candidate.manifest->name;
    out["plugins"].push_back(std::move(manifest));
  }
  std::cout << json_text(out);
}

void print_kind(const Catalogue& catalogue, Kind kind) {
  const auto plugins = catalogue.usable(kind);
  std::cout << name_of(kind) << (plugins.empty() ? ": none\n" : "\n");
  std::size_t width = 0;
  for (const Candidate* plugin : plugins) width = std::max(width, plugin->manifest->name.size());
  for (const Candidate* plugin : plugins) {
    const Manifest& manifest = *plugin->manifest;
    std::cout << "  " << manifest.name << std::string(width - manifest.name.size() + 2, ' ')
              << manifest.summary << "\n";
  }
}

/// Whose place a plugin under development has.
std::string place_taken(const Candidate& candidate) {
  return candidate.instead_of.empty() ? "" : ", instead of " + candidate.instead_of;
}

void print_explanation(const Catalogue& catalogue) {
  const auto shown = [](const std::string& text) { return one_line(text, kLongestMessageLine); };
  std::cout << "\nSearched, in this order:\n";
  for (const SearchPlace& place : catalogue.places()) {
    std::cout << "  " << shown(place.folder) << " (" << place.why << ")"
              << (place.exists ? "" : ": no such folder") << "\n";
    for (const Candidate& candidate : catalogue.candidates()) {
      const bool itself = candidate.path == place.folder;  // which could not be read
      if (!itself && candidate.path.rfind(place.folder + "/", 0) != 0) continue;
      if (candidate.refused.empty()) {
        std::cout << "    taken    " << shown(candidate.path) << " (" << candidate.manifest->id
                  << " " << candidate.manifest->version << ")" << shown(place_taken(candidate))
                  << "\n";
      } else {
        std::cout << "    refused  " << shown(candidate.refused) << "\n";
      }
    }
  }
}

}  // namespace

int list_command(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab list [attention|model|task|dataset] [--json] [--explain] [--installed]";
  usage.about = "Lists plugins. Reads their manifests only; no plugin code runs.";
  usage.options.add_options()("json", "whole manifests as JSON")(
      "explain",
      "show every folder and file that was searched, and why it was accepted or refused")(
      "installed", "plugins that attnlab plugin install installed: versions, keys, problems");
  usage.most_words = 1;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  if (arguments.has("installed")) return sharing_command("list installed", words);
  const std::vector<Kind> kinds = kinds_of(arguments.words);
  const Catalogue catalogue = catalogue_of_installed();
  if (arguments.has("json")) {
    print_json(catalogue, kinds);
    return kDone;
  }
  for (const Kind kind : kinds) print_kind(catalogue, kind);
  if (arguments.has("explain")) {
    print_explanation(catalogue);
    return kDone;
  }
  for (const Candidate& candidate : catalogue.candidates()) {
    if (!candidate.refused.empty() && wanted(candidate, kinds)) {
      std::cerr << "refused: " << one_line(candidate.refused, kLongestMessageLine) << "\n";
    }
    if (!candidate.instead_of.empty() && wanted(candidate, kinds)) {
      std::cerr << "note: "
                << one_line(candidate.path + place_taken(candidate), kLongestMessageLine) << "\n";
    }
  }
  return kDone;
}

}  // namespace attnlab
