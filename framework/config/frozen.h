// A run's frozen configuration: config.yaml in its folder. Whoever ran it wrote it, so it is data:
// it names no other file to read, and nothing of this machine's environment.
#pragma once

#include <string>

#include "framework/config/node.h"

namespace attnlab {

/// Reads a frozen configuration as plain values; `$${` is a literal `${`.
/// @param file  the name that places carry
/// @throws ConfigError with every `extends:` and `${...}` in it, a line each, or where it is not a
/// map.
Node frozen_tree(const std::string& text, const std::string& file);

/// The same of a file. @throws FileError where it cannot be read, or has more than 64 MiB.
Node frozen_file(const std::string& path);

/// Whether a file is the frozen configuration of a run: called config.yaml, beside an
/// identity.json.
bool is_frozen(const std::string& path);

/// @throws ConfigError with every `extends:` and `${...}` of the tree, a line each.
void refuse_composing(const Node& root);

}  // namespace attnlab
