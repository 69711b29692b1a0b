// Composition: YAML files and command-line overrides become one tree.
//
// Rules, in order of application:
//   extends: [a.yaml, b.yaml]  left to right, then the map that says so; paths are relative to its
//                              file; any map may extend
//   maps merge, lists and scalars replace
//   key+: [x]                  appends to a list
//   key-: [x]                  removes items from a list;  key-:  (nothing) removes the key
//   use: name                  names a plugin; changing it drops the old one's options;
//                              where a name meets a map, `attention: quest` means {use: quest}
//   a.b=value, a.b+=, a.b-=    the same on the command line, values in YAML
//   ${a.b}, ${.sibling}        another value of the tree;  ${env:NAME,default}  the environment;
//                              $${ stands for a plain ${
//   ???                        a value that must be given
#pragma once

#include <string>
#include <vector>

#include "framework/core/node.h"

namespace attnlab {

/// Parses one YAML document. Anchors and aliases work; duplicate keys are errors.
/// @param file  the name that places carry.
/// @throws ConfigError with file, line and column.
Node parse_yaml(const std::string& text, const std::string& file);

/// Parses one command-line override into a tree of maps ("train.lr=0.1" -> {train: {lr: 0.1}}).
/// @throws ConfigError.
Node parse_override(const std::string& argument);

/// Merges `over` into `base` by the rules above; replaced values go into the history.
void merge(Node& base, const Node& over);

/// Loads a file with everything it extends, applies overrides, and interpolates.
/// @throws ConfigError naming every problem; FileError when a file cannot be read.
Node compose_file(const std::string& path, const std::vector<std::string>& overrides = {});

/// Loads a file with everything it extends; neither overrides nor interpolation.
Node load_file(const std::string& path);

/// Replaces every ${...} in the tree. @throws ConfigError naming every unknown or circular one.
void interpolate(Node& root);

}  // namespace attnlab
