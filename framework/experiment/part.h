// The parts of an experiment: plugins that its sections name, with their options.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/config/node.h"
#include "framework/config/problems.h"
#include "framework/experiment/layer_choice.h"
#include "framework/experiment/positions_options.h"
#include "framework/experiment/projection_options.h"
#include "framework/manifest/discovery.h"

namespace attnlab {

/// One part of an experiment: a plugin and its options.
struct Part {
  Kind kind = Kind::attention;
  std::string name;   ///< the plugin's name
  std::string label;  ///< what tables call it (`as:`); the name unless given
  Node options;       ///< resolved: every option of the plugin
  Place place;        ///< where `use:` stands
  std::string path;   ///< the plugin's file; a `PythonName` where that is Python's
  std::string id;     ///< "lab/name"
  /// Of an attention: what some layers have in its place (`layers:`), sorted by their keys.
  std::vector<Part> others;
  LayerChoice layers;  ///< of one of those: which layers; else without a key
  /// Of an attention: how all its layers make keys and values.
  ProjectionOptions projection;
  /// Of an attention: what all its layers are told of where tokens stand.
  PositionsOptions positions;
  Place positions_place;  ///< where that stands
};

/// Whether a composition names a part's Python file: what is in it is kept with the run. One that
/// was installed is found by its name as any plugin.
bool names_file(const Part& part);

/// What the catalogue finds a part's plugin by: its id, or its Python file.
std::string lookup_name(const Part& part);

/// Where a part stands in an experiment: "model", "attention", "attention.layers.last".
std::string section_key(const Part& part);

/// "linear"; "linear (every_4: standard)".
std::string mechanisms_text(const Part& attention);

/// The mechanism of one layer: of `others` that which names it, else the attention itself.
/// @param layers  how many the stack has
/// @throws ConfigError where a key names a layer that is not there, or two of them name one.
const Part& mechanism_of(const Part& attention, std::int64_t layer, std::int64_t layers);

/// Whether an attention with the trait `ordered` was asked to do without the causal rule: its
/// option `both_ways`.
bool reads_both_ways(const Part& attention);

/// One part outside any experiment, its options checked and filled in.
/// @param name     "quest" or "attnlab/quest", or a `PythonName`
/// @param options  a map, or null for "all defaults"
/// @throws PluginError when there is no such plugin, ConfigError with every problem of the options.
Part part_of(Kind kind, const std::string& name, const Node& options, const Catalogue& catalogue);

/// Resolves a composition's section of one kind.
/// @param part      what is found
/// @param resolved  gets the section with every option filled in
/// @param problems  what is wrong is appended
/// @returns the plugin's manifest, or null when there were problems with the plugin.
const Manifest* resolve_part(const Node& composed, Kind kind, const Catalogue& catalogue,
                             Part& part, Node& resolved, Problems& problems);

/// The traits that a model relies on under its options.
std::vector<std::string> needs_of(const Part& model, const Manifest& manifest);

/// Attention layers that share a ForwardState.
struct LayerStack {
  std::string key;  ///< "model.depth": the option that says how many there are
  std::int64_t layers = 0;
  bool operator==(const LayerStack&) const = default;
};

/// The stacks that a model has under its options, as its manifest declares them
/// (PluginInfo::stacks); empty where it does not: then nothing is known before it is built.
std::vector<LayerStack> stacks_of(const Part& model, const Manifest& manifest);

/// Appends to `problems` each key of `attention.layers` that chooses no layer of one of the model's
/// stacks, layers that two keys name, and gaps between layers of a mechanism that needs
/// `kConsecutive`.
/// @param attention  the whole of it
void check_stacks(const std::vector<LayerStack>& stacks, const Part& attention,
                  const Catalogue& catalogue, Problems& problems);

/// Appends to `problems` that `attention.positions` gives a bias that a mechanism does not honour.
/// @param attention  the whole stack
/// @param mechanism  one of its mechanisms
void check_positions(const Part& attention, const Part& mechanism, const Manifest& has,
                     Problems& problems);

/// Appends to `problems` each trait that the model needs and the attention lacks, and that the
/// attention needs the causal rule where the model has none.
/// @param attention  one mechanism: those of its `others` are checked by themselves
void check_traits(const Part& model, const Manifest& needs, const Part& attention,
                  const Manifest& has, Problems& problems);

}  // namespace attnlab
