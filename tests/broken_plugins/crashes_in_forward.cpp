// Loads and is built well; ends the process when it attends.
#include <cstdio>
#include <cstdlib>

#include "tests/broken_plugins/broken.h"

namespace {

class Crashing final : public attnlab::DotProductAttention {
 public:
  Crashing(const attnlab::NoOptions&, const attnlab::AttentionShape& shape)
      : DotProductAttention(shape) {}

 protected:
  attnlab::Tensor attend(const attnlab::AttentionInput&, attnlab::AttentionContext&) override {
    std::fputs("double free in the kernel\n", stderr);
    std::abort();
  }
};

}  // namespace

BROKEN_PLUGIN(Crashing, "broken/crashes_in_forward")
