#include "framework/base/cores.h"

#include <fmt/format.h>

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <thread>
#include <tuple>

#include "framework/base/control_group.h"

namespace attnlab {
namespace {

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

/// A CPU set of a size known only when the program runs.
class CpuSet {
 public:
  explicit CpuSet(int count) : count_(count), set_(CPU_ALLOC(count)) { CPU_ZERO_S(size(), set_); }
  ~CpuSet() { CPU_FREE(set_); }
  CpuSet(const CpuSet&) = delete;
  CpuSet& operator=(const CpuSet&) = delete;

  std::size_t size() const { return CPU_ALLOC_SIZE(count_); }
  cpu_set_t* get() { return set_; }
  void add(int core) { CPU_SET_S(core, size(), set_); }
  bool has(int core) const { return CPU_ISSET_S(core, size(), set_); }

 private:
  int count_;
  cpu_set_t* set_;
};

/// The number in a file of the kernel's; `otherwise` where there is none.
double number_in(const std::string& path, double otherwise) {
  std::ifstream in(path);
  double number = 0;
  return in >> number ? number : otherwise;
}

/// The affinity of this thread, by number.
std::vector<int> affinity() {
  // The kernel refuses a set that is smaller than its own.
  for (int count = 1024; count <= 1 << 20; count *= 2) {
    CpuSet set(count);
    if (::sched_getaffinity(0, set.size(), set.get()) != 0) continue;
    std::vector<int> cores;
    for (int core = 0; core < count; ++core) {
      if (set.has(core)) cores.push_back(core);
    }
    return cores;
  }
  std::vector<int> cores(std::max(1U, std::thread::hardware_concurrency()));
  for (std::size_t i = 0; i < cores.size(); ++i) cores[i] = static_cast<int>(i);
  return cores;
}

/// "max 100000" or "150000 100000" of cgroup v2.
double quota_of_v2(const std::string& folder) {
  std::ifstream in(folder + "/cpu.max");
  std::string quota;
  double period = 0;
  if (!(in >> quota >> period) || quota == "max" || period <= 0) return kNoQuota;
  return std::strtod(quota.c_str(), nullptr) / period;
}

double quota_of_v1(const std::string& folder) {
  const double quota = number_in(folder + "/cpu.cfs_quota_us", -1);
  const double period = number_in(folder + "/cpu.cfs_period_us", 0);
  return quota > 0 && period > 0 ? quota / period : kNoQuota;
}

}  // namespace

std::vector<int> usable_cores(const std::string& sysfs) {
  std::vector<std::tuple<double, double, int>> placed;
  for (const int core : affinity()) {
    const std::string topology = fmt::format("{}/devices/system/cpu/cpu{}/topology/", sysfs, core);
    placed.emplace_back(number_in(topology + "physical_package_id", 0),
                        number_in(topology + "core_id", core), core);
  }
  std::sort(placed.begin(), placed.end());
  std::vector<int> cores;
  cores.reserve(placed.size());
  for (const auto& place : placed) cores.push_back(std::get<2>(place));
  return cores;
}

double core_quota(const std::string& cgroup_root, const std::string& membership) {
  return group_limit({"cpu", quota_of_v2, quota_of_v1}, cgroup_root, membership);
}

std::int64_t most_threads() {
  const char* given = std::getenv("OMP_NUM_THREADS");
  const std::int64_t most = given == nullptr ? 0 : std::strtoll(given, nullptr, 10);
  return most > 0 ? most : std::numeric_limits<std::int64_t>::max();
}

std::int64_t threads_within(std::int64_t cores, double quota, std::int64_t most) {
  // Less than one more core's time helps no further thread.
  const auto paid = static_cast<std::int64_t>(std::min(quota, 1e6));
  return std::max<std::int64_t>(1, std::min({cores, paid, most}));
}

std::int64_t available_cores() {
  const auto cores = static_cast<std::int64_t>(affinity().size());
  return threads_within(cores, core_quota(), most_threads());
}

std::vector<CoreShare> share_cores(const std::vector<int>& cores, double quota, std::int64_t places,
                                   std::int64_t most) {
  const auto count = static_cast<std::int64_t>(cores.size());
  std::vector<CoreShare> shares(static_cast<std::size_t>(places));
  const std::int64_t each = count / places;
  for (std::int64_t i = 0; i < places; ++i) {
    CoreShare& share = shares[static_cast<std::size_t>(i)];
    share.threads = threads_within(each, quota / static_cast<double>(places), most);
    if (places > 1 && each > 0) {
      share.cores.assign(cores.begin() + i * each, cores.begin() + (i + 1) * each);
    }
  }
  return shares;
}

void bind_this_thread(const std::vector<int>& cores) {
  if (cores.empty()) return;
  CpuSet set(*std::max_element(cores.begin(), cores.end()) + 1);
  for (const int core : cores) set.add(core);
  ::sched_setaffinity(0, set.size(), set.get());
}

}  // namespace attnlab
