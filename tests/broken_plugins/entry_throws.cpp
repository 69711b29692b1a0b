// The entry throws an exception.
#include <stdexcept>

#include "tests/broken_plugins/broken.h"

BROKEN_MANIFEST("broken/entry_throws")

BROKEN_ENTRY() { throw std::runtime_error("no licence server"); }
