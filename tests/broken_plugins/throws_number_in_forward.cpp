// Loads and is built well; throws something that is not an exception when it attends.
#include "tests/broken_plugins/broken.h"

namespace {

class Throwing final : public attnlab::DotProductAttention {
 public:
  Throwing(const attnlab::NoOptions&, const attnlab::AttentionShape& shape)
      : DotProductAttention(shape) {}

 protected:
  attnlab::Tensor attend(const attnlab::AttentionInput&, attnlab::AttentionContext&) override {
    throw 42;
  }
};

}  // namespace

BROKEN_PLUGIN(Throwing, "broken/throws_number_in_forward")
