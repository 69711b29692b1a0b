// The entry returns a null pointer.
#include "tests/broken_plugins/broken.h"

BROKEN_MANIFEST("broken/entry_returns_nothing")

BROKEN_ENTRY() { return nullptr; }
