// Loads and is built well; never comes back when it attends.
#include <chrono>
#include <thread>

#include "tests/broken_plugins/broken.h"

namespace {

class Hanging final : public attnlab::DotProductAttention {
 public:
  Hanging(const attnlab::NoOptions&, const attnlab::AttentionShape& shape)
      : DotProductAttention(shape) {}

 protected:
  attnlab::Tensor attend(const attnlab::AttentionInput&, attnlab::AttentionContext&) override {
    while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
  }
};

}  // namespace

BROKEN_PLUGIN(Hanging, "broken/hangs_in_forward")
