// Turns on flush-to-zero while loading, as libraries linked with -ffast-math do.
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "tests/broken_plugins/broken.h"

namespace {

[[maybe_unused]] const bool changed = [] {
#if defined(__x86_64__)
  _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
#endif
  return true;
}();

}  // namespace

BROKEN_PLUGIN(attnlab::broken::Sound, "broken/changes_float_mode")
