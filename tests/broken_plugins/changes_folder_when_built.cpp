// Loads well; goes to another folder when it is built, one that nobody can write into.
#include <unistd.h>

#include "tests/broken_plugins/broken.h"

namespace {

class Wandering final : public attnlab::DotProductAttention {
 public:
  Wandering(const attnlab::NoOptions&, const attnlab::AttentionShape& shape)
      : DotProductAttention(shape) {
    [[maybe_unused]] const bool gone = ::chdir("/proc") == 0;
  }
};

}  // namespace

BROKEN_PLUGIN(Wandering, "broken/changes_folder_when_built")
