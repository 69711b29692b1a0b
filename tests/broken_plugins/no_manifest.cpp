// A sound entry, and no manifest.
#include "tests/broken_plugins/broken.h"

BROKEN_ENTRY() {
  using attnlab::Kind;
  static const attnlab::PluginEntry entry =
      attnlab::detail::entry<Kind::attention, attnlab::broken::Sound, attnlab::NoOptions>(
          "broken/no_manifest");
  return &entry;
}
