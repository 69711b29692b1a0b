// The entry throws something that is not an exception.
#include "tests/broken_plugins/broken.h"

BROKEN_MANIFEST("broken/entry_throws_number")

BROKEN_ENTRY() { throw 42; }
