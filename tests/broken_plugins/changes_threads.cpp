// Changes the number of LibTorch's threads while loading.
#include <ATen/Parallel.h>

#include "tests/broken_plugins/broken.h"

namespace {

[[maybe_unused]] const bool changed = [] {
  at::set_num_threads(at::get_num_threads() + 1);
  return true;
}();

}  // namespace

BROKEN_PLUGIN(attnlab::broken::Sound, "broken/changes_threads")
