// The frozen configurations of many runs. Runs of one suite have nearly all of their text in
// common, so each entry of the top map is parsed once and kept once, however many runs have it.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "framework/config/node.h"

namespace attnlab {

/// An entry of a configuration's top map. Nothing changes it, so runs share it.
class ConfigSection {
 public:
  explicit ConfigSection(std::string key, Node value, std::string text = {})
      : key_(std::move(key)), text_(std::move(text)), value_(std::move(value)) {}
  /// @param text  that `shareable_section` made a section of before; parsed at the first need
  explicit ConfigSection(std::string text);

  const std::string& key() const { return key_; }
  /// As config.yaml has it; empty of a section that was made of a value.
  const std::string& text() const { return text_; }
  const Node& value() const;

 private:
  std::string key_, text_;
  mutable std::once_flag parsed_;
  mutable std::optional<Node> value_;
};

/// The section of a text "KEY: VALUE" that is exactly what `to_yaml` writes of it; null for any
/// other text. @param file  the name that places carry
std::shared_ptr<const ConfigSection> shareable_section(const std::string& text,
                                                       const std::string& file);

/// A run's configuration: null, or a map of sections.
class RunConfig {
 public:
  using Sections = std::vector<std::shared_ptr<const ConfigSection>>;

  RunConfig() = default;
  /// Of a whole tree, shared with nobody yet.
  RunConfig(const Node& tree);  // NOLINT(google-explicit-constructor): the two are one value
  explicit RunConfig(Sections sections) : is_map_(true), sections_(std::move(sections)) {}

  bool is_map() const { return is_map_; }
  const Sections& sections() const { return sections_; }
  /// The value of an entry, or null when there is none.
  const Node* find(std::string_view key) const;
  /// @throws ConfigError where the entry is missing.
  const Node& at(std::string_view key) const;
  void set(std::string_view key, Node value);
  /// A copy of the whole.
  Node tree() const;

 private:
  bool is_map_ = false;
  Sections sections_;
};

/// Sections that were read, each text once. Several threads may read at a time.
class ConfigPool {
 public:
  /// A text of shareable sections, as config.yaml of a run is; empty for any other text, which is
  /// to be parsed as a whole, with errors and places of its own.
  /// @param file  the name that places carry (those of a section, of the run that had it first)
  std::optional<RunConfig> read(std::string_view text, const std::string& file);
  /// @param text  that `read` made a section of before, in this process or in another
  std::shared_ptr<const ConfigSection> section(std::string_view text);
  /// How many sections there are.
  std::size_t size() const { return sections_.size(); }

 private:
  std::shared_ptr<const ConfigSection> find(std::string_view text);
  std::shared_ptr<const ConfigSection> keep(std::shared_ptr<const ConfigSection> section);

  std::mutex guard_;
  /// By their own texts.
  std::unordered_map<std::string_view, std::shared_ptr<const ConfigSection>> sections_;
};

}  // namespace attnlab
