#include "framework/runs/run_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/config/frozen.h"

namespace attnlab {
namespace {

// So that neither the parser's limit of values nor the search for a key's double matters here.
constexpr std::size_t kMostBytes = std::size_t{1} << 20, kMostSections = 100;

/// The lines of a text, each that begins a section with those that are indented below it.
/// @returns nothing where the last line has no end
std::optional<std::vector<std::string_view>> split(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0, line = 0;
  while (line < text.size()) {
    const std::size_t end = text.find('\n', line);
    if (end == std::string_view::npos) return std::nullopt;
    if (line > begin && text[line] != ' ') {
      parts.push_back(text.substr(begin, line - begin));
      begin = line;
    }
    line = end + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

}  // namespace

ConfigSection::ConfigSection(std::string text)
    : key_(text.substr(0, text.find(':'))), text_(std::move(text)) {}

const Node& ConfigSection::value() const {
  std::call_once(parsed_, [this] {
    if (!value_) value_ = frozen_tree(text_, "config.yaml").at(key_);
  });
  return *value_;
}

std::shared_ptr<const ConfigSection> shareable_section(const std::string& text,
                                                       const std::string& file) {
  try {
    const Node tree = frozen_tree(text, file);
    if (tree.entries().size() != 1 || to_yaml(tree) != text) return nullptr;
    const auto& [key, value] = tree.entries().front();
    if (!text.starts_with(key + ":")) return nullptr;
    return std::make_shared<const ConfigSection>(key, value, text);
  } catch (const ConfigError&) {  // the text as a whole is to say what is wrong
    return nullptr;
  }
}

RunConfig::RunConfig(const Node& tree) : is_map_(tree.is_map()) {
  for (const auto& [key, value] : tree.entries()) {
    sections_.push_back(std::make_shared<const ConfigSection>(key, value));
  }
}

const Node* RunConfig::find(std::string_view key) const {
  for (const auto& section : sections_) {
    if (section->key() == key) return &section->value();
  }
  return nullptr;
}

const Node& RunConfig::at(std::string_view key) const {
  const Node* value = find(key);
  if (value == nullptr) throw ConfigError(fmt::format("'{}' is missing", key));
  return *value;
}

void RunConfig::set(std::string_view key, Node value) {
  is_map_ = true;
  auto section = std::make_shared<const ConfigSection>(std::string(key), std::move(value));
  const auto present = std::find_if(sections_.begin(), sections_.end(),
                                    [&](const auto& one) { return one->key() == key; });
  if (present != sections_.end()) {
    *present = std::move(section);
  } else {
    sections_.push_back(std::move(section));
  }
}

Node RunConfig::tree() const {
  if (!is_map_) return {};
  Node tree = Node::map();
  for (const auto& section : sections_) tree.set(section->key(), section->value());
  return tree;
}

std::optional<RunConfig> ConfigPool::read(std::string_view text, const std::string& file) {
  if (text.empty() || text.size() > kMostBytes) return std::nullopt;
  const auto parts = split(text);
  if (!parts || parts->size() > kMostSections) return std::nullopt;
  RunConfig::Sections sections;
  sections.reserve(parts->size());
  for (const std::string_view part : *parts) {
    auto section = find(part);
    if (section == nullptr) {
      section = shareable_section(std::string(part), file);
      if (section == nullptr) return std::nullopt;
      section = keep(std::move(section));
    }
    for (const auto& earlier : sections) {
      if (earlier->key() == section->key()) return std::nullopt;
    }
    sections.push_back(std::move(section));
  }
  return RunConfig(std::move(sections));
}

std::shared_ptr<const ConfigSection> ConfigPool::section(std::string_view text) {
  auto section = find(text);
  return section != nullptr ? section
                            : keep(std::make_shared<const ConfigSection>(std::string(text)));
}

std::shared_ptr<const ConfigSection> ConfigPool::find(std::string_view text) {
  const std::lock_guard<std::mutex> lock(guard_);
  const auto found = sections_.find(text);
  return found == sections_.end() ? nullptr : found->second;
}

std::shared_ptr<const ConfigSection> ConfigPool::keep(
    std::shared_ptr<const ConfigSection> section) {
  const std::lock_guard<std::mutex> lock(guard_);
  // The view is of the text that the map's own value holds.
  return sections_.try_emplace(section->text(), section).first->second;
}

}  // namespace attnlab
