// Loads well; its attention cannot be built.
#include <stdexcept>

#include "tests/broken_plugins/broken.h"

namespace {

class Unbuildable final : public attnlab::DotProductAttention {
 public:
  Unbuildable(const attnlab::NoOptions&, const attnlab::AttentionShape& shape)
      : DotProductAttention(shape) {
    throw std::runtime_error("the kernel table is empty");
  }
};

}  // namespace

BROKEN_PLUGIN(Unbuildable, "broken/factory_throws")
