// One attention kernel for the length of a scope.
#pragma once

#include "framework/nn/attention/attention_kernel.h"

namespace attnlab::testing {

class KernelChoice {
 public:
  explicit KernelChoice(AttentionKernel kernel) : before_(attention_kernel()) {
    set_attention_kernel(kernel);
  }
  ~KernelChoice() { set_attention_kernel(before_); }
  KernelChoice(const KernelChoice&) = delete;
  KernelChoice& operator=(const KernelChoice&) = delete;

 private:
  AttentionKernel before_;
};

}  // namespace attnlab::testing
