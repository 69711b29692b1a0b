#include "framework/experiment/part.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "framework/base/text.h"
#include "framework/config/compose.h"
#include "framework/config/frozen.h"
#include "framework/experiment/compositions.h"
#include "framework/experiment/fields.h"
#include "framework/experiment/identity.h"
#include "framework/experiment/installed.h"
#include "framework/experiment/names.h"
#include "framework/manifest/attention_section.h"
#include "framework/manifest/option_lookup.h"
#include "framework/manifest/presets.h"
#include "framework/manifest/python_file.h"

namespace attnlab {
namespace {

/// A part's section as a map with `use`; `attention: quest` is short for `attention: {use: quest}`.
/// @param key  what messages call it
Node section_of(const Node& given, const std::string& key, Kind kind, Problems& problems) {
  Node section = given;
  if (given.is_scalar()) {
    section = Node::map(given.place());
    section.set("use", given);
  }
  const Node* use = section.find("use");
  if (use != nullptr && use->is_scalar() && !must_be_given(*use)) return section;
  add_problem(problems, given.place(),
              fmt::format("{}: expected {{use: NAME, options...}} (attnlab list {} shows names)",
                          key, name_of(kind)));
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
  if (whole.find("as") == nullptr) {
    Node label = section.at("use");
    label.set_text(attention_label(section));
    whole.set("as", std::move(label));
  }
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
  if (chosen == nullptr || chosen->text().empty() || is_python_name(part.path)) return;
  const Node preset = preset_values(part.path, chosen->text(), schema);
  for (const auto& [key, value] : preset.entries()) {
    const Node* given = part.options.find(key);
    const Node& otherwise = find_option(schema, key)->default_value;
    if (given == nullptr || canonical_text(*given) != canonical_text(otherwise)) continue;
    part.options.set(key, value);
  }
}

std::vector<const LayerChoice*> choices_of(const Part& stack) {
  std::vector<const LayerChoice*> choices;
  choices.reserve(stack.others.size());
  for (const Part& other : stack.others) choices.push_back(&other.layers);
  return choices;
}

/// What the catalogue finds the plugin of a section by. One in Python gets the long form.
/// @param section  a map with `use`
/// @returns empty where it names nothing
std::string named_by(Node& section, const std::string& key, Kind kind, Problems& problems) {
  std::string use = section.at("use").text();
  if (kind == Kind::task || !is_python(section)) return use;
  const PythonName given = is_python_name(use) ? parse_python_name(use) : PythonName{};
  for (const auto& [own, name] : {std::pair{&given.file, "file"}, {&given.name, "class"}}) {
    if (own->empty() || section.find(name) == nullptr) continue;
    add_problem(problems, section.key_place(name),
                fmt::format("{}.{}: '{}' names it already; leave it out", key, name, use));
    return "";
  }
  section = python_section(std::move(section));
  const Node* file = section.find("file");
  if (file != nullptr && file->is_scalar() && !must_be_given(*file)) {
    return located_name(section).text();
  }
  add_problem(problems, section.at("use").place(),
              key + ": expected a file: {use: python, file: mine.py}, or {use: mine.py}");
  return "";
}

/// Says of what is wrong with options of a Python class where the class declares them.
/// @param first  of the problems
void add_declarations(const PythonFile& file, const std::string& key, std::size_t first,
                      Problems& problems) {
  const OptionSpec* group = find_option(file.candidate.manifest->options, "options");
  if (group == nullptr) return;
  for (std::size_t i = first; i < problems.size(); ++i) {
    for (const OptionSpec& option : group->options) {
      if (problems[i].find(fmt::format("{}.options.{}: ", key, option.name)) == std::string::npos) {
        continue;
      }
      problems[i] += fmt::format("; declared at {}", declared_at(file, option));
    }
  }
}

/// The plugin gets a Python file's whole path, the configuration what the run keeps it under.
/// @param whole  the section, with the options in it
void place_python_file(const PythonFile& file, Part& part, Node& whole) {
  const Node* given = part.options.find("file");
  if (given == nullptr) return;  // a problem
  Node located = *given, kept = *given;
  located.set_text(parse_python_name(part.path).file);
  kept.set_text(file.kept_name());
  if (kept.text() != given->text()) kept.history().push_back({given->place(), given->text()});
  part.options.set("file", std::move(located));
  whole.set("file", std::move(kept));
}

/// A dataset's `root` is relative to the file that says so: plugin and configuration get the whole
/// path. It stays as it is where it names the same seen from the working folder (the same run on
/// two machines has one hash), where nothing of its name is there, in a run's frozen configuration
/// and on the command line.
/// @param whole  the section, with the options in it
void place_root(Part& part, Node& whole) {
  namespace fs = std::filesystem;
  const Node* given = part.options.find("root");
  if (given == nullptr || !given->is_scalar() || given->text().empty()) return;
  const fs::path root(given->text()), file(given->place().file.text());
  std::error_code error;
  if (root.is_absolute() || !fs::is_regular_file(file, error) || is_frozen(file.string())) return;
  const fs::path near = file.parent_path() / root;
  if (!fs::exists(near, error) || fs::equivalent(near, root, error)) return;
  Node located = *given;
  located.set_text(fs::absolute(near, error).lexically_normal().string());
  located.history().push_back({given->place(), given->text()});
  part.options.set("root", located);
  whole.set("root", std::move(located));
}

/// A section with every option filled in, and the manifest of its plugin: null when there were
/// problems with that.
struct ResolvedSection {
  const Manifest* manifest = nullptr;
  Node whole;
};

/// @param section  a map with `use`
/// @param key      what messages call it: "model", "attention.layers.last"
/// @param part     its kind and place are known
ResolvedSection resolve_section(Node section, const std::string& key, const Catalogue& catalogue,
                                Part& part, Problems& problems) {
  part.name = named_by(section, key, part.kind, problems);
  if (part.name.empty() && is_python(section)) return {};
  const std::string label = is_python(section) ? attention_label(section) : "";
  const Node use = section.at("use");
  section.erase("use");
  const Node* as = part.kind == Kind::attention ? section.find("as") : nullptr;
  const std::string wrong = as == nullptr        ? ""
                            : must_be_given(*as) ? "a value must be given here"
                                                 : name_problem(as->text());
  if (!wrong.empty()) add_problem(problems, as->place(), fmt::format("{}.as: {}", key, wrong));
  const Candidate* plugin = nullptr;
  try {
    plugin = &catalogue.find(part.kind, part.name);
    check_installed(plugin->path);
    if (is_python_name(plugin->path)) python_library();
  } catch (const PluginError& error) {
    add_problem(problems, part.place, fmt::format("{}: {}", key, error.what()));
    return {};
  }
  name_after(*plugin, part);
  const PythonFile* python =
      names_file(part) ? &python_file(parse_python_name(part.path)) : nullptr;
  if (python != nullptr) part.label = label;
  if (as != nullptr) part.label = as->text();
  Node whole = Node::map(section.place());
  whole.set("use", use);
  if (as != nullptr) {
    whole.set("as", *as);
    section.erase("as");
  }
  const std::size_t first = problems.size();
  part.options = resolve_options(section, plugin->manifest->options, key,
                                 fmt::format("{} '{}'", name_of(part.kind), part.name), problems);
  if (python != nullptr) add_declarations(*python, key, first, problems);
  try {
    check_declared_fields({part, *plugin->manifest});
  } catch (const PluginError& error) {
    add_problem(
        problems, part.place,
        fmt::format("{}: its manifest says {}; correct its .takes, .gives, .needs and .stacks",
                    part.path, error.what()));
    return {};
  }
  for (const auto& [name, value] : part.options.entries()) whole.set(name, value);
  if (python != nullptr) place_python_file(*python, part, whole);
  if (part.kind == Kind::dataset) place_root(part, whole);
  fill_in_preset(plugin->manifest->options, part);
  return {&*plugin->manifest, std::move(whole)};
}

/// One entry of `layers`.
/// @returns its section resolved; null where it has problems.
Node resolve_layer(const Node& layers, const std::string& name, const Catalogue& catalogue,
                   Part& stack, Problems& problems) {
  const std::string key = "attention.layers." + name;
  Part part;
  part.kind = Kind::attention;
  try {
    part.layers = parse_layer_choice(name, layers.key_place(name));
  } catch (const ConfigError& error) {
    problems.emplace_back(error.what());
    return {};
  }
  Node section = section_of(layers.at(name), key, part.kind, problems);
  if (section.is_null()) return {};
  part.place = section.at("use").place();
  section = with_named_attention(section, catalogue);
  for (const char* whole : {"layers", "projection", "positions"}) {
    const Node* inner = section.find(whole);
    if (inner == nullptr) continue;
    add_problem(problems, inner->place(),
                fmt::format("{}: a layer has one mechanism; '{}' is of the whole stack and stands "
                            "below attention",
                            key, whole));
    return {};
  }
  ResolvedSection own = resolve_section(std::move(section), key, catalogue, part, problems);
  if (own.manifest == nullptr) return {};
  stack.others.push_back(std::move(part));
  return std::move(own.whole);
}

/// Fills in what some layers have in the place of `stack`.
/// @param layers  the section; null: there is none
/// @returns it with every option filled in, sorted by its keys: the order of a file means nothing.
Node resolve_layers(const Node& layers, const Catalogue& catalogue, Part& stack,
                    Problems& problems) {
  if (layers.is_null()) return {};
  if (!layers.is_map()) {
    add_problem(
        problems, layers.place(),
        "attention.layers: expected a map like {every_4: standard}, found " + to_flow(layers));
    return {};
  }
  std::vector<std::string> names;
  for (const auto& [name, section] : layers.entries()) names.push_back(name);
  std::sort(names.begin(), names.end());
  Node whole = Node::map(layers.place());
  for (const std::string& name : names) {
    Node section = resolve_layer(layers, name, catalogue, stack, problems);
    if (section.is_null()) continue;
    whole.set(name, std::move(section));
    whole.set_key_place(name, layers.key_place(name));
  }
  check_choices(choices_of(stack), std::nullopt, problems);
  return whole;
}

/// @param given  `attention.projection`; null: it is not there
/// @returns it with every option filled in; null where it asks for nothing, as if it were not
/// there.
Node resolve_projection(const Node& given, Part& part, Problems& problems) {
  if (given.is_null()) return {};
  const std::size_t before = problems.size();
  Node whole = resolve_options(given, schema_of<ProjectionOptions>(), "attention.projection",
                               "attention.projection", problems);
  if (problems.size() > before) return {};
  part.projection = read_options<ProjectionOptions>(whole);
  if (part.projection.key_heads == 0 && part.projection.rank == 0) return {};
  return whole;
}

/// Whether a kind of `attention.positions` reads one of its options.
bool reads_option(const std::string& kind, const std::string& option) {
  if (option == "use") return true;
  return kind == (option == "base" ? "rotary" : "t5");
}

/// @param given  `attention.positions`; null: it is not there
/// @returns it with every option that its kind reads; null where it asks for nothing, as if it were
/// not there.
Node resolve_positions(const Node& given, Part& part, Problems& problems) {
  if (given.is_null()) return {};
  const std::string key = "attention.positions";
  Node section = given;
  if (given.is_scalar()) {
    section = Node::map(given.place());
    section.set("use", given);
  }
  const std::size_t before = problems.size();
  const Schema& schema = schema_of<PositionsOptions>();
  Node whole = resolve_options(section, schema, key, key, problems);
  if (problems.size() > before) return {};
  part.positions = read_options<PositionsOptions>(whole);
  part.positions_place = whole.at("use").place();
  const PositionsOptions& asked = part.positions;
  for (const OptionSpec& option : schema) {
    if (reads_option(asked.use, option.name)) continue;
    whole.erase(option.name);
    const Node* extra = section.find(option.name);
    if (extra == nullptr || extra->is_null()) continue;
    add_problem(problems, section.key_place(option.name),
                fmt::format("{0}.{1}: positions of kind '{2}' have no {1}; leave it out", key,
                            option.name, asked.use));
  }
  if (asked.use == "t5" && asked.max_distance <= asked.buckets / 2) {
    add_problem(problems, whole.at("max_distance").place(),
                fmt::format("{}.max_distance: {} is no more than half of the {} buckets, which "
                            "hold one distance each; make it larger, or buckets fewer",
                            key, asked.max_distance, asked.buckets));
  }
  if (problems.size() > before || asked.use == "none") return {};
  return whole;
}

/// "attention 'quest' of attention.layers.last"
std::string who_is(const Part& attention) {
  return fmt::format("attention '{}'{}", attention.name,
                     attention.layers.key.empty() ? "" : " of " + section_key(attention));
}

bool honours(const Manifest& attention, const std::string& trait) {
  const auto found = attention.traits.find(trait);
  return found != attention.traits.end() && found->second;
}

}  // namespace

const Manifest* resolve_part(const Node& composed, Kind kind, const Catalogue& catalogue,
                             Part& part, Node& resolved, Problems& problems) {
  const std::string key(name_of(kind));
  const Node* given = composed.find(key);
  if (given == nullptr || given->is_null()) {
    add_problem(
        problems, composed.place(),
        fmt::format(
            "the experiment has no '{0}'; add {0}: {{use: NAME}} (attnlab list {0} shows names)",
            key));
    return nullptr;
  }
  Node section = section_of(*given, key, kind, problems);
  if (section.is_null()) return nullptr;
  part.kind = kind;
  part.place = section.at("use").place();
  Node layers, projection, positions;
  if (kind == Kind::attention) {
    section = with_named_attention(section, catalogue);
    if (const Node* some = section.find("layers")) layers = *some;
    section.erase("layers");
    if (const Node* some = section.find("projection")) projection = *some;
    section.erase("projection");
    if (const Node* some = section.find("positions")) positions = *some;
    section.erase("positions");
  }
  ResolvedSection own = resolve_section(std::move(section), key, catalogue, part, problems);
  Node of_layers = resolve_layers(layers, catalogue, part, problems);
  projection = resolve_projection(projection, part, problems);
  positions = resolve_positions(positions, part, problems);
  if (own.manifest == nullptr) return nullptr;
  if (!projection.is_null()) own.whole.set("projection", std::move(projection));
  if (!positions.is_null()) own.whole.set("positions", std::move(positions));
  if (!part.others.empty()) {
    own.whole.set("layers", std::move(of_layers));
    part.label = attention_label(own.whole);
    if (own.whole.find("as") == nullptr && part.label.size() > kLongestName) {
      add_problem(problems, part.place,
                  fmt::format("attention: '{}' is too long to be a file's name; name it: "
                              "attention.as",
                              part.label));
    }
  }
  resolved.set(key, std::move(own.whole));
  return own.manifest;
}

bool names_file(const Part& part) {
  return is_python_name(part.path) && part.id.starts_with(kPythonLab);
}

std::string lookup_name(const Part& part) { return names_file(part) ? part.path : part.id; }

std::string section_key(const Part& part) {
  const std::string kind(name_of(part.kind));
  return part.layers.key.empty() ? kind : fmt::format("{}.layers.{}", kind, part.layers.key);
}

std::string mechanisms_text(const Part& attention) {
  if (attention.others.empty()) return attention.name;
  std::vector<std::string> others;
  for (const Part& other : attention.others) {
    others.push_back(fmt::format("{}: {}", other.layers.key, other.name));
  }
  return fmt::format("{} ({})", attention.name, join(others, ", "));
}

const Part& mechanism_of(const Part& attention, std::int64_t layer, std::int64_t layers) {
  Problems problems;
  check_choices(choices_of(attention), layers, problems);
  if (!problems.empty()) throw ConfigError(problems);
  const auto named =
      std::find_if(attention.others.begin(), attention.others.end(),
                   [&](const Part& other) { return other.layers.has(layer, layers); });
  return named == attention.others.end() ? attention : *named;
}

bool reads_both_ways(const Part& attention) {
  const Node* value = attention.options.find("both_ways");
  return value != nullptr && value->as_bool().value_or(false);
}

std::vector<std::string> needs_of(const Part& model, const Manifest& manifest) {
  std::vector<std::string> traits;
  for (const FieldRule& rule : rules_under(manifest.needs, model)) {
    if (std::find(traits.begin(), traits.end(), rule.field) == traits.end()) {
      traits.push_back(rule.field);
    }
  }
  return traits;
}

void check_positions(const Part& attention, const Part& mechanism, const Manifest& has,
                     Problems& problems) {
  const std::string& kind = attention.positions.use;
  if ((kind != "alibi" && kind != "t5") || honours(has, "bias")) return;
  add_problem(problems, attention.positions_place,
              fmt::format("attention.positions: {} is a bias of the logits, and {} does not honour "
                          "'bias'; take rotary, or another attention",
                          kind, who_is(mechanism)));
}

void check_traits(const Part& model, const Manifest& needs, const Part& attention,
                  const Manifest& has, Problems& problems) {
  const std::string who = who_is(attention);
  bool causal = false;
  for (const std::string& trait : needs_of(model, needs)) {
    causal = causal || trait == "causal";
    if (honours(has, trait)) continue;
    add_problem(
        problems, attention.place,
        fmt::format("{} does not honour '{}', which model '{}' needs; choose another attention",
                    who, trait, model.name));
  }
  const OptionSpec* both_ways = find_option(has.options, "both_ways");
  const bool has_choice = both_ways != nullptr && both_ways->type == OptionSpec::Type::boolean;
  if (causal || !honours(has, "ordered") || (has_choice && reads_both_ways(attention))) return;
  add_problem(
      problems, attention.place,
      fmt::format("{} needs the causal rule, which model '{}' does not have; {}", who, model.name,
                  has_choice ? fmt::format("set {}.both_ways to true, or choose another",
                                           section_key(attention))
                             : "choose another"));
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
  Node given = options;
  if (is_python_name(part.path)) python_library();
  if (names_file(part)) {
    const PythonName python = parse_python_name(part.path);
    if (given.is_null()) given = Node::map(options.place());
    given.set("file", Node::scalar(python.file, options.place(), /*quoted=*/true));
    if (!python.name.empty()) given.set("class", Node::scalar(python.name, options.place(), true));
  }
  part.options = resolve_options(given, plugin.manifest->options, key,
                                 fmt::format("{} '{}'", key, part.name), problems);
  if (!problems.empty()) throw ConfigError(problems);
  fill_in_preset(plugin.manifest->options, part);
  return part;
}

}  // namespace attnlab
