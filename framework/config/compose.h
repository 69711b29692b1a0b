// Composition: YAML files and command-line overrides become one tree.
//
// Rules, in order of application:
//   extends: [a.yaml, b.yaml]  left to right, then the map that says so; paths are relative to its
//                              file (on the command line: to the working folder) and may hold
//                              ${env:NAME}; any map may extend
//   maps merge, lists and scalars replace
//   key+: [x]                  appends to a list
//   key-: [x]                  removes items from a list;  key-:  (nothing) removes the key
//                              (both wait inside `set` and `fallback`, the changes that a suite
//                              makes in experiments, and inside `set` of an entry of `evaluate`,
//                              until they meet the experiment)
//   use: name                  names a plugin; changing it drops the old one's options;
//                              where a name meets a map, `attention: quest` means {use: quest}
//   a.b=value, a.b+=, a.b-=    the same on the command line, values as `parse_value` reads them
//   ${a.b}, ${.sibling}        another value of the tree (${list.0}: an item of a list);
//                              ${env:NAME,default}  the environment;  $${ stands for a plain ${
//   ???                        a value that must be given
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "framework/config/node.h"

namespace attnlab {

/// Something that composing did and that the tree does not show any more.
struct Edit {
  enum class Kind {
    append,        ///< `key+: [x]`
    remove_items,  ///< `key-: [x]`
    remove,        ///< `key-:`
    drop,  ///< went with the plugin that it was an option of, or with a map that was replaced
  };
  Kind kind = Kind::remove;
  std::string key;  ///< from the top: "train.optimizer.lr"
  Place place;      ///< of what did it
  Node before;      ///< what was there until then, with its history
};

/// A composed tree, how it came about, and all that is wrong with it.
struct Composition {
  Node root;
  std::vector<Edit> edits;  ///< in the order of application
  std::vector<std::string> problems;
  /// False when a file is missing or cannot be parsed. What else is wrong then may follow from
  /// that.
  bool whole = true;
};

/// Parses one YAML document. Anchors, aliases, a byte-order mark work; duplicate keys are errors.
/// @param file  the name that places carry.
/// @throws ConfigError with file, line and column.
Node parse_yaml(const std::string& text, const std::string& file);

/// Parses a value that a shell, or a comma of a grammar, has delimited. [a, b], {key: value}, 'a'
/// and "a" are lists, maps and texts as YAML has them; comments, anchors and tags in them, and what
/// stands behind them, are refused. Anything else is a number, a word or a text as it stands: `#`,
/// `&`, `*`, a colon and the like are plain signs in it.
/// @param place  what all of it carries. @throws ConfigError.
Node parse_value(const std::string& text, const Place& place);

/// Parses one command-line override into a tree of maps ("train.lr=0.1" -> {train: {lr: 0.1}}).
/// @param place  what its values carry; none: the argument itself
/// @throws ConfigError.
Node parse_override(const std::string& argument, const Place& place = {});

/// Merges `over` into `base` by the rules above; replaced values go into the history.
/// @throws ConfigError naming every problem; what was not a problem is merged then.
void merge(Node& base, const Node& over);

/// Loads a file with everything it extends, applies overrides, and interpolates. What is wrong
/// stands in `problems`, and the tree is without it. @throws FileError when the file itself cannot
/// be read.
Composition compose(const std::string& path, const std::vector<std::string>& overrides = {});
/// The same of a file that is loaded already.
Composition compose(Composition loaded, const std::vector<std::string>& overrides);

/// The tree of a composition without problems.
/// @throws ConfigError naming every problem; FileError when the file itself cannot be read.
Node compose_file(const std::string& path, const std::vector<std::string>& overrides = {});
Node compose_file(const Composition& loaded, const std::vector<std::string>& overrides);

/// Loads a file with everything it extends; neither overrides nor interpolation. What is wrong is
/// told as by `compose`.
Composition load_composition(const std::string& path);

/// The tree of one without problems. @throws as `compose_file`.
Node load_file(const std::string& path);

/// Replaces every ${...} in the tree. @throws ConfigError naming every unknown or circular one.
void interpolate(Node& root);
/// The same; problems are appended, and a null stands where a reference has one.
void interpolate(Node& root, std::vector<std::string>& problems);

/// Whether a text holds a `${` that is not written `$${`.
bool has_reference(std::string_view text);

/// The key, from the top, that a reference names: ("..lr", "train.schedule.min_lr") -> "train.lr".
/// @param reference  what stands between `${` and `}`; not of the environment
/// @param key        where it stands
/// @returns nothing when it leaves the tree.
std::string referred_key(const std::string& reference, const std::string& key);

/// The value at "train.optimizer.lr" or "seeds.0"; null when there is none.
const Node* find_key(const Node& root, std::string_view key);

}  // namespace attnlab
