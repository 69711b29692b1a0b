// The instruction set of the kernels: see the header.
#include "framework/nn/kernels/dispatch.h"

#include <hwy/highway.h>

#include <cstdlib>
#include <string>

#include "framework/base/processor.h"

namespace attnlab {
namespace {

bool hold() {
  const auto asked = asked_instruction_set();
#if HWY_ARCH_X86
  if (asked) {
    const std::int64_t below = *asked == "avx512" ? HWY_AVX3
                               : *asked == "avx2" ? HWY_AVX2
                                                  : HWY_SSE4;
    // Better sets have lower bits.
    hwy::SetSupportedTargetsForTest(hwy::SupportedTargets() & ~(below - 1));
  }
#endif
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return true;
}

}  // namespace

void hold_kernels() {
  static const bool held = hold();
  static_cast<void>(held);
}

std::int64_t kernel_sets() {
  hold_kernels();
  return hwy::SupportedTargets();
}

const char* kernels_run_with() {
  const std::int64_t sets = kernel_sets();
  const std::int64_t best = sets & -sets;
#if HWY_ARCH_X86
  if (best <= HWY_AVX3) return "avx512";
  if (best == HWY_AVX2) return "avx2";
  return best == HWY_SSE4 ? "sse4" : "plain";
#else
  return hwy::TargetName(best);
#endif
}

std::string asked_attention_kernel() {
  const char* asked = std::getenv("ATTNLAB_ATTENTION_KERNEL");
  return asked == nullptr || *asked == '\0' ? "automatic" : asked;
}

}  // namespace attnlab
