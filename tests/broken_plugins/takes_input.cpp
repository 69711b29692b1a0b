// Replaces standard input while loading.
#include <fcntl.h>
#include <unistd.h>

#include "tests/broken_plugins/broken.h"

namespace {

bool take() {
  const int other = ::open("/dev/null", O_RDWR | O_APPEND | O_CLOEXEC);
  return ::dup2(other, STDIN_FILENO) == STDIN_FILENO && ::close(other) == 0;
}

[[maybe_unused]] const bool taken = take();

}  // namespace

BROKEN_PLUGIN(attnlab::broken::Sound, "broken/takes_input")
