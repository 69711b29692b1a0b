// The entry names its kind and id, but not how to build anything.
#include "tests/broken_plugins/broken.h"

BROKEN_MANIFEST("broken/entry_without_factory")

BROKEN_ENTRY() {
  static const attnlab::PluginEntry entry{attnlab::Kind::attention, "broken/entry_without_factory"};
  return &entry;
}
