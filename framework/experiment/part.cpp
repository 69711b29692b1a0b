#include "framework/experiment/part.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/config/compose.h"
#include "framework/experiment/compositions.h"
#include "framework/experiment/fields.h"
#include "framework/experiment/identity.h"
#include "framework/experiment/installed.h"
#include "framework/experiment/names.h"
#include "framework/manifest/option_lookup.h"
#include "framework/manifest/presets.h"

namespace attnlab {
namespace {

/// A part's section as a map with `use`; `attention: quest` is short for `attention: {use: quest}`.
Node section_of(const Node& composed, const std::string& key, Problems& problems) {
  const Node* given = composed.find(key);
  if (given == nullptr || given->is_null()) {
    add_problem(
        problems, composed.place(),
        fmt::format(
            "the experiment has no '{0}'; add {0}: {{use: NAME}} (attnlab list {0} shows names)",
            key));
    return {};
  }
  Node section = *given;
  if (given->is_scalar()) {
    section = Node::map(given->place());
    section.set("use", *given);
  }
  const Node* use = section.find("use");
  if (use != nullptr && use->is_scalar() && !must_be_given(*use)) return section;
  add_problem(
      problems, given->place(),
      fmt::format("{0}: expected {{use: NAME, options...}} (attnlab list {0} shows names)", key));
  return {};
}

/// `attention: qknorm_ds`, where no plugin has that name but a file of configs/attention: what the
/// file says, with the section's own values over it. The name is the label unless `as` gives one.
/// @throws ConfigError for a file that cannot be read.
Node with_named_attention(const Node& section, const Catalogue& catalogue) {
  const std::string name = section.at("use").text();
  if (name.find('/') != std::string::npos) return section;
  // A refused plugin keeps its name too.
  const bool plugin = std::any_of(
      catalogue.candidates().begin(), catalogue.candidates().end(), [&](const Candidate& one) {
        return one.manifest && one.manifest->kind == Kind::attention && one.manifest->name == name;
      });
  if (plugin) return section;
  const auto files = compositions("attention");
  const auto found = files.find(name);
  if (found == files.end() || found->second.size() != 1) return section;
  Node whole = load_file(found->second.front());
  interpolate(whole);
  const Node* use = whole.find("use");
  if (use == nullptr || !use->is_scalar() || use->text() == name) return section;
  if (whole.find("as") == nullptr) whole.set("as", section.at("use"));
  Node own = section;
  own.erase("use");
  merge(whole, own);
  return whole;
}

/// Takes over what the plugin says of itself.
void name_after(const Candidate& plugin, Part& part) {
  part.path = plugin.path;
  part.id = plugin.manifest->id;
  part.name = part.label = plugin.manifest->name;
}

/// What the plugin gets: its options, and what their preset says in the place of defaults.
void fill_in_preset(const Schema& schema, Part& part) {
  const Node* chosen = part.options.find("preset");
  if (chosen == nullptr || chosen->text().empty()) return;
  const Node preset = preset_values(part.path, chosen->text(), schema);
  for (const auto& [key, value] : preset.entries()) {
    const Node* given = part.options.find(key);
    const Node& otherwise = find_option(schema, key)->default_value;
    if (given == nullptr || canonical_text(*given) != canonical_text(otherwise)) continue;
    part.options.set(key, value);
  }
}

}  // namespace

const Manifest* resolve_part(const Node& composed, Kind kind, const Catalogue& catalogue,
                             Part& part, Node& resolved, Problems& problems) {
  const std::string key(name_of(kind));
  Node section = section_of(composed, key, problems);
  if (section.is_null()) return nullptr;
  part.kind = kind;
  part.place = section.at("use").place();
  if (kind == Kind::attention) section = with_named_attention(section, catalogue);
  part.name = section.at("use").text();
  const Node use = section.at("use");
  section.erase("use");
  const Node* as = kind == Kind::attention ? section.find("as") : nullptr;
  const std::string wrong = as == nullptr        ? ""
                            : must_be_given(*as) ? "a value must be given here"
                                                 : name_problem(as->text());
  if (!wrong.empty()) add_problem(problems, as->place(), "attention.as: " + wrong);
  const Candidate* plugin = nullptr;
  try {
    plugin = &catalogue.find(kind, part.name);
    check_installed(plugin->path);
  } catch (const PluginError& error) {
    add_problem(problems, part.place, fmt::format("{}: {}", key, error.what()));
    return nullptr;
  }
  name_after(*plugin, part);
  if (as != nullptr) part.label = as->text();
  Node whole = Node::map(section.place());
  whole.set("use", use);
  if (as != nullptr) {
    whole.set("as", *as);
    section.erase("as");
  }
  part.options = resolve_options(section, plugin->manifest->options, key,
                                 fmt::format("{} '{}'", key, part.name), problems);
  try {
    check_declared_fields({part, *plugin->manifest});
  } catch (const PluginError& error) {
    add_problem(problems, part.place,
                fmt::format("{}: its manifest says {}; mend its .takes and .gives", part.path,
                            error.what()));
    return nullptr;
  }
  for (const auto& [name, value] : part.options.entries()) whole.set(name, value);
  resolved.set(key, std::move(whole));
  fill_in_preset(plugin->manifest->options, part);
  return &*plugin->manifest;
}

void check_traits(const Part& model, const Manifest& needs, const Part& attention,
                  const Manifest& has, Problems& problems) {
  for (const std::string& trait : needs.needs) {
    const auto found = has.traits.find(trait);
    if (found != has.traits.end() && found->second) continue;
    add_problem(
        problems, attention.place,
        fmt::format(
            "attention '{}' does not honour '{}', which model '{}' needs; choose another attention",
            attention.name, trait, model.name));
  }
}

Part part_of(Kind kind, const std::string& name, const Node& options, const Catalogue& catalogue) {
  const Candidate& plugin = catalogue.find(kind, name);
  check_installed(plugin.path);
  Part part;
  part.kind = kind;
  part.place = options.place();
  name_after(plugin, part);
  Problems problems;
  const std::string key(name_of(kind));
  part.options = resolve_options(options, plugin.manifest->options, key,
                                 fmt::format("{} '{}'", key, part.name), problems);
  if (!problems.empty()) throw ConfigError(problems);
  fill_in_preset(plugin.manifest->options, part);
  return part;
}

}  // namespace attnlab
