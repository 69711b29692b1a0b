#include "framework/core/compose.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "framework/core/files.h"
#include "framework/core/text.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 100;               ///< parts of a key on the command line
constexpr std::size_t kMostText = 1 << 24;  ///< bytes that references may copy in all

// ---- merging

bool same_value(const Node& a, const Node& b) { return to_flow(a) == to_flow(b); }

/// The new value takes over the old one's history, with the old value as its last step.
Node succeeding(const Node& old, Node value) {
  std::vector<Origin> history = old.history();
  history.push_back({old.place(), to_flow(old)});
  history.insert(history.end(), value.history().begin(), value.history().end());
  value.history() = std::move(history);
  return value;
}

void append(Node& base, const std::string& key, const Node& extra) {
  if (!extra.is_list()) {
    throw ConfigError(extra.place(),
                      "'" + key + "+' appends to a list; write [" + to_flow(extra) + "]");
  }
  const Node* present = base.find(key);
  if (present == nullptr || present->is_null()) {
    base.set(key, extra);
    return;
  }
  if (!present->is_list()) {
    throw ConfigError(extra.place(), "'" + key + "+' appends to a list, but '" + key + "' is " +
                                         to_flow(*present) + " (" + present->place().str() + ")");
  }
  Node longer = *present;
  longer.history().clear();  // `succeeding` adds it
  longer.items().insert(longer.items().end(), extra.items().begin(), extra.items().end());
  longer.set_place(extra.place());
  base.set(key, succeeding(*present, std::move(longer)));
}

void remove(Node& base, const std::string& key, const Node& what, const Place& key_place) {
  const Node* present = base.find(key);
  if (present == nullptr) {
    std::vector<std::string> names;
    for (const auto& [name, value] : base.entries()) names.push_back(name);
    throw ConfigError(key_place, "'" + key + "-' removes '" + key + "', which is not there" +
                                     suggestion(key, names));
  }
  if (what.is_null()) {
    base.erase(key);
    return;
  }
  if (!what.is_list() || !present->is_list()) {
    throw ConfigError(what.place(),
                      "'" + key + "-' removes items of a list (or, without a value, the key)");
  }
  Node shorter = *present;
  shorter.history().clear();
  for (const Node& item : what.items()) {
    const auto equal = [&](const Node& other) { return same_value(item, other); };
    if (std::erase_if(shorter.items(), equal) == 0) {
      throw ConfigError(item.place(), "'" + key + "' has no item " + to_flow(item) +
                                          " to remove; " + "it is " + to_flow(*present));
    }
  }
  shorter.set_place(what.place());
  base.set(key, succeeding(*present, std::move(shorter)));
}

bool names_other_plugin(const Node& base, const Node& over) {
  const Node* before = base.find("use");
  const Node* after = over.find("use");
  return before != nullptr && after != nullptr && !same_value(*before, *after);
}

/// `attention: quest` is short for `attention: {use: quest}`.
Node used(const Node& name) {
  Node map = Node::map(name.place());
  map.set("use", name);
  return map;
}

/// A scalar that meets a map can only be the short form of one (unless it refers to something).
bool names_plugin(const Node& node) {
  return node.is_scalar() && node.text().find("${") == std::string::npos;
}

/// Maps are merged even into nothing, so that `key+` inside them is applied.
Node applied(const Node& value) {
  if (!value.is_map()) return value;
  Node fresh = Node::map(value.place());
  merge(fresh, value);
  return fresh;
}

void merge_entry(Node& base, const std::string& key, const Node& value, const Place& key_place) {
  if (key.size() > 1 && key.back() == '+') {
    return append(base, key.substr(0, key.size() - 1), value);
  }
  if (key.size() > 1 && key.back() == '-') {
    return remove(base, key.substr(0, key.size() - 1), value, key_place);
  }
  Node* present = base.find(key);
  if (present != nullptr && value.is_map() && names_plugin(*present)) *present = used(*present);
  if (present == nullptr) {
    base.set(key, applied(value));
  } else if (present->is_map() && value.is_map()) {
    merge(*present, value);
  } else if (present->is_map() && value.is_scalar() && present->find("use") != nullptr) {
    merge(*present, used(value));
  } else {
    base.set(key, succeeding(*present, applied(value)));
  }
  base.set_key_place(key, key_place);
}

// ---- files

class FileLoader {
 public:
  Node load(const std::string& path, const Place& from) {
    std::error_code error;
    const fs::path canonical = fs::weakly_canonical(path, error);
    const std::string identity = error ? path : canonical.string();
    if (std::find(open_.begin(), open_.end(), identity) != open_.end()) {
      throw ConfigError(from, "extends itself: " + join(shown_, " -> ") + " -> " + path);
    }
    open_.push_back(identity);
    shown_.push_back(path);
    Node root = parse_yaml(read(path, from), path);
    if (!root.is_map()) {
      throw ConfigError({path, 1, 1}, "expected a map at the top, found " + to_flow(root));
    }
    Node expanded = expand(root, fs::path(path).parent_path());
    open_.pop_back();
    shown_.pop_back();
    return expanded;
  }

 private:
  static std::string read(const std::string& path, const Place& from) {
    try {
      return read_text(path);
    } catch (const FileError& error) {
      if (from.file.empty()) throw;
      throw ConfigError(from, error.what());
    }
  }

  /// Applies `extends` in this map and in the maps below it.
  Node expand(const Node& map, const fs::path& folder) {
    Node own = Node::map(map.place());
    for (const auto& [key, value] : map.entries()) {
      if (key == "extends") continue;
      own.set(key, value.is_map() ? expand(value, folder) : value);
      own.set_key_place(key, map.key_place(key));
    }
    const Node* extends = map.find("extends");
    if (extends == nullptr) return own;  // `key+` and `key-` wait for the map they will meet
    Node result = Node::map(map.place());
    for (const Node& file : files_of(*extends)) {
      const fs::path path = (folder / file.text()).lexically_normal();
      merge(result, load(path.string(), file.place()));
    }
    merge(result, own);
    return result;
  }

  static std::vector<Node> files_of(const Node& extends) {
    if (extends.is_scalar()) return {extends};
    if (extends.is_list() && std::all_of(extends.items().begin(), extends.items().end(),
                                         [](const Node& item) { return item.is_scalar(); })) {
      return extends.items();
    }
    throw ConfigError(extends.place(),
                      "extends: expected a file or a list of files, found " + to_flow(extends));
  }

  std::vector<std::string> open_;   // canonical
  std::vector<std::string> shown_;  // as written
};

// ---- interpolation

class Interpolator {
 public:
  explicit Interpolator(Node& root) : root_(root) {}

  void run() {
    visit(root_, {});
    if (!problems_.empty()) throw ConfigError(problems_);
  }

 private:
  using Path = std::vector<std::string>;

  void visit(Node& node, const Path& path) {
    if (replaced(path)) return;
    for (std::size_t i = 0; i < node.items().size(); ++i) {
      Path inner = path;
      inner.push_back(std::to_string(i));
      visit(node.items()[i], inner);
    }
    for (auto& [key, value] : node.entries()) {
      Path inner = path;
      inner.push_back(key);
      visit(value, inner);
    }
    if (node.is_scalar() && node.text().find("${") != std::string::npos) replace(node, path);
  }

  /// What stands in place of a reference is final: a `${` in it is text, not a reference.
  bool replaced(const Path& path) const {
    Path prefix;
    for (const std::string& key : path) {
      prefix.push_back(key);
      if (replaced_.count(prefix) > 0) return true;
    }
    return false;
  }

  void replace(Node& node, const Path& path) {
    if (!active_.insert(path).second) {
      throw ConfigError(node.place(), join(path, ".") + ": " + node.text() + " refers to itself");
    }
    try {
      Node value = evaluate(node, path);
      copied_ += size_of(value);
      if (copied_ > kMostText) throw ConfigError(node.place(), node.text() + " grows too large");
      value.history().insert(value.history().begin(), {node.place(), node.text()});
      node = std::move(value);
    } catch (const ConfigError& error) {
      problems_.push_back(error.what());
      node = Node::scalar("", node.place());
    }
    active_.erase(path);
    replaced_.insert(path);
  }

  static std::size_t size_of(const Node& node) {
    std::size_t size = sizeof(Node) + node.text().size();
    for (const Node& item : node.items()) size += size_of(item);
    for (const auto& [key, value] : node.entries()) size += size_of(value);
    return size;
  }

  Node evaluate(const Node& node, const Path& path) {
    const std::string& text = node.text();
    std::string out;
    std::size_t at = 0;
    bool literal = false;
    while (true) {
      const std::size_t start = text.find("${", at);
      if (start == std::string::npos) break;
      if (start > 0 && text[start - 1] == '$') {  // $${ is a plain ${
        out += text.substr(at, start - 1 - at) + "${";
        at = start + 2;
        literal = true;
        continue;
      }
      const std::size_t end = text.find('}', start);
      if (end == std::string::npos) throw ConfigError(node.place(), "'${' without '}' in " + text);
      const std::string reference = text.substr(start + 2, end - start - 2);
      if (reference.find("${") != std::string::npos) {
        throw ConfigError(node.place(), "a reference cannot stand inside another, as in " + text);
      }
      Node value = look_up(reference, node, path);
      if (start == 0 && end + 1 == text.size()) return value;
      if (!value.is_scalar()) {
        throw ConfigError(node.place(), text.substr(start, end + 1 - start) +
                                            " is no single value and cannot stand inside a text");
      }
      out += text.substr(at, start - at) + value.text();
      at = end + 1;
    }
    out += text.substr(at);
    return Node::scalar(out, node.place(), node.quoted() || literal);
  }

  Node look_up(const std::string& reference, const Node& node, const Path& path) {
    if (reference.rfind("env:", 0) == 0) return environment(reference.substr(4), node.place());
    Path target;
    std::string rest = reference;
    if (!rest.empty() && rest[0] == '.') {  // .x is a sibling, ..x one level up
      std::size_t up = 0;
      while (up < rest.size() && rest[up] == '.') ++up;
      if (up > path.size()) throw ConfigError(node.place(), "${" + reference + "} leaves the tree");
      target.assign(path.begin(), path.end() - static_cast<std::ptrdiff_t>(up));
      rest = rest.substr(up);
    }
    while (!rest.empty()) {
      const std::size_t dot = rest.find('.');
      target.push_back(rest.substr(0, dot));
      rest = dot == std::string::npos ? "" : rest.substr(dot + 1);
    }
    return resolved(target, reference, node);
  }

  Node resolved(const Path& target, const std::string& reference, const Node& node) {
    Node* at = &root_;
    Path walked;
    for (const std::string& key : target) {
      if (at->is_scalar()) visit(*at, walked);  // may stand for a map
      Node* next = at->find(key);
      if (next == nullptr) {
        std::vector<std::string> names;
        for (const auto& [name, value] : at->entries()) names.push_back(name);
        const std::string where = walked.empty() ? "" : " in '" + join(walked, ".") + "'";
        throw ConfigError(node.place(), "${" + reference + "}: there is no '" + key + "'" + where +
                                            suggestion(key, names));
      }
      at = next;
      walked.push_back(key);
    }
    visit(*at, walked);  // what it holds may refer further
    Node value = *at;
    value.set_place(node.place());
    return value;
  }

  static Node environment(const std::string& text, const Place& place) {
    const std::size_t comma = text.find(',');
    const std::string name = text.substr(0, comma);
    if (const char* value = std::getenv(name.c_str())) return Node::scalar(value, place);
    if (comma == std::string::npos) {
      throw ConfigError(place, "${env:" + name + "}: the environment has no " + name +
                                   "; set it or give a default: ${env:" + name + ",VALUE}");
    }
    return Node::scalar(text.substr(comma + 1), place);
  }

  Node& root_;
  std::set<Path> active_, replaced_;
  std::size_t copied_ = 0;
  std::vector<std::string> problems_;
};

void set_places(Node& node, const Place& place) {
  node.set_place(place);
  for (Node& item : node.items()) set_places(item, place);
  for (auto& [key, value] : node.entries()) {
    set_places(value, place);
    node.set_key_place(key, place);
  }
}

}  // namespace

void merge(Node& base, const Node& over) {
  if (names_other_plugin(base, over)) {
    Node fresh = succeeding(base, Node::map(over.place()));
    fresh.set("use", *base.find("use"));  // its history shows the plugin that was there before
    base = std::move(fresh);
  }
  for (const auto& [key, value] : over.entries()) {
    merge_entry(base, key, value, over.key_place(key));
  }
}

Node parse_override(const std::string& argument) {
  const Place place{"argument '" + argument + "'", 0, 0};
  const std::size_t equals = argument.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw ConfigError(place, "expected key=value");
  }
  std::string path = argument.substr(0, equals);
  const std::string text = argument.substr(equals + 1);
  Node value;
  try {
    value = parse_yaml(text, "");
  } catch (const ConfigError& error) {
    throw ConfigError(place, std::string("the value is no YAML: ") + error.what());
  }
  if (value.is_null() && !text.empty() && text != "null" && text != "~") {
    value = Node::scalar(text);  // a lone comment sign and the like
  }
  set_places(value, place);
  if (std::count(path.begin(), path.end(), '.') >= kDeepest) {
    throw ConfigError(place, "the key has too many parts");
  }
  while (true) {
    const std::size_t dot = path.rfind('.');
    const std::string key = dot == std::string::npos ? path : path.substr(dot + 1);
    if (key.empty()) throw ConfigError(place, "the key has an empty part");
    Node map = Node::map(place);
    map.set(key, std::move(value));
    map.set_key_place(key, place);
    value = std::move(map);
    if (dot == std::string::npos) return value;
    path.resize(dot);
  }
}

Node load_file(const std::string& path) {
  Node root = Node::map({path, 1, 1});
  merge(root, FileLoader().load(path, {}));
  return root;
}

void interpolate(Node& root) { Interpolator(root).run(); }

Node compose_file(const std::string& path, const std::vector<std::string>& overrides) {
  Node root = load_file(path);
  std::vector<std::string> problems;
  for (const std::string& argument : overrides) {
    try {
      merge(root, parse_override(argument));
    } catch (const ConfigError& error) {
      problems.push_back(error.what());
    }
  }
  if (!problems.empty()) throw ConfigError(problems);
  interpolate(root);
  return root;
}

}  // namespace attnlab
