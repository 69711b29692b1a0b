// Every key of an experiment with its type, range, default and help, parts' options included: what
// explanations, completion and the JSON schema say about keys. And what depends on each: the hash
// of a run, whether runs may be compared, what a run costs.
#pragma once

#include "framework/experiment/canonical.h"
#include "framework/manifest/discovery.h"
#include "framework/manifest/schema.h"

namespace attnlab {

/// A part's keys: `use`, `as`, `layers`, `projection` and `positions` of an attention, and the
/// plugin's options.
/// @param options  null: those of no plugin
Schema part_keys(Kind kind, const Schema* options, const Catalogue& catalogue);

/// An experiment's keys without the options of plugins.
const Schema& experiment_keys();

/// The same. A part has the options of the plugin that the composition names, if any.
/// @param composed  as `compose` makes it; may be unsound
Schema experiment_keys(const Node& composed, const Catalogue& catalogue);

/// The least role of a key like {"train", "tensorboard"} and of those that hold it; of a key that
/// is not known here (a plugin's option, a key of an earlier attnlab) `cost`, as of most.
Role role_of(const KeyPath& path);

/// What `role` depends on.
/// @param config  an experiment's configuration, resolved
Node counted(Node config, Role role);

}  // namespace attnlab
