// Instruction sets: see the header.
#include "framework/base/processor.h"

#include <cstdlib>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "framework/base/error.h"

namespace attnlab {
namespace {

/// A name of ours, and what each library calls it. MKL is held below its best alone.
struct InstructionSet {
  const char *name, *libtorch, *openblas, *onednn, *mkl;
};

constexpr InstructionSet kSets[] = {
    {"sse4", "default", "Nehalem", "SSE41", "SSE4_2"},
    {"avx2", "avx2", "Haswell", "AVX2", "AVX2"},
    {"avx512", "avx512", "SkylakeX", "AVX512_CORE", ""},
};

bool processor_has(const std::string& name) {
#if defined(__x86_64__)
  if (name == "sse4") return __builtin_cpu_supports("sse4.2");
  if (name == "avx2") return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
#else
  return name.empty();
#endif
}

const InstructionSet* asked() {
  const char* value = std::getenv("ATTNLAB_CPU");
  const std::string text = value == nullptr ? "" : value;
  if (text.empty()) return nullptr;
  for (const InstructionSet& set : kSets) {
    if (text != set.name) continue;
    if (processor_has(text)) return &set;
    throw ConfigError("environment variable ATTNLAB_CPU is '" + text +
                      "', but this processor does not have it; choose another, or do not set it");
  }
  throw ConfigError("environment variable ATTNLAB_CPU is '" + text +
                    "'; it must be sse4, avx2 or avx512, or not be set");
}

}  // namespace

std::optional<std::string> asked_instruction_set() {
  const InstructionSet* set = asked();
  return set == nullptr ? std::nullopt : std::optional<std::string>(set->name);
}

bool processor_has_bfloat16() {
  if (asked() != nullptr) return false;
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16");
#elif defined(__aarch64__) && defined(HWCAP2_BF16)
  return (::getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0;
#else
  return false;
#endif
}

bool processor_has_tiles() {
#if defined(__x86_64__) && defined(__linux__)
  static const bool has = [] {
    if (!processor_has_bfloat16()) return false;
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned kProducts = 1U << 22, kTiles = 1U << 24;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
    if ((d & kProducts) == 0 || (d & kTiles) == 0) return false;
    // Tiles are 8 KiB of state a thread, which Linux keeps for those that ask.
    constexpr int kAsk = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return ::syscall(SYS_arch_prctl, kAsk, kTileData) == 0;
  }();
  return has;
#else
  return false;
#endif
}

void hold_libraries_to_instruction_set() {
  const InstructionSet* set = asked();
  if (set == nullptr) return;
  ::setenv("ATEN_CPU_CAPABILITY", set->libtorch, 1);
  ::setenv("OPENBLAS_CORETYPE", set->openblas, 1);
  ::setenv("ONEDNN_MAX_CPU_ISA", set->onednn, 1);
  ::setenv("DNNL_MAX_CPU_ISA", set->onednn, 1);      // the name before oneDNN 2.6
  ::setenv("MKL_ENABLE_INSTRUCTIONS", set->mkl, 1);  // in PyPI's LibTorch
}

}  // namespace attnlab
