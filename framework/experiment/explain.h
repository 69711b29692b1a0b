// The life of a value: every place that set, changed or removed it, oldest first.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/config/compose.h"
#include "framework/manifest/schema.h"

namespace attnlab {

/// One step in the life of a value.
struct Step {
  enum class Kind {
    set,
    refer,         ///< set to a text with references
    append,        ///< of items to a list
    remove_items,  ///< of a list
    remove,        ///< the key is gone
    drop,          ///< the key went with the plugin it was an option of, or with a replaced map
    fill_in,       ///< with the option's default
  };
  Kind kind = Kind::set;
  Place place;
  std::string value;  ///< after the step, in YAML; as written where it refers; empty when gone
};

std::string_view name_of(Step::Kind kind);

struct Explanation {
  std::string key;
  std::optional<Node> value;  ///< after composing; none when the key is not there
  std::vector<Step> steps;
  std::vector<Explanation> references;  ///< the values that the present one was taken from
  std::optional<OptionSpec> option;     ///< what the key means, where that is known
};

/// Explains a key, or everything below it where it is a map.
/// @param keys  of the kind of composition (see keys.h): defaults and help
/// @throws ConfigError with near names when there is and was no such key.
std::vector<Explanation> explain(const Composition& composition, const Schema& keys,
                                 const std::string& key);

/// For people: places in one column, values in the next.
std::string explanation_text(const std::vector<Explanation>& explanations);
std::string explanation_json(const std::vector<Explanation>& explanations);

}  // namespace attnlab
