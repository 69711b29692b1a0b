// Rounds towards zero from its loading on.
#include <cfenv>

#include "tests/broken_plugins/broken.h"

namespace {

[[maybe_unused]] const bool changed = std::fesetround(FE_TOWARDZERO) == 0;

}  // namespace

BROKEN_PLUGIN(attnlab::broken::Sound, "broken/changes_rounding")
