// The cores that a process may use, and how runs side by side share them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace attnlab {

/// The cores that this process may run on: its affinity. Those of one socket stand together, and
/// the hardware threads of one core side by side, so that neighbours in the list are neighbours in
/// the machine.
/// @param sysfs  where the kernel tells what belongs together; without it, by number
std::vector<int> usable_cores(const std::string& sysfs = "/sys");

/// How many cores' time the control group of this process and those above it allow (a container's
/// limit, `cpu.max` of cgroup v2 or `cpu.cfs_quota_us` of v1); infinity without a limit.
double core_quota(const std::string& cgroup_root = "/sys/fs/cgroup",
                  const std::string& membership = "/proc/self/cgroup");

/// What OMP_NUM_THREADS allows a process; the user or a job script sets it. The largest number
/// there is where it says nothing.
std::int64_t most_threads();

/// How many threads this process can keep busy: its affinity, not more than its quota pays for and
/// not more than `most_threads`. At least 1.
std::int64_t available_cores();

/// The same of given numbers. @param cores, most  at least 1
std::int64_t threads_within(std::int64_t cores, double quota, std::int64_t most);

/// What one of several runs side by side gets.
struct CoreShare {
  std::vector<int> cores;  ///< empty: not bound to any
  std::int64_t threads = 1;
};

/// Divides cores among runs. All get equally many, since the speed of runs is compared, and since
/// their numbers depend on their threads in the last digits; what is left over stays idle. With
/// more runs than cores each has one thread and none is bound, so that the kernel shares the time
/// evenly.
/// @param cores   at least one
/// @param quota   of `core_quota`
/// @param most    threads of one run, of `most_threads`
/// @param places  how many runs there are at once, from 1
std::vector<CoreShare> share_cores(const std::vector<int>& cores, double quota, std::int64_t places,
                                   std::int64_t most);

/// Binds the calling thread, and what it starts later, to cores; to none changes nothing. A core
/// that has gone meanwhile is not an error.
void bind_this_thread(const std::vector<int>& cores);

}  // namespace attnlab
