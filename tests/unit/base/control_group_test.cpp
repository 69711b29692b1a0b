// Limits of containers and jobs, as both versions of control groups tell them.
#include "framework/base/control_group.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/temp_folder.h"

namespace attnlab::control_group_test {
namespace {

using testing::TempFolder;

TEST(ControlGroup, HasTheStrictestLimitsOfThoseAboveIt) {
  const TempFolder folder;
  const std::string membership = folder.write("cgroup", "0::/jobs/mine\n");
  EXPECT_EQ(memory_quota(folder / "fs", membership), INFINITY) << "there is nothing to read";
  folder.write("fs/jobs/mine/memory.max", "max\n");
  folder.write("fs/jobs/mine/pids.max", "max\n");
  EXPECT_EQ(memory_quota(folder / "fs", membership), INFINITY);
  EXPECT_EQ(thread_quota(folder / "fs", membership), INFINITY);
  folder.write("fs/jobs/memory.max", "4096\n");
  folder.write("fs/memory.max", "8192\n");
  folder.write("fs/jobs/pids.max", "20\n");
  EXPECT_EQ(memory_quota(folder / "fs", membership), 4096);
  EXPECT_EQ(thread_quota(folder / "fs", membership), 20);
}

TEST(ControlGroup, HasLimitsOfTheFirstVersionToo) {
  const TempFolder folder;
  const std::string membership = folder.write("cgroup", "8:pids:/job\n4:memory:/job\n0::/\n");
  folder.write("fs/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(memory_quota(folder / "fs", membership), INFINITY) << "its way to say that none stands";
  folder.write("fs/memory/job/memory.limit_in_bytes", "4096\n");
  folder.write("fs/pids/job/pids.max", "7\n");
  EXPECT_EQ(memory_quota(folder / "fs", membership), 4096);
  EXPECT_EQ(thread_quota(folder / "fs", membership), 7);
}

}  // namespace
}  // namespace attnlab::control_group_test
