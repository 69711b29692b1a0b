#include "runner/sharing/data_paths.h"

#include <fmt/format.h>

#include <filesystem>
#include <functional>

#include "framework/base/text.h"
#include "framework/config/problems.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

using Visit = std::function<void(const std::string& key, const Node& value)>;

/// Visits texts, and lists of them.
void each_value(const Node& node, const std::string& key, const Visit& visit) {
  if (!node.is_map()) return visit(key, node);
  for (const auto& [name, value] : node.entries()) {
    if (name != "cache") each_value(value, key + "." + name, visit);  // which nothing reads
  }
}

/// Visits all values below `dataset:` and below what an evaluation sets there.
void each_value_of_data(const Node& config, const Visit& visit) {
  const auto of = [&](const Node* around, const std::string& key) {
    const Node* const dataset =
        around != nullptr && around->is_map() ? around->find("dataset") : nullptr;
    if (dataset != nullptr) each_value(*dataset, key + "dataset", visit);
  };
  if (!config.is_map()) return;
  of(&config, "");
  const Node* const evaluate = config.find("evaluate");
  if (evaluate == nullptr) return;
  for (const auto& [name, entry] : evaluate->entries()) {
    if (entry.is_map()) of(entry.find("set"), fmt::format("evaluate.{}.set.", name));
  }
}

/// Where a path of the other machine is here; empty: it was not moved.
std::string moved_path(const std::string& path, const std::vector<MovedPath>& moved) {
  const MovedPath* longest = nullptr;
  for (const MovedPath& one : moved) {
    const bool is_below = path == one.there || path.starts_with(one.there + "/");
    const bool is_longer = longest == nullptr || one.there.size() > longest->there.size();
    if (is_below && is_longer) longest = &one;
  }
  return longest == nullptr ? "" : longest->here + path.substr(longest->there.size());
}

std::string without_slash(std::string folder) {
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  return folder;
}

}  // namespace

std::set<std::string> data_paths(const Node& config) {
  std::set<std::string> paths;
  each_value_of_data(config, [&](const std::string&, const Node& value) {
    for (const Node& item : value.is_list() ? value.items() : std::vector<Node>{value}) {
      if (item.is_scalar() && item.text().starts_with('/')) paths.insert(item.text());
    }
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
  each_value_of_data(config, [&](const std::string& key, const Node& value) {
    Node there = value;
    bool changed = false;
    const auto move = [&](Node& one) {
      const std::string path = one.is_scalar() ? moved_path(one.text(), moved) : "";
      if (path.empty()) return;
      one = Node::scalar(path, {}, /*quoted=*/true);
      changed = true;
    };
    if (there.is_list()) {
      for (Node& item : there.items()) move(item);
    } else {
      move(there);
    }
    if (changed) keys.push_back(fmt::format("{}={}", key, to_flow(there)));
  });
  return keys;
}

std::string with_paths_of_there(std::string json, const std::vector<MovedPath>& moved) {
  for (const MovedPath& one : moved) {
    std::string here = json_quote(one.here), there = json_quote(one.there);
    here.pop_back();
    there.pop_back();
    for (std::size_t at = json.find(here); at != std::string::npos;
         at = json.find(here, at + there.size())) {
      const std::size_t end = at + here.size();
      if (end < json.size() && (json[end] == '"' || json[end] == '/')) {
        json.replace(at, here.size(), there);
      }
    }
  }
  return json;
}

}  // namespace attnlab
