// A manifest and nothing else: the library has no entry symbol.
#include "tests/broken_plugins/broken.h"

BROKEN_MANIFEST("broken/entry_missing")
