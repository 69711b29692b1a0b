// Loads well; building its attention throws something that is not an exception.
#include "tests/broken_plugins/broken.h"

namespace {

class Unbuildable final : public attnlab::DotProductAttention {
 public:
  Unbuildable(const attnlab::NoOptions&, const attnlab::AttentionShape& shape)
      : DotProductAttention(shape) {
    throw 42;
  }
};

}  // namespace

BROKEN_PLUGIN(Unbuildable, "broken/factory_throws_number")
