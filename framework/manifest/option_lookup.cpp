#include "framework/manifest/option_lookup.h"

#include <fmt/format.h>

#include "framework/base/text.h"

namespace attnlab {
namespace {

void add_keys(const Schema& schema, const std::string& prefix, std::vector<std::string>& keys) {
  for (const OptionSpec& spec : schema) {
    keys.push_back(prefix + spec.name);
    if (spec.list) continue;  // of groups: no key reaches into it
    const bool free_names = spec.type == OptionSpec::Type::map;
    const Schema known(spec.options.begin() + (free_names ? 1 : 0), spec.options.end());
    add_keys(known, fmt::format("{}{}.", prefix, spec.name), keys);
  }
}

/// The key of a single value of this name below the schema's groups.
std::string deeper(const std::string& name, const Schema& schema) {
  for (const std::string& key : option_keys(schema)) {
    const std::size_t dot = key.rfind('.');
    if (dot == std::string::npos || key.substr(dot + 1) != name) continue;
    if (!find_option(schema, key)->holds_options()) return key;
  }
  return "";
}

/// "train.epochs" as a file writes it: "train: {epochs: ...}".
std::string nested(const std::string& key) {
  const std::size_t dot = key.find('.');
  if (dot == std::string::npos) return key + ": ...";
  return fmt::format("{}: {{{}}}", key.substr(0, dot), nested(key.substr(dot + 1)));
}

}  // namespace

const OptionSpec* find_option(const Schema& schema, std::string_view key) {
  const std::size_t dot = key.find('.');
  for (const OptionSpec& spec : schema) {
    if (spec.name != key.substr(0, dot)) continue;
    if (dot == std::string_view::npos) return &spec;
    const std::string_view rest = key.substr(dot + 1);
    const OptionSpec* found = find_option(spec.options, rest);
    if (found != nullptr || spec.type != OptionSpec::Type::map) return found;
    const std::size_t end = rest.find('.');  // a name that is not known yet
    const OptionSpec& any = spec.options.front();
    return end == std::string_view::npos ? &any : find_option(any.options, rest.substr(end + 1));
  }
  return nullptr;
}

Schema with_names(Schema schema, const Node& composed) {
  for (OptionSpec& spec : schema) {
    const Node* given = composed.find(spec.name);
    if (given == nullptr || !spec.holds_options()) continue;
    if (spec.type == OptionSpec::Type::map) {
      const OptionSpec any = spec.options.front();
      for (const auto& [name, value] : given->entries()) {
        spec.options.push_back(any);
        spec.options.back().name = name;
      }
    }
    spec.options = with_names(std::move(spec.options), *given);
  }
  return schema;
}

std::vector<std::string> option_keys(const Schema& schema) {
  std::vector<std::string> keys;
  add_keys(schema, "", keys);
  return keys;
}

std::string suggest_key(const std::string& word, const Schema& schema) {
  const bool dotted = word.find('.') != std::string::npos;
  if (dotted && find_option(schema, word) != nullptr) {
    return "; dots are for the command line, in a file write " + nested(word);
  }
  const std::string below = deeper(word, schema);
  if (!below.empty()) return fmt::format("; did you mean '{}'?", below);
  std::vector<std::string> names;
  for (const OptionSpec& spec : schema) names.push_back(spec.name);
  return suggestion(word, names);
}

}  // namespace attnlab
