#include "runner/load_engine.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>

#include "framework/base/blas.h"
#include "framework/base/cores.h"
#include "framework/base/limits.h"
#include "framework/base/processor.h"
#include "framework/manifest/discovery.h"

namespace attnlab {
namespace {

constexpr double kPatience = 60, kWhereShort = 3, kWhereWorking = 10;  // seconds

// What the engine and its libraries map, measured on Debian 12 (LibTorch 1.13.1, OpenBLAS 0.3.21).
// It decides how closely the start is watched, and nothing else.
constexpr std::int64_t kMiB = 1 << 20, kLibraries = 650 * kMiB, kOfThread = 128 * kMiB;

/// Threads that OpenBLAS makes room for, whether they are used or not.
std::int64_t blas_threads() {
  return std::min(most_threads(), std::max<std::int64_t>(1, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

/// Bytes that are mapped until the engine's first line runs.
std::int64_t needed_memory() { return kLibraries + blas_threads() * kOfThread; }

/// What is short, and what to do.
std::string advice() {
  const std::int64_t threads = blas_threads();
  const std::string fewer =
      threads > 1 ? fmt::format(", or set OMP_NUM_THREADS=1 (then {} MiB less are needed)",
                                (threads - 1) * kOfThread / kMiB)
                  : "";
  return fmt::format(
      "; a start needs about {} MiB of address space ({} for libraries, {} for each of {} threads "
      "that OpenBLAS may have), and a run needs more; raise the limit{}{}",
      needed_memory() / kMiB, kLibraries / kMiB, kOfThread / kMiB, threads, fewer,
      limits_here(memory_limits()));
}

/// OpenMP's threads spin while they wait for each other: libgomp's for 300,000 turns, some
/// milliseconds, in which they hold a core that another program, or the thread they wait for, could
/// use. After 4,000 they sleep. libgomp reads it when it is loaded.
void limit_spinning() {
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) ::setenv("GOMP_SPINCOUNT", "4000", 0);
}

}  // namespace

void* load_engine(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0) {
    throw PluginError(path + ": is not built: make build, or install attnlab again");
  }
  const bool is_short = !can_map(needed_memory());
  const StartWatch watch(is_short ? kWhereShort : kPatience, advice());
  hold_libraries_to_instruction_set();  // before they are loaded
  limit_spinning();
  use_fitting_blas(system_blas_core());
  void* engine = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (engine == nullptr) {
    const std::string text = "cannot load the commands that compute: " + std::string(::dlerror());
    if (is_short) throw LimitError(text + advice());
    throw PluginError(text);
  }
  void* entry = ::dlsym(engine, "attnlab_commands");
  if (entry == nullptr) throw PluginError(path + ": is not an engine; install attnlab again");
  return entry;
}

std::unique_ptr<WorkWatch> watch_work() {
  if (!mapping_is_limited()) return nullptr;
  return std::make_unique<WorkWatch>(kWhereWorking, []() -> std::optional<std::string> {
    if (can_map(kOfThread)) return std::nullopt;
    return advice();
  });
}

}  // namespace attnlab
