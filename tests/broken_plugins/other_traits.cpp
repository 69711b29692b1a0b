// Its manifest promises every trait; its code honours none.
#include "tests/broken_plugins/broken.h"

namespace {

class Boaster final : public attnlab::DotProductAttention {
 public:
  Boaster(const attnlab::NoOptions&, const attnlab::AttentionShape& shape)
      : DotProductAttention(shape, {}, attnlab::AttentionTraits{}) {}
};

}  // namespace

BROKEN_PLUGIN(Boaster, "broken/other_traits")
