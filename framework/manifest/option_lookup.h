// Options found by their keys, and what a wrong key may have meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "framework/manifest/schema.h"

namespace attnlab {

/// The option at a key like "train.optimizer.lr"; null when there is none. In a map of free names
/// every name is one.
const OptionSpec* find_option(const Schema& schema, std::string_view key);

/// Keys of all options, groups before what they hold: "train", "train.epochs", ... In maps of free
/// names: of those names that are known.
std::vector<std::string> option_keys(const Schema& schema);

/// A schema that knows the names which a composition has given to groups of its own.
/// @param composed  a map, sound or not
Schema with_names(Schema schema, const Node& composed);

/// For a key that a map must not have: the same key deeper down ("; did you mean 'optimizer.lr'?"),
/// or how a file writes what the command line writes with dots, or a near name.
std::string suggest_key(const std::string& word, const Schema& schema);

}  // namespace attnlab
