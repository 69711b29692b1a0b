// Every key of an experiment with its type, range, default and help, parts' options included: what
// explanations, completion and the JSON schema say about keys.
#pragma once

#include "framework/manifest/discovery.h"
#include "framework/manifest/schema.h"

namespace attnlab {

/// A part's keys: `use`, `as` where the kind has labels, and the plugin's options.
/// @param options  null: those of no plugin
Schema part_keys(Kind kind, const Schema* options, const Catalogue& catalogue);

/// An experiment's keys. A part has the options of the plugin that the composition names, if any.
/// @param composed  as `compose` makes it; may be unsound
Schema experiment_keys(const Node& composed, const Catalogue& catalogue);

}  // namespace attnlab
