// Installing that fails, is killed or waits for another: what is left.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/sharing/install_fixture.h"

namespace attnlab::testing::install_failure_test {
namespace {

using attnlab::testing::mentions;
using sharing::BundleError;
using sharing::Installed;
using ::testing::HasSubstr;

TEST_F(InstallTest, SaysWhichStepFailedAndLeavesOnlyTheLog) {
  tools_.build = [](const auto&, const auto&, const std::string& log) -> std::string {
    write_file(log, "the compiler's words\n");
    throw BundleError("the compiler said no");
  };
  const std::string said = answer(bundle_of("1.0.0"));
  EXPECT_THAT(said,
              mentions("step 'build' failed", "the compiler said no", "nothing was installed"));
  EXPECT_EQ(file_text(said.substr(said.find("the log: ") + 9)), "the compiler's words\n");
  EXPECT_EQ(in_use(), "");
  EXPECT_FALSE(has_staging());
}

TEST_F(InstallTest, KeepsTheEndOfALongLogAndFewLogs) {
  for (int i = 0; i < 30; ++i) folder_.write("share/logs/install-a-" + std::to_string(i), "old");
  tools_.build = [](const auto&, const auto&, const std::string& log) -> std::string {
    write_file(log, "begin" + std::string(5 << 20, '.') + "end\n");
    throw BundleError("no");
  };
  const std::string said = answer(bundle_of("1.0.0"));
  const std::string log = file_text(said.substr(said.find("the log: ") + 9));
  EXPECT_LT(log.size(), (1U << 20) + 100);
  EXPECT_THAT(log, ::testing::AllOf(HasSubstr("were left out"), ::testing::EndsWith("end\n")));
  const fs::directory_iterator left(folder_ / "share/logs");
  EXPECT_EQ(std::distance(begin(left), end(left)), 20);
}

TEST_F(InstallTest, FailsWhereItsLogCannotBeWritten) {
  options_.at_step = [&](const std::string& step) {
    if (step != "manifest") return;
    for (const auto& one : fs::directory_iterator(folder_ / "share/plugins/installed")) {
      if (one.path().filename().string().rfind(".staging", 0) != 0) continue;
      fs::remove(one.path() / "log.txt");
      fs::create_directory(one.path() / "log.txt");
    }
  };
  EXPECT_THAT(answer(bundle_of("1.0.0")),
              mentions("step 'manifest' failed", "log.txt:", "Is a directory"));
  EXPECT_EQ(in_use(), "");
  EXPECT_FALSE(has_staging());
}

TEST_F(InstallTest, KeepsTheOldVersionWhereTheNewOneFails) {
  install(bundle_of("1.0.0", {"here"}));
  tools_.test = [](const auto&, const auto&, const auto&) -> std::string {
    throw BundleError("check 'gradient' failed");
  };
  EXPECT_THAT(answer(bundle_of("1.1.0", {"here"})), HasSubstr("step 'kit' failed"));
  EXPECT_EQ(in_use(), "1.0.0");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(InstallTest, KilledAtAnyStepLeavesTheOldOrTheNew) {
  int kills = 0;
  for (const char* step :
       {"unpack", "binary", "build", "manifest", "kit", "numbers", "record", "activate", "never"}) {
    const std::string before = in_use();
    const std::string next =
        "2." + std::to_string(::random() % 1000) + "." + std::to_string(++kills);
    const bool builds = std::string(step) == "build";
    const pid_t child = ::fork();
    if (child == 0) {
      options_.allow_downgrade = true;
      options_.from_source = builds;
      options_.at_step = [&](const std::string& now) {
        if (now == step) ::raise(SIGKILL);
      };
      install(bundle_of(next, {"here"}));
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    const std::string after = in_use();
    EXPECT_TRUE(after == before || after == next) << step;
    const bool undisturbed = std::string(step) == "never";
    EXPECT_EQ(undisturbed && after != next, false);
    EXPECT_EQ(WIFSIGNALED(status), !undisturbed) << step << " was never reached";
  }
  options_.allow_downgrade = true;
  install(bundle_of("3.0.0", {"here"}));
  EXPECT_EQ(in_use(), "3.0.0");
  EXPECT_FALSE(has_staging());
  EXPECT_LE(entries(), 2U);
}

TEST_F(InstallTest, KilledAtAnyMomentLeavesTheOldOrTheNew) {
  for (int i = 0; i < 40; ++i) {
    const std::string before = in_use(), next = "1.0." + std::to_string(i);
    const pid_t child = ::fork();
    if (child == 0) {
      install(bundle_of(next, {"here"}));
      ::_exit(0);
    }
    ::usleep(static_cast<useconds_t>(::random() % 30'000));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    const std::string after = in_use();
    EXPECT_TRUE(after == before || after == next) << after;
    // What is in use is known as the newest, so that an older one does not get in.
    if (!after.empty()) {
      EXPECT_GE(sharing::compare_versions(keys().highest("acme/sharp"), after), 0);
    }
  }
  EXPECT_EQ(answer(bundle_of("2.0.0", {"here"})), "installed");
  EXPECT_FALSE(has_staging());
}

TEST_F(InstallTest, TwoAtOnceWaitForEachOther) {
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      options_.allow_downgrade = true;
      const bool done = answer(bundle_of("1.0." + std::to_string(i), {"here"})) == "installed";
      ::_exit(done ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_NE(in_use(), "");
  EXPECT_FALSE(has_staging());
  EXPECT_LE(entries(), 2U);
}

TEST_F(InstallTest, GoesOnWithADamagedRecord) {
  const Installed first = install(bundle_of("1.0.0", {"here"}));
  const Installed second = install(bundle_of("1.1.0", {"here"}));
  write_file(second.folder + "/record.json", "{");
  const auto found = store().find("acme/sharp");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, "attention");
  EXPECT_THAT(found->problem, HasSubstr("record.json: damaged"));
  EXPECT_THAT(damage_of(*found), HasSubstr("damaged"));
  store().clean();
  EXPECT_TRUE(fs::exists(second.library()));
  EXPECT_THROW(rebuild(), BundleError);
  // Another plugin is not concerned, and the damaged one can be replaced or removed.
  EXPECT_EQ(answer(bundle_of("1.1.0", {"here"})), "installed");
  EXPECT_EQ(in_use(), "1.1.0");
  fs::remove(store().find("sharp")->folder + "/record.json");
  store().remove(store().need("sharp"));
  EXPECT_FALSE(store().find("sharp"));
  EXPECT_EQ(entries(), 0U);
}

TEST_F(InstallTest, LeavesNothingWhereTheLastRenameFails) {
  const Lab acme("acme");
  options_.at_step = [&](const std::string& step) {
    // A folder in the way of the link, which appears after it was looked.
    if (step == "activate") fs::create_directories(folder_ / "share/plugins/attention/sharp.so");
  };
  EXPECT_THAT(answer(bundle_of("1.0.0", {"here"}, &acme)), HasSubstr("step 'activate' failed"));
  EXPECT_EQ(entries(), 0U);
  EXPECT_FALSE(has_staging());
  EXPECT_TRUE(keys().keys().empty());
  EXPECT_EQ(keys().highest("acme/sharp"), "");
}

TEST_F(InstallTest, LearnsALostVersionFromWhatIsInstalled) {
  install(bundle_of("1.0.0", {"here"}));
  fs::remove(folder_ / "config/keys/known.json");
  install(bundle_of("1.0.0", {"here"}));
  EXPECT_EQ(keys().highest("acme/sharp"), "1.0.0");
}

}  // namespace
}  // namespace attnlab::testing::install_failure_test
