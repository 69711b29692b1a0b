#include "framework/manifest/option_lookup.h"

#include "framework/base/text.h"

namespace attnlab {
namespace {

void add_keys(const Schema& schema, const std::string& prefix, std::vector<std::string>& keys) {
  for (const OptionSpec& spec : schema) {
    keys.push_back(prefix + spec.name);
    add_keys(spec.options, prefix + spec.name + ".", keys);
  }
}

/// The key of a single value of this name below the schema's groups.
std::string deeper(const std::string& name, const Schema& schema) {
  for (const std::string& key : option_keys(schema)) {
    const std::size_t dot = key.rfind('.');
    if (dot == std::string::npos || key.substr(dot + 1) != name) continue;
    if (find_option(schema, key)->type != OptionSpec::Type::group) return key;
  }
  return "";
}

/// "train.epochs" as a file writes it: "train: {epochs: ...}".
std::string nested(const std::string& key) {
  const std::size_t dot = key.find('.');
  if (dot == std::string::npos) return key + ": ...";
  return key.substr(0, dot) + ": {" + nested(key.substr(dot + 1)) + "}";
}

}  // namespace

const OptionSpec* find_option(const Schema& schema, std::string_view key) {
  const std::size_t dot = key.find('.');
  for (const OptionSpec& spec : schema) {
    if (spec.name != key.substr(0, dot)) continue;
    return dot == std::string_view::npos ? &spec : find_option(spec.options, key.substr(dot + 1));
  }
  return nullptr;
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
  if (!below.empty()) return "; did you mean '" + below + "'?";
  std::vector<std::string> names;
  for (const OptionSpec& spec : schema) names.push_back(spec.name);
  return suggestion(word, names);
}

}  // namespace attnlab
