// Trees composed of files that a test gives, as one line of YAML, and why composing is refused.
#pragma once

#include "framework/config/compose.h"
#include "tests/support/compositions.h"

namespace attnlab::testing {

/// Composes files given as (name, text); the first is the one that is composed.
inline std::string composed(const std::vector<std::pair<std::string, std::string>>& files,
                            const std::vector<std::string>& overrides = {}) {
  const TempFolder folder;
  for (const auto& [name, text] : files) folder.write(name, text);
  return to_flow(compose_file(folder / files.front().first, overrides));
}

/// Why composing is refused, with the temporary folder's name removed.
inline std::string refusal(const std::vector<std::pair<std::string, std::string>>& files,
                           const std::vector<std::string>& overrides = {}) {
  const TempFolder folder;
  for (const auto& [name, text] : files) folder.write(name, text);
  return folder.without(
      message_of<ConfigError>([&] { compose_file(folder / files.front().first, overrides); }));
}

inline std::string merged(const std::string& base, const std::string& over) {
  Node tree = parse_yaml(base, "base.yaml");
  merge(tree, parse_yaml(over, "over.yaml"));
  return to_flow(tree);
}

inline std::string interpolated(const std::string& text) {
  Node tree = parse_yaml(text, "f.yaml");
  interpolate(tree);
  return to_flow(tree);
}

inline std::string interpolation_refusal(const std::string& text) {
  return message_of<ConfigError>([&] { interpolated(text); });
}

}  // namespace attnlab::testing
