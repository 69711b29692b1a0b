// Every key of a suite with its type, range, default and help.
#pragma once

#include "framework/manifest/discovery.h"
#include "framework/manifest/schema.h"

namespace attnlab {

/// A suite's keys; `set` and `fallback` hold an experiment's (experiment/keys.h).
Schema suite_keys(const Catalogue& catalogue);

}  // namespace attnlab
