#include "framework/conformance/check_plugin.h"

#include "framework/conformance/dataset_conformance.h"

namespace attnlab::conformance {
namespace {

CheckResult loaded() {
  CheckResult result;
  result.check = kLoad;
  return result;
}

CheckResult check_attention(Registry& registry, const Part& part, std::string_view check,
                            const PluginCheck& how) {
  Subject subject;
  subject.build = [&](const AttentionShape& shape) { return registry.attention(part, shape); };
  // The registry has compared them with the manifest's.
  subject.declared = subject.build({.heads = 2, .head_dim = 4})->traits();
  subject.may_refuse = how.options_given;
  return check == kLoad ? loaded() : run_check(check, subject);
}

CheckResult check_dataset(Registry& registry, const Part& part, std::string_view check,
                          const PluginCheck& how) {
  const DatasetSubject subject = subject_of(registry, part, how.trying);
  if (check != kLoad) return run_check(check, subject);
  subject.open(DatasetSubject::kSeed);
  return loaded();
}

}  // namespace

CheckResult check_plugin(Registry& registry, const Part& part, std::string_view check,
                         const PluginCheck& how) {
  switch (part.kind) {
    case Kind::attention:
      return check_attention(registry, part, check, how);
    case Kind::dataset:
      return check_dataset(registry, part, check, how);
    default:
      throw ConfigError(part.path + ": is a " + std::string(name_of(part.kind)) +
                        "; there are no checks for that kind");
  }
}

}  // namespace attnlab::conformance
