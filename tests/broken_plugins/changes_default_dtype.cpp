// Makes float64 LibTorch's default dtype while loading.
#include <c10/core/DefaultDtype.h>

#include "tests/broken_plugins/broken.h"

namespace {

[[maybe_unused]] const bool changed = [] {
  c10::set_default_dtype(c10::scalarTypeToTypeMeta(at::kDouble));
  return true;
}();

}  // namespace

BROKEN_PLUGIN(attnlab::broken::Sound, "broken/changes_default_dtype")
