// Loads and is built well; throws an error of LibTorch that has two lines when it attends.
#include "tests/broken_plugins/broken.h"

namespace {

class Throwing final : public attnlab::DotProductAttention {
 public:
  Throwing(const attnlab::NoOptions&, const attnlab::AttentionShape& shape)
      : DotProductAttention(shape) {}

 protected:
  attnlab::Tensor attend(const attnlab::AttentionInput&, attnlab::AttentionContext&) override {
    C10_THROW_ERROR(Error, "first line\nforged line");
  }
};

}  // namespace

BROKEN_PLUGIN(Throwing, "broken/throws_lines_in_forward")
