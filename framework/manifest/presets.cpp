#include "framework/manifest/presets.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/config/compose.h"
#include "framework/manifest/elf.h"

namespace attnlab {
namespace {

constexpr const char* kOption = "preset";

/// What no preset can set: `preset` itself, groups, and what has no default to stand in the place
/// of.
bool can_be_preset(const OptionSpec& option) {
  return option.name != kOption && !option.holds_options() && !option.default_value.is_null();
}

/// The values of the options that a preset sets, as the schema reads them. @throws Error
Node values_of(const std::string& name, const Node& preset, const Schema& options) {
  Schema settable = options;
  std::erase_if(settable, [](const OptionSpec& option) { return !can_be_preset(option); });
  std::vector<std::string> problems;
  const Node resolved =
      resolve_options(preset, settable, fmt::format("preset '{}'", name), "presets", problems);
  if (!problems.empty()) throw Error(problems.front());
  Node values = Node::map();
  for (const auto& [key, value] : preset.entries()) {
    if (!value.is_null()) values.set(key, resolved.at(key));
  }
  return values;
}

}  // namespace

Node read_presets(const std::string& plugin_path) {
  const auto text = find_elf_section(plugin_path, kPresetsSection);
  return text ? parse_yaml(*text, "presets of " + plugin_path) : Node::map();
}

Node preset_values(const std::string& plugin_path, const std::string& name, const Schema& options) {
  const Node presets = read_presets(plugin_path);
  const Node* preset = presets.find(name);
  return preset == nullptr ? Node::map() : values_of(name, *preset, options);
}

void add_presets(const std::string& text, Schema& options) {
  const Node presets = parse_yaml(text, "presets");
  const auto option = std::find_if(options.begin(), options.end(), [](const OptionSpec& one) {
    return one.name == kOption && one.type == OptionSpec::Type::string && !one.list;
  });
  if (!presets.is_map() || option == options.end()) {
    throw Error("presets: expected a map, and a text option `preset` that names one of them");
  }
  std::vector<std::string> names;
  if (option->default_value.text().empty()) names.emplace_back();
  for (const auto& [name, preset] : presets.entries()) {
    values_of(name, preset, options);
    names.push_back(name);
  }
  if (std::find(names.begin(), names.end(), option->default_value.text()) == names.end()) {
    throw Error(
        fmt::format("presets: the default '{}' is not one of them", option->default_value.text()));
  }
  option->choices = std::move(names);
}

}  // namespace attnlab
