// Changes several things at once and has an entry that throws as well.
#include <c10/core/DefaultDtype.h>

#include <cfenv>
#include <stdexcept>

#include "tests/broken_plugins/broken.h"

BROKEN_MANIFEST("broken/changes_everything")

BROKEN_ENTRY() {
  std::fesetround(FE_UPWARD);
  c10::set_default_dtype(c10::scalarTypeToTypeMeta(at::kDouble));
  at::rand({1});
  throw std::runtime_error("and then it gave up");
}
