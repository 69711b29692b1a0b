// Loads and is built well; leaves the process, as if all were done, when it attends.
#include <cstdio>
#include <cstdlib>

#include "tests/broken_plugins/broken.h"

namespace {

class Leaving final : public attnlab::DotProductAttention {
 public:
  Leaving(const attnlab::NoOptions&, const attnlab::AttentionShape& shape)
      : DotProductAttention(shape) {}

 protected:
  attnlab::Tensor attend(const attnlab::AttentionInput&, attnlab::AttentionContext&) override {
    std::puts("{\"check\": \"another\", \"outcome\": \"passed\"}");
    std::puts("{\"trying\": 1}");
    std::puts("{\"check\": \"shapes\", \"outcome\": true, \"message\": 1, \"seconds\": \"0\"}");
    std::fflush(stdout);
    std::_Exit(0);
  }
};

}  // namespace

BROKEN_PLUGIN(Leaving, "broken/exits_in_forward")
