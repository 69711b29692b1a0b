// What a benchmark's --attention names.
#pragma once

#include <string>

#include "framework/nn/attention/attention_kernel.h"

namespace attnlab::bench {

/// @param word  a plugin; a Python file (`mine.py`); or `explicit`: standard attention by matmul,
/// softmax, matmul, which the whole process then computes
/// @returns what the registry knows it by
inline std::string named_attention(const std::string& word) {
  if (word != "explicit") return word;
  set_attention_kernel(AttentionKernel::explicit_form);
  return "standard";
}

}  // namespace attnlab::bench
