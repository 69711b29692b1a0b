// Goes to another folder and takes a signal for itself while loading.
#include <unistd.h>

#include <csignal>

#include "tests/broken_plugins/broken.h"

namespace {

[[maybe_unused]] const bool changed = ::chdir("/") == 0 && std::signal(SIGUSR1, SIG_IGN) != SIG_ERR;

}  // namespace

BROKEN_PLUGIN(attnlab::broken::Sound, "broken/changes_surroundings")
