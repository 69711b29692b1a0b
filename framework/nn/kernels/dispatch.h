// Which instruction set the kernels use (framework/base/processor.h has what holds them to one),
// and which kernel of attention is asked for.
#pragma once

#include <cstdint>
#include <string>

namespace attnlab {

/// Holds the kernels to ATTNLAB_CPU, once. @throws ConfigError where it cannot be had.
void hold_kernels();

/// The instruction set that kernels run with: "avx512", "avx2", "sse4" or "plain"; of other
/// processors Highway's name.
const char* kernels_run_with();

/// Highway's bits of the instruction sets that kernels may run with; better ones have lower bits.
std::int64_t kernel_sets();

/// The word in ATTNLAB_ATTENTION_KERNEL; "automatic" where there is none.
std::string asked_attention_kernel();

}  // namespace attnlab
