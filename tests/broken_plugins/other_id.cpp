// The code is another plugin than the manifest says.
#include "tests/broken_plugins/broken.h"

BROKEN_MANIFEST("broken/other_id")

BROKEN_ENTRY() {
  using attnlab::Kind;
  static const attnlab::PluginEntry entry =
      attnlab::detail::entry<Kind::attention, attnlab::broken::Sound, attnlab::NoOptions>(
          "broken/somebody_else");
  return &entry;
}
