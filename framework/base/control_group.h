// What the control group of this process and those above it allow: a container's limits.
#pragma once

#include <string>

namespace attnlab {

/// The file of a limit in both versions of control groups.
struct GroupLimit {
  std::string controller;  ///< of v1: "memory"
  double (*of_v2)(const std::string& folder);
  double (*of_v1)(const std::string& folder);
};

/// The strictest limit of a process's group and those above it; infinity without one.
double group_limit(const GroupLimit& limit, const std::string& cgroup_root = "/sys/fs/cgroup",
                   const std::string& membership = "/proc/self/cgroup");

/// Bytes of memory: `memory.max` of v2, `memory.limit_in_bytes` of v1.
double memory_quota(const std::string& cgroup_root = "/sys/fs/cgroup",
                    const std::string& membership = "/proc/self/cgroup");

/// Processes and threads: `pids.max` of both.
double thread_quota(const std::string& cgroup_root = "/sys/fs/cgroup",
                    const std::string& membership = "/proc/self/cgroup");

}  // namespace attnlab
