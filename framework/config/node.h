// A configuration value that remembers where it came from.
//
// A file is parsed once into a tree of nodes; composing copies nodes and never loses their places.
// (yaml-cpp's own nodes lose marks on copy, accept duplicate keys and read `010` as eight.)
// Copies share what they hold until one of them is changed: the points of a sweep, or the
// configurations of many runs, take little more memory than one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/base/error.h"

namespace attnlab {

/// One step in the life of a value: where it was set, and to what.
struct Origin {
  Place place;
  std::string value;
};

/// A null, a scalar, a list or a map (keys in the order of the file).
///
/// What a function that is not const returns (`find`, `items`, `entries`, `set`, `history`) is this
/// node's alone, until the node or one around it is copied: change nothing through it afterwards.
class Node {
 public:
  enum class Kind { null, scalar, list, map };

  Node() = default;
  static Node scalar(std::string text, Place place = {}, bool quoted = false);
  static Node list(Place place = {});
  static Node map(Place place = {});

  Kind kind() const { return body().kind; }
  bool is_null() const { return kind() == Kind::null; }
  bool is_scalar() const { return kind() == Kind::scalar; }
  bool is_list() const { return kind() == Kind::list; }
  bool is_map() const { return kind() == Kind::map; }

  /// A scalar's text, as written. Quoted scalars are strings whatever they look like.
  const std::string& text() const { return body().text; }
  void set_text(std::string text) { own().text = std::move(text); }
  bool quoted() const { return body().quoted; }

  std::vector<Node>& items() { return own().items; }
  const std::vector<Node>& items() const { return body().items; }
  std::vector<std::pair<std::string, Node>>& entries() { return own().entries; }
  const std::vector<std::pair<std::string, Node>>& entries() const { return body().entries; }

  /// The entry of a map, or null when there is none (or this is not a map).
  const Node* find(std::string_view key) const;
  Node* find(std::string_view key);
  /// The entry of a map. @throws ConfigError naming this node's place when it is missing.
  const Node& at(std::string_view key) const;
  /// Sets or adds an entry; this must be a map.
  Node& set(std::string_view key, Node value);
  bool erase(std::string_view key);
  /// Where the entry's key stands (the value's place where the key's is not known).
  Place key_place(std::string_view key) const;
  void set_key_place(std::string_view key, Place place);

  const Place& place() const { return body().place; }
  void set_place(Place place) { own().place = std::move(place); }
  /// Earlier values of this node, oldest first; the present one is not among them.
  std::vector<Origin>& history() { return own().history; }
  const std::vector<Origin>& history() const { return body().history; }

  // Typed readings of a scalar by YAML 1.2's core schema, stricter: no leading zeros, no `yes`.
  // Empty when the text is not of that type.
  std::optional<bool> as_bool() const;
  std::optional<std::int64_t> as_int() const;
  std::optional<double> as_double() const;
  std::optional<std::string> as_string() const;

 private:
  struct Body {
    Kind kind = Kind::null;
    bool quoted = false;
    std::string text;
    std::vector<Node> items;
    std::vector<std::pair<std::string, Node>> entries;
    std::vector<std::pair<std::string, Place>> key_places;
    Place place;
    std::vector<Origin> history;
  };

  static Node of_kind(Kind kind, Place place);
  static const Body& none();
  const Body& body() const { return body_ == nullptr ? none() : *body_; }
  /// The body of this node alone.
  Body& own();
  friend std::size_t bytes_in(const Node& node);

  std::shared_ptr<Body> body_;  ///< null: a null from nowhere
};

/// Memory that a tree takes, about, with its keys and its history, if it shares none.
std::size_t bytes_in(const Node& node);
/// One line of YAML (flow style) that parses back to the same value.
std::string to_flow(const Node& node);
/// A YAML document in block style that composes back to the same value: `${`, which stands for
/// itself in a composed tree, is written as `$${`.
std::string to_yaml(const Node& node);

/// Whether a scalar of this tree has `part` in its text.
bool holds_text(const Node& node, std::string_view part);

/// Makes every `${` below this node stand for itself when the tree is interpolated (again).
void escape_references(Node& node);

}  // namespace attnlab
