// attnlab describe ID: one plugin's manifest, for people or as JSON.
#include <iostream>
#include <nlohmann/json.hpp>

#include "framework/base/text.h"
#include "framework/manifest/discovery.h"
#include "runner/commands.h"

namespace attnlab {
namespace {

/// Finds by "quest", "attnlab/quest" or "attention/quest".
const Candidate& find_any(const Catalogue& catalogue, const std::string& word) {
  std::vector<const Candidate*> found;
  std::vector<std::string> names;
  for (const Kind kind : {Kind::attention, Kind::model, Kind::task, Kind::dataset}) {
    const std::string prefix = std::string(name_of(kind)) + "/";
    for (const Candidate* plugin : catalogue.usable(kind)) {
      const Manifest& manifest = *plugin->manifest;
      names.push_back(manifest.name);
      if (word == manifest.name || word == manifest.id || word == prefix + manifest.name) {
        found.push_back(plugin);
      }
    }
  }
  if (found.size() == 1) return *found.front();
  if (found.size() > 1) {
    throw PluginError("'" + word + "' is the name of several plugins; write " +
                      std::string(name_of(found[0]->manifest->kind)) + "/" + word + " or " +
                      std::string(name_of(found[1]->manifest->kind)) + "/" + word);
  }
  for (const Candidate& candidate : catalogue.candidates()) {
    if (!candidate.refused.empty() &&
        candidate.path.find("/" + word + ".so") != std::string::npos) {
      throw PluginError(candidate.refused);
    }
  }
  throw PluginError("there is no plugin '" + word + "'" + suggestion(word, names));
}

void print_options(const Schema& options, const std::string& indent) {
  for (const OptionSpec& option : options) {
    std::cout << indent << option.name << " (" << option.type_text();
    if (option.required) {
      std::cout << ", must be given";
    } else if (!option.holds_options()) {
      std::cout << ", default " << to_flow(option.default_value);
    }
    std::cout << ")\n" << indent << "    " << option.help << "\n";
    print_options(option.options, indent + "  ");
  }
}

void print_names(const char* label, const std::vector<std::string>& names) {
  if (!names.empty()) std::cout << label << join(names, ", ") << "\n";
}

void print(const Candidate& plugin) {
  const Manifest& manifest = *plugin.manifest;
  std::cout << manifest.id << " " << manifest.version << " (" << name_of(manifest.kind) << ")\n"
            << manifest.summary << "\n\n"
            << "licence   " << manifest.licence << "\n"
            << "cite      " << manifest.citation << "\n"
            << "file      " << plugin.path << "\n";
  print_names("takes     ", manifest.takes);
  print_names("gives     ", manifest.gives);
  print_names("needs     ", manifest.needs);
  if (manifest.kind == Kind::attention) {
    std::vector<std::string> honoured, lacked;
    for (const auto& [trait, value] : manifest.traits) (value ? honoured : lacked).push_back(trait);
    print_names("honours   ", honoured);
    print_names("lacks     ", lacked);
  }
  if (manifest.ensemble) std::cout << "ensemble  yes: holds several runs that train together\n";
  std::cout << (manifest.options.empty() ? "\nno options\n" : "\noptions\n");
  print_options(manifest.options, "  ");
}

}  // namespace

int describe_command(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab describe ID [--json]";
  usage.about =
      "Shows a plugin's manifest: options with types, ranges and defaults, traits, what it\n"
      "takes and gives. ID is a name (quest), lab/name, or kind/name.";
  usage.options.add_options()("json", "the manifest as JSON");
  usage.fewest_words = usage.most_words = 1;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const Catalogue catalogue = Catalogue::of_this_program();
  const Candidate& plugin = find_any(catalogue, arguments.words[0]);
  if (arguments.has("json")) {
    nlohmann::json manifest = nlohmann::json::parse(plugin.manifest->json);
    manifest["path"] = plugin.path;
    std::cout << manifest.dump(2) << "\n";
  } else {
    print(plugin);
  }
  return kDone;
}

}  // namespace attnlab
