#include "framework/base/blas.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

namespace attnlab {

std::string system_blas_core() {
  // It stays in the process: LibTorch then takes the same one.
  void* library = ::dlopen("libopenblas.so.0", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return "";
  using CoreName = const char* (*)();
  const auto name = reinterpret_cast<CoreName>(::dlsym(library, "openblas_get_corename"));
  const char* core = name == nullptr ? nullptr : name();
  return core == nullptr ? "" : core;
}

std::string better_blas_core(const std::string& core, bool avx2, bool avx512) {
  constexpr std::array<std::string_view, 6> kWithAvx2 = {
      "Haswell", "Excavator", "Zen", "SkylakeX", "Cooperlake", "Sapphirerapids"};
  const bool fits = std::any_of(kWithAvx2.begin(), kWithAvx2.end(), [&](std::string_view one) {
    return std::equal(core.begin(), core.end(), one.begin(), one.end(),
                      [](char a, char b) { return (a | 0x20) == (b | 0x20); });
  });
  if (core.empty() || !avx2 || fits) return "";
  return avx512 ? "SkylakeX" : "Haswell";
}

void use_fitting_blas(const std::string& core) {
#if defined(__x86_64__)
  constexpr const char* kVariable = "OPENBLAS_CORETYPE";
  if (std::getenv(kVariable) != nullptr) return;
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  const std::string better = better_blas_core(core, avx2, avx512);
  if (better.empty()) return;
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string words{std::istreambuf_iterator<char>(file), {}};  // each ends with a zero
  std::vector<char*> arguments;
  for (std::size_t at = 0; at < words.size(); at = words.find('\0', at) + 1) {
    arguments.push_back(words.data() + at);
  }
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (arguments.empty() || error) return;
  arguments.push_back(nullptr);
  ::setenv(kVariable, better.c_str(), 1);
  ::execv(program.c_str(), arguments.data());
  // Where that fails, the program goes on as it is: slower, and no worse.
#endif
}

}  // namespace attnlab
