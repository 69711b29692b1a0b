// Loads and is built well; goes to another folder when it attends, one that nobody can write into.
#include <unistd.h>

#include "tests/broken_plugins/broken.h"

namespace {

class Wandering final : public attnlab::DotProductAttention {
 public:
  Wandering(const attnlab::NoOptions&, const attnlab::AttentionShape& shape)
      : DotProductAttention(shape) {}

 protected:
  attnlab::Tensor attend(const attnlab::AttentionInput& input,
                         attnlab::AttentionContext& context) override {
    [[maybe_unused]] const bool gone = ::chdir("/proc") == 0;
    return DotProductAttention::attend(input, context);
  }
};

}  // namespace

BROKEN_PLUGIN(Wandering, "broken/changes_folder_in_forward")
