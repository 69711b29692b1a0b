#include "framework/suites/suite_keys.h"

#include "framework/experiment/keys.h"

namespace attnlab {

Schema suite_keys(const Catalogue& catalogue) {
  Schema keys = schema_of<SuiteKeys>();
  for (OptionSpec& key : keys) {
    if (key.name == "set" || key.name == "fallback") {
      key.options = experiment_keys(Node(), catalogue);
    }
  }
  return keys;
}

}  // namespace attnlab
