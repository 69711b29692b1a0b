// Keys of `attention.layers`: which layers of a stack have another mechanism than the rest.
//
//   first, last   the ends of the stack
//   every_4       each fourth layer: 3, 7, 11, ... as in stacks of 3 linear layers and 1 of softmax
//   2, 4-7        by number
//   first+last    all of these; 0+2+4-7
//
// Layers count from 0, as in traces and metrics. A model with several stacks (an encoder and a
// decoder, say) counts in each, and the keys hold for each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/config/problems.h"

namespace attnlab {

/// Layers of a stack are numbered below this.
inline constexpr std::int64_t kMostLayers = 1000;

/// One key.
struct LayerChoice {
  /// What stands between its plus signs.
  struct Item {
    std::int64_t low = 0, high = 0;  ///< numbers, both included; `first` is 0 to 0
    std::int64_t every = 0;          ///< 4 of `every_4`; 0: by number
    bool last = false;
  };

  std::string key;
  Place place;  ///< of the key
  std::vector<Item> items;

  /// @param layers  of the stack
  bool has(std::int64_t layer, std::int64_t layers) const;
};

/// @throws ConfigError for a key of another form.
LayerChoice parse_layer_choice(const std::string& key, const Place& place);

/// Appends what keeps the keys from choosing layers of one stack: a layer that two of them name,
/// and layers that are not there.
/// @param layers  of the stack; none: not known yet, and said is what is wrong in every stack that
///                has the layers which are named
/// @param key     the option that says how many they are, "model.depth"; empty: not known
void check_choices(const std::vector<const LayerChoice*>& choices,
                   std::optional<std::int64_t> layers, Problems& problems,
                   const std::string& key = "");

}  // namespace attnlab
