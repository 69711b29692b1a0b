// Options found by their keys, and what a wrong key may have meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "framework/manifest/schema.h"

namespace attnlab {

/// The option at a key like "train.optimizer.lr"; null when there is none.
const OptionSpec* find_option(const Schema& schema, std::string_view key);

/// Keys of all options, groups before what they hold: "train", "train.epochs", ...
std::vector<std::string> option_keys(const Schema& schema);

/// For a key that a map must not have: the same key deeper down ("; did you mean 'optimizer.lr'?"),
/// or how a file writes what the command line writes with dots, or a near name.
std::string suggest_key(const std::string& word, const Schema& schema);

}  // namespace attnlab
