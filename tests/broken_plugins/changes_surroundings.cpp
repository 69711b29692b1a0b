// Takes folder, umask, locale, environment and a signal for itself while loading.
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <locale>

#include "tests/broken_plugins/broken.h"

namespace {

struct DecimalComma final : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
};

bool change() {
  ::umask(0);
  std::locale::global(std::locale(std::locale(), new DecimalComma));  // which owns it
  ::setenv("ATTNLAB_TEST_STRAY", "1", 1);
  return ::chdir("/") == 0 && std::signal(SIGUSR1, SIG_IGN) != SIG_ERR;
}

[[maybe_unused]] const bool changed = change();

}  // namespace

BROKEN_PLUGIN(attnlab::broken::Sound, "broken/changes_surroundings")
