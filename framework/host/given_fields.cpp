#include "framework/host/given_fields.h"

#include <algorithm>

#include "framework/base/text.h"
#include "framework/experiment/fields.h"

namespace attnlab {
namespace {

std::string called(const Part& part) {
  return std::string(name_of(part.kind)) + " '" + part.name + "'";
}

bool has(const std::vector<FieldInfo>& fields, const std::string& name) {
  return std::any_of(fields.begin(), fields.end(),
                     [&](const FieldInfo& field) { return field.name == name; });
}

std::vector<FieldRule> gives(const Part& part, const Catalogue& catalogue) {
  return rules_under(catalogue.find(part.kind, part.name).manifest->gives, part);
}

/// @param whose  "its data" or "its outputs"
void check_giver(const Part& part, const std::vector<FieldRule>& declared,
                 const std::vector<FieldInfo>& given, const std::string& whose) {
  for (const FieldRule& rule : declared) {
    if (rule.optional || has(given, rule.field)) continue;
    throw PluginError(part.path + ": " + called(part) + " gives '" + rule.field +
                      "' by its manifest, and " + whose + " do not have it; write '" + rule.field +
                      "?' in its .gives where it is not always there");
  }
  for (const FieldInfo& field : given) {
    if (rule_of(declared, field.name) != nullptr) continue;
    throw PluginError(part.path + ": " + called(part) + " gives '" + field.name +
                      "', which its manifest does not list (" + text_of(declared) +
                      "); add it to its .gives");
  }
}

/// What may be there is taken for granted by the manifests; now it is known.
void check_taker(const Part& part, const DatasetInfo& data, const std::vector<FieldRule>& outputs,
                 const Catalogue& catalogue) {
  for (const FieldRule& taken :
       rules_under(catalogue.find(part.kind, part.name).manifest->takes, part)) {
    if (taken.optional || has(data.fields, taken.field)) continue;
    if (rule_of(outputs, taken.field) != nullptr) continue;
    throw DataError(called(part) + " takes '" + taken.field + "', which the data of '" + data.name +
                    "' (" + data.source + ") do not have; choose other options or data");
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
