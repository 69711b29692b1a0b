// Calls a function that no library has; found when symbols are bound, before any code runs.
#include "tests/broken_plugins/broken.h"

extern "C" int attnlab_test_nowhere();

BROKEN_MANIFEST("broken/unresolved_symbol")

BROKEN_ENTRY() {
  using attnlab::Kind;
  static const attnlab::PluginEntry entry =
      attnlab::detail::entry<Kind::attention, attnlab::broken::Sound, attnlab::NoOptions>(
          "broken/unresolved_symbol");
  return attnlab_test_nowhere() == 0 ? &entry : nullptr;
}
