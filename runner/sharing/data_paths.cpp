#include "runner/sharing/data_paths.h"

#include <fmt/format.h>

#include <filesystem>
#include <functional>

#include "framework/base/foreign_text.h"
#include "framework/config/problems.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

using Visit = std::function<void(const std::string& key, const std::string& value)>;

void each_text(const Node& node, const std::string& key, const Visit& visit) {
  if (node.is_scalar()) visit(key, node.text());
  for (const auto& [name, value] : node.entries()) each_text(value, key + "." + name, visit);
}

/// Visits every text below `dataset:` and below what an evaluation sets there.
void each_text_of_data(const Node& config, const Visit& visit) {
  const auto of = [&](const Node* around, const std::string& key) {
    const Node* const dataset =
        around != nullptr && around->is_map() ? around->find("dataset") : nullptr;
    if (dataset != nullptr) each_text(*dataset, key + "dataset", visit);
  };
  if (!config.is_map()) return;
  of(&config, "");
  const Node* const evaluate = config.find("evaluate");
  if (evaluate == nullptr) return;
  for (const auto& [name, entry] : evaluate->entries()) {
    if (entry.is_map()) of(entry.find("set"), fmt::format("evaluate.{}.set.", name));
  }
}

std::string without_slash(std::string folder) {
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  return folder;
}

}  // namespace

std::set<std::string> data_paths(const Node& config) {
  std::set<std::string> paths;
  each_text_of_data(config, [&](const std::string&, const std::string& value) {
    if (value.starts_with('/')) paths.insert(value);
  });
  return paths;
}

std::vector<MovedPath> parse_moved_paths(const std::vector<std::string>& words) {
  std::vector<MovedPath> all;
  for (const std::string& word : words) {
    const std::size_t cut = word.find('=');
    if (cut == 0 || cut == std::string::npos || cut + 1 == word.size()) {
      throw ConfigError(fmt::format(
          "--data {}: expected THERE=HERE, a folder or file of the other machine and yours", word));
    }
    MovedPath& moved = all.emplace_back();
    moved.there = without_slash(word.substr(0, cut));
    std::error_code error;
    moved.here = without_slash(fs::absolute(word.substr(cut + 1), error).string());
    if (!fs::exists(moved.here, error)) {
      throw ConfigError(fmt::format("--data {}: {} does not exist", word, moved.here));
    }
  }
  return all;
}

std::vector<std::string> moved_keys(const Node& config, const std::vector<MovedPath>& moved) {
  std::vector<std::string> keys;
  each_text_of_data(config, [&](const std::string& key, const std::string& value) {
    const MovedPath* longest = nullptr;
    for (const MovedPath& one : moved) {
      const bool is_below = value == one.there || value.starts_with(one.there + "/");
      const bool is_longer = longest == nullptr || one.there.size() > longest->there.size();
      if (is_below && is_longer) longest = &one;
    }
    if (longest == nullptr) return;
    const std::string path = longest->here + value.substr(longest->there.size());
    keys.push_back(fmt::format("{}={}", key, to_flow(Node::scalar(path, {}, /*quoted=*/true))));
  });
  return keys;
}

}  // namespace attnlab
