// Loads well; the first object that is built takes the umask for itself.
#include <sys/stat.h>

#include "tests/broken_plugins/broken.h"

namespace {

class Open final : public attnlab::DotProductAttention {
 public:
  Open(const attnlab::NoOptions&, const attnlab::AttentionShape& shape)
      : DotProductAttention(shape) {
    [[maybe_unused]] static const mode_t before = ::umask(0);
  }
};

}  // namespace

BROKEN_PLUGIN(Open, "broken/changes_umask_when_built")
