// The code is of another kind than the manifest says.
#include "tests/broken_plugins/broken.h"

BROKEN_MANIFEST("broken/other_kind")

BROKEN_ENTRY() {
  static const attnlab::PluginEntry entry{attnlab::Kind::model, "broken/other_kind"};
  return &entry;
}
