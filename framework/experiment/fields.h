// Fields that plugins take and give, as their manifests say it; traits that models need, likewise.
//
//   class                     always
//   location?                 taken where it is there; given where the data have it
//   class@node if head=node   only where the plugin's own option `head` is `node`, or, of a list,
//                             holds it
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "framework/experiment/experiment.h"
#include "framework/manifest/manifest.h"

namespace attnlab {

/// All that an attention may list under `.needs`: its layers of a stack must follow each other,
/// since each reads what the one before has left in the ForwardState.
inline constexpr const char* kConsecutive = "consecutive";

struct FieldRule {
  std::string field;          ///< "class@node"; of `needs` a trait, of `stacks` an option
  bool optional = false;      ///< with `?`
  std::string option, value;  ///< of the condition; empty: none
  bool operator==(const FieldRule&) const = default;
};

/// @param text  an entry of a manifest's `takes`, `gives`, `needs` or `stacks`
/// @throws PluginError for a text of another form.
FieldRule parse_field_rule(const std::string& text);

/// The rules whose conditions hold under a part's options.
/// @throws PluginError as `parse_field_rule`.
std::vector<FieldRule> rules_under(const std::vector<std::string>& texts, const Part& part);

/// The rule of a field; null where there is none.
const FieldRule* rule_of(const std::vector<FieldRule>& rules, std::string_view field);

/// "image, class, location?"; "nothing".
std::string text_of(const std::vector<FieldRule>& rules);

/// A part with what its manifest says.
struct DeclaredPart {
  const Part& part;
  const Manifest& manifest;
};

/// Checks what a manifest itself says of fields, needs and stacks.
/// @throws PluginError for a text of another form, for a condition on an option that the plugin
///         does not have, for an attention's need that is not known, and for a stack of a depth
///         that is not a whole number among its options.
void check_declared_fields(const DeclaredPart& declared);

/// Every field that `taker` takes must be given by one of `givers`, or may be.
/// @param catalogue  to name models that give what a task lacks
/// @param problems   what is wrong is appended
void check_fields(const DeclaredPart& taker, const std::vector<DeclaredPart>& givers,
                  const Catalogue& catalogue, std::vector<std::string>& problems);

}  // namespace attnlab
