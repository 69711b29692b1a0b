// Loads and is built well; when it attends it goes to another folder, one that nobody can write
// into, and throws there.
#include <unistd.h>

#include <stdexcept>

#include "tests/broken_plugins/broken.h"

namespace {

class Wandering final : public attnlab::DotProductAttention {
 public:
  Wandering(const attnlab::NoOptions&, const attnlab::AttentionShape& shape)
      : DotProductAttention(shape) {}

 protected:
  attnlab::Tensor attend(const attnlab::AttentionInput&, attnlab::AttentionContext&) override {
    [[maybe_unused]] const bool gone = ::chdir("/proc") == 0;
    throw std::runtime_error("lost its way");
  }
};

}  // namespace

BROKEN_PLUGIN(Wandering, "broken/changes_folder_and_throws")
