// attnlab describe ID: one plugin's manifest, for people or as JSON.
#include <algorithm>
#include <iostream>

#include "framework/base/foreign_text.h"
#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/experiment/installed.h"
#include "framework/manifest/discovery.h"
#include "framework/manifest/presets.h"
#include "framework/manifest/python_file.h"
#include "runner/commands.h"
#include "runner/tested_plugin.h"

namespace attnlab {
namespace {

void print_options(const Schema& options, const std::string& indent) {
  for (const OptionSpec& option : options) {
    std::cout << indent << option.name << " (" << one_line(option.type_text(), kLongestMessageLine);
    if (option.required) {
      std::cout << ", must be given";
    } else if (!option.holds_options()) {
      std::cout << ", default " << one_line(to_flow(option.default_value), kLongestMessageLine);
    }
    std::cout << ")\n" << indent << "    " << option.help << "\n";
    print_options(option.options, indent + "  ");
  }
}

/// A Python file has none.
Node presets_of(const Candidate& plugin) {
  return is_python_name(plugin.path) ? Node::map() : read_presets(plugin.path);
}

void print_presets(const Node& presets) {
  if (presets.entries().empty()) return;
  std::cout << "\npresets\n";
  for (const auto& [name, options] : presets.entries()) {
    std::cout << "  "
              << one_line((name.empty() ? "''" : name) + ": " + to_flow(options),
                          kLongestMessageLine)
              << "\n";
  }
}

void print_names(const char* label, const std::vector<std::string>& names) {
  if (names.empty()) return;
  std::cout << label << one_line(join(names, ", "), kLongestMessageLine) << "\n";
}

void print(const Candidate& plugin) {
  const Manifest& manifest = *plugin.manifest;
  std::cout << manifest.id << " " << manifest.version << " (" << name_of(manifest.kind) << ")\n"
            << manifest.summary << "\n\n"
            << "licence   " << manifest.licence << "\n";
  if (!manifest.citation.empty()) std::cout << "cite      " << manifest.citation << "\n";
  std::cout << "file      " << one_line(plugin.path, kLongestMessageLine) << "\n";
  print_names("takes     ", manifest.takes);
  print_names("gives     ", manifest.gives);
  print_names("needs     ", manifest.needs);
  print_names("stacks    ", manifest.stacks);
  if (manifest.kind == Kind::attention) {
    std::vector<std::string> honoured, lacked;
    for (const auto& [trait, value] : manifest.traits) (value ? honoured : lacked).push_back(trait);
    print_names("honours   ", honoured);
    print_names("lacks     ", lacked);
  }
  if (manifest.ensemble) std::cout << "ensemble  yes: holds several runs that train together\n";
  std::cout << (manifest.options.empty() ? "\nno options\n" : "\noptions\n");
  print_options(manifest.options, "  ");
  print_presets(presets_of(plugin));
}

}  // namespace

int describe_command(const Words& words) {
  if (std::find(words.begin(), words.end(), "--summary") != words.end()) {
    return engine_command("summary", words);
  }
  Usage usage;
  usage.synopsis =
      "attnlab describe ID [--json]\n"
      "       attnlab describe EXPERIMENT|RUN_DIR [key=value ...] --summary [--json]";
  usage.about =
      "Shows a plugin's manifest: options with types, ranges and defaults, presets, traits,\n"
      "what it takes and gives. ID is a name (quest), lab/name, kind/name, or a Python file\n"
      "(mine.py), which is read and not run.\n"
      "With --summary: an experiment's modules, shapes, parameters and FLOPs.";
  usage.options.add_options()("json", "the manifest as JSON")(
      "summary", "show the model of an experiment or a run");
  usage.fewest_words = usage.most_words = 1;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const Catalogue catalogue = catalogue_of_installed();
  const Candidate& plugin = find_plugin(catalogue, arguments.words[0]);
  if (arguments.has("json")) {
    nlohmann::json manifest = nlohmann::json::parse(plugin.manifest->json);
    manifest["path"] = plugin.path;
    const Node presets = presets_of(plugin);
    for (const auto& [name, options] : presets.entries()) {
      manifest["presets"][name] = to_flow(options);
    }
    std::cout << json_text(manifest);
  } else {
    print(plugin);
  }
  return kDone;
}

}  // namespace attnlab
