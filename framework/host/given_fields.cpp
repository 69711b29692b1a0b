#include "framework/host/given_fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/base/text.h"
#include "framework/experiment/fields.h"
#include "framework/experiment/part.h"

namespace attnlab {
namespace {

std::string called(const Part& part) {
  return fmt::format("{} '{}'", name_of(part.kind), part.name);
}

bool has(const std::vector<FieldInfo>& fields, const std::string& name) {
  return std::any_of(fields.begin(), fields.end(),
                     [&](const FieldInfo& field) { return field.name == name; });
}

std::vector<FieldRule> gives(const Part& part, const Catalogue& catalogue) {
  return rules_under(catalogue.find(part.kind, lookup_name(part)).manifest->gives, part);
}

/// @param whose  "its data" or "its outputs"
void check_giver(const Part& part, const std::vector<FieldRule>& declared,
                 const std::vector<FieldInfo>& given, const std::string& whose) {
  for (const FieldRule& rule : declared) {
    if (rule.optional || has(given, rule.field)) continue;
    throw PluginError(
        fmt::format("{0}: {1} gives '{2}' by its manifest, and {3} do not have it; write '{2}?' in "
                    "its .gives where it is not always there",
                    part.path, called(part), rule.field, whose));
  }
  for (const FieldInfo& field : given) {
    if (rule_of(declared, field.name) != nullptr) continue;
    throw PluginError(fmt::format(
        "{}: {} gives '{}', which its manifest does not list ({}); add it to its .gives", part.path,
        called(part), field.name, text_of(declared)));
  }
}

/// What may be there is taken for granted by the manifests; now it is known.
void check_taker(const Part& part, const DatasetInfo& data, const std::vector<FieldRule>& outputs,
                 const Catalogue& catalogue) {
  for (const FieldRule& taken :
       rules_under(catalogue.find(part.kind, lookup_name(part)).manifest->takes, part)) {
    if (taken.optional || has(data.fields, taken.field)) continue;
    if (rule_of(outputs, taken.field) != nullptr) continue;
    throw DataError(fmt::format(
        "{} takes '{}', which the data of '{}' ({}) do not have; choose other options or data",
        called(part), taken.field, data.name, data.source));
  }
}

}  // namespace

void check_given(const Experiment& experiment, const DatasetInfo& data,
                 const std::vector<FieldInfo>& outputs, const Catalogue& catalogue) {
  const std::vector<FieldRule> of_model = gives(experiment.model, catalogue);
  check_giver(experiment.dataset, gives(experiment.dataset, catalogue), data.fields, "its data");
  if (!outputs.empty()) check_giver(experiment.model, of_model, outputs, "its outputs");
  check_taker(experiment.model, data, {}, catalogue);
  check_taker(experiment.task, data, of_model, catalogue);
}

}  // namespace attnlab
