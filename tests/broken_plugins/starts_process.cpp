// Starts a process while loading.
#include <sys/wait.h>
#include <unistd.h>

#include "tests/broken_plugins/broken.h"

namespace {

bool start() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  return ::waitpid(child, nullptr, 0) == child;
}

[[maybe_unused]] const bool started = start();

}  // namespace

BROKEN_PLUGIN(attnlab::broken::Sound, "broken/starts_process")
