// What a confined process can reach. Each wall is tested where this kernel lets us put it up.
#include "framework/sharing/confine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "framework/base/files.h"
#include "tests/support/program.h"
#include "tests/support/temp_folder.h"

namespace attnlab::testing {
namespace {

using namespace sharing;  // NOLINT: a test of that room
using ::testing::HasSubstr;
using ::testing::Not;

class ConfineTest : public ::testing::Test {
 protected:
  ConfineTest() { std::filesystem::create_directories(outer_ / "work"); }

  ConfinedEnd shell(const std::string& script, double time_limit = 600) {
    Confinement confinement;
    confinement.folder = outer_ / "work";
    confinement.log = outer_ / "log";
    confinement.time_limit = time_limit;
    confinement.environment["HOME"] = confinement.folder;
    return run_confined({"bash", "-c", script}, confinement);
  }
  std::string log() const { return file_text(outer_ / "log"); }

  TempFolder outer_;
};

TEST_F(ConfineTest, WorksInItsFolder) {
  const ConfinedEnd end = shell("echo hello; echo x > inside; pwd; exit 3");
  EXPECT_EQ(end.exit_code, 3) << log();
  EXPECT_THAT(log(), HasSubstr("hello"));
  EXPECT_EQ(file_text(outer_ / "work/inside"), "x\n");
}

TEST_F(ConfineTest, WritesNowhereElse) {
  if (!possible_walls().landlock) GTEST_SKIP() << "this kernel has no Landlock";
  outer_.write("kept", "as it was");
  shell(
      "echo x > ../outside; echo x > ../kept; rm ../kept; mv ../kept here; ln ../kept link; "
      "mkdir ../folder; true");
  EXPECT_FALSE(std::filesystem::exists(outer_ / "outside"));
  EXPECT_FALSE(std::filesystem::exists(outer_ / "folder"));
  EXPECT_EQ(file_text(outer_ / "kept"), "as it was");
}

TEST_F(ConfineTest, ReadsNothingOfTheUsers) {
  if (!possible_walls().landlock) GTEST_SKIP() << "this kernel has no Landlock";
  outer_.write("secret", "the key");
  shell("cat ../secret; ls ..");
  EXPECT_THAT(log(), Not(HasSubstr("the key")));
  EXPECT_THAT(log(), HasSubstr("ermission denied"));
}

TEST_F(ConfineTest, OpensNoSocket) {
  if (!possible_walls().network()) GTEST_SKIP() << "this kernel lets no network be cut off";
  const ConfinedEnd end = shell("exec 3<>/dev/tcp/127.0.0.1/9");
  EXPECT_NE(end.exit_code, 0);
  EXPECT_TRUE(end.walls.network());
  EXPECT_THAT(log(), Not(HasSubstr("Connection refused")));
}

TEST_F(ConfineTest, EndsWithAllThatItStartedWhenItsTimeIsUp) {
  const ConfinedEnd end = shell("sleep 1000 & setsid sleep 1001 & echo started; wait", 0.5);
  EXPECT_TRUE(end.timed_out);
  if (!end.walls.processes) return;  // then a process that left its group may live on
  EXPECT_TRUE(wait_for([] {
    return run({{"sh", "-c", "ps ax -o args | grep -c '^sleep 100[01]$'"}}).out == "0\n";
  }));
}

TEST_F(ConfineTest, SeesNoSecretsInItsEnvironment) {
  ::setenv("ATTNLAB_KEY_PASSWORD", "sesame", 1);
  shell("env");
  ::unsetenv("ATTNLAB_KEY_PASSWORD");
  EXPECT_THAT(log(), Not(HasSubstr("sesame")));
  EXPECT_THAT(log(), HasSubstr("PATH="));
}

TEST_F(ConfineTest, TellsSignalsFromExitCodes) {
  EXPECT_EQ(shell("kill -SEGV $BASHPID").ok(), false);
  EXPECT_EQ(shell("true").ok(), true);
  EXPECT_EQ(shell("exec /no/such/program").exit_code, 127);
}

}  // namespace
}  // namespace attnlab::testing
