// Every key of an experiment with its type, range, default and help, parts' options included: what
// explanations, completion and the JSON schema say about keys.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/discovery.h"
#include "framework/core/schema.h"

namespace attnlab {

/// A part's keys: `use`, `as` where the kind has labels, and the plugin's options.
/// @param options  null: those of no plugin
Schema part_keys(Kind kind, const Schema* options, const Catalogue& catalogue);

/// An experiment's keys. A part has the options of the plugin that the composition names, if any.
/// @param composed  as `compose` makes it; may be unsound
Schema experiment_keys(const Node& composed, const Catalogue& catalogue);

/// A suite's keys; `set` and `fallback` hold an experiment's.
Schema suite_keys(const Catalogue& catalogue);

/// The option at a key like "train.optimizer.lr"; null when there is none.
const OptionSpec* find_option(const Schema& schema, std::string_view key);

/// Keys of all options, groups before what they hold: "train", "train.epochs", ...
std::vector<std::string> option_keys(const Schema& schema);

/// For a key that a map must not have: the same key deeper down ("; did you mean 'optimizer.lr'?"),
/// or how a file writes what the command line writes with dots, or a near name.
std::string suggest_key(const std::string& word, const Schema& schema);

/// Files of the compositions in ./configs/FOLDER and below, by name, and of the installed ones
/// whose names are not among them. @param folder  "experiments" or "suites"
std::map<std::string, std::vector<std::string>> compositions(const std::string& folder);

}  // namespace attnlab
