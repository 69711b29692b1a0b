#include "framework/base/limits.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <vector>

#include "framework/base/control_group.h"
#include "framework/base/text.h"

namespace attnlab {
namespace {

constexpr double kMiB = 1 << 20;

double limit_of(int resource) {
  rlimit limit{};
  const bool known = ::getrlimit(static_cast<__rlimit_resource>(resource), &limit) == 0;
  return known && limit.rlim_cur != RLIM_INFINITY ? static_cast<double>(limit.rlim_cur) : INFINITY;
}

std::string mebibytes(double bytes) { return fmt::format("{:.4g} MiB", bytes / kMiB); }

/// "address space 200 MiB (ulimit -v)", where it is limited.
void add_bytes(const char* what, double bytes, const char* by, std::vector<std::string>& to) {
  if (std::isfinite(bytes)) to.push_back(fmt::format("{} {} ({})", what, mebibytes(bytes), by));
}

void add_count(const char* what, double count, const char* by, std::vector<std::string>& to) {
  if (std::isfinite(count)) to.push_back(fmt::format("{:.0f} {} ({})", count, what, by));
}

void add_address_space(std::vector<std::string>& to) {
  add_bytes("address space", limit_of(RLIMIT_AS), "ulimit -v", to);
}

}  // namespace

bool can_map(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  void* const mapped =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return false;
  ::munmap(mapped, size);
  return true;
}

bool mapping_is_limited() {
  constexpr int kNoMoreThanThereIs = 2;
  int promises = 0;
  std::ifstream("/proc/sys/vm/overcommit_memory") >> promises;
  return std::isfinite(limit_of(RLIMIT_AS)) || std::isfinite(limit_of(RLIMIT_DATA)) ||
         promises == kNoMoreThanThereIs;
}

bool threads_are_limited() {
  constexpr double kMany = 4096;
  return std::min(limit_of(RLIMIT_NPROC), thread_quota()) < kMany || mapping_is_limited();
}

std::string memory_limits() {
  std::vector<std::string> all;
  add_address_space(all);
  add_bytes("data", limit_of(RLIMIT_DATA), "ulimit -d", all);
  add_bytes("memory of the control group", memory_quota(), "memory.max", all);
  return join(all, ", ");
}

std::string thread_limits() {
  std::vector<std::string> all;
  add_count("processes and threads of this user", limit_of(RLIMIT_NPROC), "ulimit -u", all);
  add_count("processes and threads of the control group", thread_quota(), "pids.max", all);
  const std::size_t counts = all.size();
  add_address_space(all);
  const bool stacks = all.size() > counts;  // only there they matter
  if (stacks) add_bytes("a stack", limit_of(RLIMIT_STACK), "ulimit -s", all);
  return join(all, ", ");
}

std::string limits_here(const std::string& limits) {
  return limits.empty() ? "" : "; limits here: " + limits;
}

}  // namespace attnlab
