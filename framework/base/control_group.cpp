#include "framework/base/control_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

namespace attnlab {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// The number in a file of the kernel's; no limit where there is none ("max").
double limit_in(const std::string& path) {
  constexpr double kAsGoodAsNone = 0x1p60;  // v1 writes the largest number of pages
  std::ifstream in(path);
  double number = 0;
  return in >> number && number < kAsGoodAsNone ? number : kNoLimit;
}

/// The strictest limit of a group and those above it. In a container the
/// group's path may be one of the host's and not exist here; the container's
/// own limit then stands at the root.
double strictest(const std::string& root, std::string group,
                 double (*limit_of)(const std::string&)) {
  double limit = limit_of(root);
  while (group.size() > 1) {
    limit = std::min(limit, limit_of(root + group));
    group.erase(std::max<std::size_t>(group.rfind('/'), 1));
  }
  return limit;
}

}  // namespace

double group_limit(const GroupLimit& limit, const std::string& cgroup_root,
                   const std::string& membership) {
  double least = kNoLimit;
  std::ifstream in(membership);
  for (std::string line; std::getline(in, line);) {  // "4:cpu,cpuacct:/group", "0::/group"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      least = std::min(least, strictest(cgroup_root, group, limit.of_v2));
      continue;
    }
    std::istringstream names(controllers);
    for (std::string name; std::getline(names, name, ',');) {
      if (name != limit.controller) continue;
      for (const std::string& folder : {controllers, name}) {
        const std::string root = fmt::format("{}/{}", cgroup_root, folder);
        least = std::min(least, strictest(root, group, limit.of_v1));
      }
    }
  }
  return least;
}

double memory_quota(const std::string& cgroup_root, const std::string& membership) {
  const auto v2 = [](const std::string& folder) { return limit_in(folder + "/memory.max"); };
  const auto v1 = [](const std::string& folder) {
    return limit_in(folder + "/memory.limit_in_bytes");
  };
  return group_limit({"memory", v2, v1}, cgroup_root, membership);
}

double thread_quota(const std::string& cgroup_root, const std::string& membership) {
  const auto both = [](const std::string& folder) { return limit_in(folder + "/pids.max"); };
  return group_limit({"pids", both, both}, cgroup_root, membership);
}

}  // namespace attnlab
