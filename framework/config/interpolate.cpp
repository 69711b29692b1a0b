// References: ${key}, ${.relative}, ${env:NAME,default} in a composed tree.
#include <fmt/format.h>
#include <algorithm>
#include <cstdlib>
#include <set>

#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/config/compose.h"

namespace attnlab {
namespace {

constexpr std::size_t kMostText = 1 << 24;  ///< bytes that references may copy in all

using Path = std::vector<std::string>;

Path split(std::string_view key) {
  Path path;
  while (!key.empty()) {
    const std::size_t dot = key.find('.');
    path.emplace_back(key.substr(0, dot));
    key = dot == std::string_view::npos ? "" : key.substr(dot + 1);
  }
  return path;
}

/// What a reference names that stands at `path`: `.x` is a sibling, `..x` one level up.
/// @returns false when it leaves the tree.
bool target_of(const std::string& reference, const Path& path, Path& target) {
  const std::size_t up = std::min(reference.find_first_not_of('.'), reference.size());
  if (up > path.size()) return false;
  if (up > 0) target.assign(path.begin(), path.end() - static_cast<std::ptrdiff_t>(up));
  const Path rest = split(std::string_view(reference).substr(up));
  target.insert(target.end(), rest.begin(), rest.end());
  return true;
}

/// An entry of a map or, by its number, an item of a list.
template <class AnyNode>  // Node or const Node
AnyNode* child(AnyNode& node, const std::string& key) {
  if (!node.is_list()) return node.find(key);
  const auto index = parsed_number<std::size_t>(key);
  return index && *index < node.items().size() ? &node.items()[*index] : nullptr;
}

Node environment(const std::string& text, const Place& place) {
  const std::size_t comma = text.find(',');
  const std::string name = text.substr(0, comma);
  if (const char* value = std::getenv(name.c_str())) return Node::scalar(value, place);
  if (comma == std::string::npos) {
    throw ConfigError(
        place,
        fmt::format(
            "${{env:{}}}: the environment has no {}; set it or give a default: ${{env:{},VALUE}}",
            name, name, name));
  }
  return Node::scalar(text.substr(comma + 1), place);
}

/// Of `$${`, which is a plain `${`. @param at  of `${`
bool is_literal(std::string_view text, std::size_t at) { return at > 0 && text[at - 1] == '$'; }

class Interpolator {
 public:
  Interpolator(Node& root, std::vector<std::string>& problems) : root_(root), problems_(problems) {}

  void run() { visit(root_, {}); }

 private:
  void visit(Node& node, const Path& path) {
    if (replaced(path) || !holds_text(node, "${")) return;  // else nodes that share stay shared
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
    if (replaced_.empty()) return false;
    Path prefix;
    for (const std::string& key : path) {
      prefix.push_back(key);
      if (replaced_.count(prefix) > 0) return true;
    }
    return false;
  }

  void replace(Node& node, const Path& path) {
    constexpr std::size_t kLongestChain = 1000;  // each takes some of the stack
    if (active_.size() >= kLongestChain) {
      throw ConfigError(
          node.place(),
          fmt::format("references follow each other more than {} times here", kLongestChain));
    }
    if (!active_.insert(path).second) {
      throw ConfigError(node.place(),
                        fmt::format("{}: {} refers to itself", join(path, "."), node.text()));
    }
    std::vector<Origin> history = node.history();
    // A history is told line by line.
    const bool lines = node.text().find('\n') != std::string::npos;
    history.push_back({node.place(), lines ? to_flow(node) : node.text()});
    Node value;
    try {
      expect_room(0, node);
      value = evaluate(node, path);
      const std::size_t size = bytes_in(value);
      expect_room(size, node);
      copied_ += size;
    } catch (const ConfigError& error) {
      problems_.push_back(error.what());
      value = Node();
      value.set_place(node.place());
    }
    value.history() = std::move(history);  // its own life; that of the value is told where that is
    node = std::move(value);
    active_.erase(path);
    replaced_.insert(path);
  }

  /// @throws ConfigError where so many bytes more are too many; then nothing else is copied either.
  void expect_room(std::size_t bytes, const Node& node) {
    if (copied_ + bytes <= kMostText) return;
    copied_ += bytes;
    throw ConfigError(node.place(), one_line(node.text()) + " grows too large");
  }

  Node evaluate(const Node& node, const Path& path) {
    const std::string& text = node.text();
    std::string out;
    std::size_t at = 0;
    bool literal = false;
    while (true) {
      const std::size_t start = text.find("${", at);
      if (start == std::string::npos) break;
      if (is_literal(text, start)) {
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
        throw ConfigError(node.place(),
                          text.substr(start, end + 1 - start) +
                              " is not a single value and cannot stand inside a text");
      }
      out += text.substr(at, start - at) + value.text();
      expect_room(out.size(), node);
      at = end + 1;
    }
    out += text.substr(at);
    return Node::scalar(out, node.place(), node.quoted() || literal);
  }

  Node look_up(const std::string& reference, const Node& node, const Path& path) {
    if (reference.rfind("env:", 0) == 0) return environment(reference.substr(4), node.place());
    Path target;
    if (!target_of(reference, path, target)) {
      throw ConfigError(node.place(), fmt::format("${{{}}} leaves the tree", reference));
    }
    return resolved(target, reference, node);
  }

  Node resolved(const Path& target, const std::string& reference, const Node& node) {
    Node* at = &root_;
    Path walked;
    for (const std::string& key : target) {
      if (at->is_scalar()) visit(*at, walked);  // may stand for a map
      Node* next = child(*at, key);
      if (next == nullptr) {
        throw ConfigError(node.place(),
                          fmt::format("${{{}}}: {}", reference, absence(*at, key, walked)));
      }
      at = next;
      walked.push_back(key);
    }
    visit(*at, walked);  // what it holds may refer further
    Node value = *at;
    value.set_place(node.place());
    return value;
  }

  static std::string absence(const Node& node, const std::string& key, const Path& walked) {
    const std::string where = walked.empty() ? "" : fmt::format(" in '{}'", join(walked, "."));
    const std::string what = fmt::format("there is no '{}'{}", key, where);
    if (node.is_list()) {
      return fmt::format("{}, a list of {}; items count from 0", what, node.items().size());
    }
    std::vector<std::string> names;
    for (const auto& [name, value] : node.entries()) names.push_back(name);
    return what + suggestion(key, names);
  }

  Node& root_;
  std::vector<std::string>& problems_;
  std::set<Path> active_, replaced_;
  std::size_t copied_ = 0;
};

}  // namespace

void interpolate(Node& root, std::vector<std::string>& problems) {
  Interpolator(root, problems).run();
}

void interpolate(Node& root) {
  std::vector<std::string> problems;
  interpolate(root, problems);
  if (!problems.empty()) throw ConfigError(problems);
}

bool has_reference(std::string_view text) {
  for (std::size_t at = text.find("${"); at != text.npos; at = text.find("${", at + 2)) {
    if (!is_literal(text, at)) return true;
  }
  return false;
}

std::string referred_key(const std::string& reference, const std::string& key) {
  Path target;
  return target_of(reference, split(key), target) ? join(target, ".") : "";
}

const Node* find_key(const Node& root, std::string_view key) {
  const Node* node = &root;
  for (const std::string& part : split(key)) {
    node = child(*node, part);
    if (node == nullptr) return nullptr;
  }
  return node;
}

}  // namespace attnlab
