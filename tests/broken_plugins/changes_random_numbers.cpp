// Draws from LibTorch's random numbers while loading, so that everybody else draws others.
#include "tests/broken_plugins/broken.h"

namespace {

[[maybe_unused]] const at::Tensor drawn = at::rand({1});

}  // namespace

BROKEN_PLUGIN(attnlab::broken::Sound, "broken/changes_random_numbers")
