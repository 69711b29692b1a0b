#include "framework/base/cores.h"

#include <sched.h>

#include <cstdlib>
#include <set>
#include <thread>

#include "tests/support/compositions.h"
#include "tests/support/temp_folder.h"

namespace attnlab::cores_test {
namespace {

using namespace testing;

const double kNoQuota = std::numeric_limits<double>::infinity();
constexpr std::int64_t kMany = 1 << 20;

std::vector<int> numbers(int count) {
  std::vector<int> all(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) all[static_cast<std::size_t>(i)] = i;
  return all;
}

TEST(CoreShares, AreDisjointAndEquallyLarge) {
  for (int cores = 1; cores <= 12; ++cores) {
    for (std::int64_t places = 2; places <= cores; ++places) {
      const auto shares = share_cores(numbers(cores), kNoQuota, places, kMany);
      ASSERT_EQ(shares.size(), static_cast<std::size_t>(places));
      std::set<int> taken;
      for (const CoreShare& share : shares) {
        EXPECT_EQ(static_cast<std::int64_t>(share.cores.size()), cores / places);
        EXPECT_EQ(share.threads, cores / places);
        for (const int core : share.cores) EXPECT_TRUE(taken.insert(core).second) << core;
      }
    }
  }
}

TEST(CoreShares, GiveOneRunEverythingAndBindItToNothing) {
  const auto shares = share_cores(numbers(6), kNoQuota, 1, kMany);
  EXPECT_EQ(shares.at(0).threads, 6);
  EXPECT_THAT(shares.at(0).cores, IsEmpty());
}

TEST(CoreShares, HoldOneThreadEachWhereThereAreMoreRunsThanCores) {
  for (const CoreShare& share : share_cores(numbers(2), kNoQuota, 5, kMany)) {
    EXPECT_EQ(share.threads, 1);
    EXPECT_THAT(share.cores, IsEmpty()) << "the kernel shares the time better than a list would";
  }
}

TEST(CoreShares, HaveNoMoreThreadsThanTheContainerMayUse) {
  EXPECT_EQ(share_cores(numbers(16), 4.0, 1, kMany).at(0).threads, 4);
  EXPECT_EQ(share_cores(numbers(16), 4.0, 2, kMany).at(1).threads, 2);
  EXPECT_EQ(share_cores(numbers(16), 0.5, 2, kMany).at(1).threads, 1);
  EXPECT_EQ(share_cores(numbers(16), 3.9, 1, kMany).at(0).threads, 3);
  EXPECT_EQ(share_cores(numbers(16), 4.0, 2, 1).at(0).threads, 1) << "OMP_NUM_THREADS";
}

TEST(CoreQuota, IsTheStrictestOfAGroupAndThoseAboveIt) {
  const TempFolder folder;
  const std::string membership = folder.write("cgroup", "0::/jobs/mine\n");
  EXPECT_EQ(core_quota(folder / "fs", membership), kNoQuota) << "there is nothing to read";
  folder.write("fs/jobs/mine/cpu.max", "max 100000\n");
  EXPECT_EQ(core_quota(folder / "fs", membership), kNoQuota);
  folder.write("fs/jobs/cpu.max", "250000 100000\n");
  EXPECT_EQ(core_quota(folder / "fs", membership), 2.5);
  folder.write("fs/cpu.max", "150000 100000\n");
  EXPECT_EQ(core_quota(folder / "fs", membership), 1.5);
}

TEST(CoreQuota, IsReadFromTheFirstVersionOfControlGroupsToo) {
  const TempFolder folder;
  const std::string membership =
      folder.write("cgroup", "5:devices:/\n4:cpu,cpuacct:/docker/abc\n0::/\n");
  folder.write("fs/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "-1\n");
  folder.write("fs/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(core_quota(folder / "fs", membership), kNoQuota);
  folder.write("fs/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "300000\n");
  EXPECT_EQ(core_quota(folder / "fs", membership), 3.0);
  // In a container its own group is the root of what it sees.
  folder.write("fs/cpu/cpu.cfs_quota_us", "200000\n");
  folder.write("fs/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(core_quota(folder / "fs", membership), 2.0);
}

TEST(AvailableCores, AreWhatAffinityQuotaAndEnvironmentAllow) {
  EXPECT_EQ(threads_within(16, kNoQuota, kMany), 16);
  EXPECT_EQ(threads_within(16, 2.5, kMany), 2) << "a container's quota counts";
  EXPECT_EQ(threads_within(16, 0.5, kMany), 1);
  EXPECT_EQ(threads_within(16, 8, 3), 3);
  EXPECT_EQ(threads_within(0, kNoQuota, kMany), 1);
}

TEST(AvailableCores, FollowOmpNumThreads) {
  const char* before = std::getenv("OMP_NUM_THREADS");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("OMP_NUM_THREADS", "1", 1);
  EXPECT_EQ(most_threads(), 1);
  EXPECT_EQ(available_cores(), 1);
  ::unsetenv("OMP_NUM_THREADS");
  EXPECT_GE(most_threads(), kMany);
  EXPECT_LE(available_cores(), static_cast<std::int64_t>(usable_cores().size()));
  if (before != nullptr) ::setenv("OMP_NUM_THREADS", kept.c_str(), 1);
}

TEST(UsableCores, AreThoseOfTheAffinity) {
  std::thread([] {
    const std::vector<int> all = usable_cores();
    ASSERT_FALSE(all.empty());
    bind_this_thread({all.back()});
    EXPECT_EQ(usable_cores(), std::vector<int>{all.back()});
    bind_this_thread({});
    EXPECT_EQ(usable_cores(), std::vector<int>{all.back()}) << "none: no change";
  }).join();
}

TEST(UsableCores, PutThreadsOfOneCoreSideBySide) {
  const std::vector<int> all = usable_cores();
  if (all.size() < 2) GTEST_SKIP() << "this process has one core";
  const TempFolder folder;
  // Numbered as on most machines: the second threads of the cores come after all first ones.
  const std::size_t half = (all.size() + 1) / 2;
  std::map<int, std::size_t> core_of;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto cpu = static_cast<std::size_t>(all[i]);
    core_of[all[i]] = (all.size() - cpu) % half;
    const std::string topology = "devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    folder.write(topology + "physical_package_id", "0\n");
    folder.write(topology + "core_id", std::to_string(core_of[all[i]]) + "\n");
  }
  const std::vector<int> sorted = usable_cores(folder.path());
  EXPECT_EQ(std::set<int>(sorted.begin(), sorted.end()), std::set<int>(all.begin(), all.end()));
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    EXPECT_LE(core_of[sorted[i - 1]], core_of[sorted[i]]);
  }
}

}  // namespace
}  // namespace attnlab::cores_test
