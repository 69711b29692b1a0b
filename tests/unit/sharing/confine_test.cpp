// What a confined process can reach. Each wall is tested where this kernel lets us put it up.
#include "framework/sharing/confine.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pty.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>

#include "framework/base/files.h"
#include "framework/sharing/sandbox.h"
#include "tests/support/program.h"
#include "tests/support/temp_folder.h"

namespace attnlab::testing::confine_test {
namespace {

using namespace sharing;  // NOLINT: a test of that room
using ::testing::HasSubstr;
using ::testing::Not;

class ConfineTest : public ::testing::Test {
 protected:
  ConfineTest() { std::filesystem::create_directories(outer_ / "work"); }

  ConfinedEnd run(const std::vector<std::string>& words, double time_limit = 600,
                  std::size_t most_processes = 4096) {
    Confinement confinement;
    confinement.folder = outer_ / "work";
    confinement.log = outer_ / "log";
    confinement.time_limit = time_limit;
    confinement.largest_folder = 64 << 20;
    confinement.most_processes = most_processes;
    confinement.environment["HOME"] = confinement.folder;
    confinement.readable = readable_;
    return run_confined(words, confinement);
  }
  ConfinedEnd shell(const std::string& script, double time_limit = 600,
                    std::size_t most_processes = 4096) {
    return run({"bash", "-c", script}, time_limit, most_processes);
  }
  ConfinedEnd python(const std::string& script) {
    // The program itself and where it lies: the one in PATH may be a script of the user's.
    const Ended found = testing::run(
        {{"python3", "-c", "import sys; print(sys.executable, sys.base_prefix, end='')"}});
    const std::size_t space = found.out.find(' ');
    EXPECT_NE(space, std::string::npos) << found.story();
    readable_ = {found.out.substr(space + 1)};
    return run({found.out.substr(0, space), "-c", script});
  }
  /// Lines of Python, each of which must fail with an error of the system.
  ConfinedEnd must_fail(const std::vector<std::string>& lines) {
    std::string script = "import os, sys\n";
    for (const std::string& line : lines) {
      script += "try:\n    " + line + "\nexcept OSError as error:\n    print('refused:', error)\n" +
                "else:\n    sys.exit('done: ' + " + quoted(line) + ")\n";
    }
    const ConfinedEnd end = python(script);
    EXPECT_TRUE(end.ok()) << log();
    return end;
  }
  std::string log() const { return file_text(outer_ / "log"); }
  static std::string quoted(const std::string& text) { return "'''" + text + "'''"; }

  TempFolder outer_;
  std::vector<std::string> readable_;
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

TEST_F(ConfineTest, CutsNoFileElsewhere) {
  const Walls sandbox = possible_walls();
  if (!sandbox.landlock && !sandbox.read_only) GTEST_SKIP() << "neither Landlock nor mounts here";
  outer_.write("kept", "as it was");
  must_fail({"os.truncate('../kept', 0)", "open('../kept', 'r+').truncate(0)"});
  EXPECT_EQ(file_text(outer_ / "kept"), "as it was");
}

TEST_F(ConfineTest, ChangesNoModesAndTimesElsewhere) {
  const Walls sandbox = possible_walls();
  if (!sandbox.read_only) GTEST_SKIP() << sandbox.text();
  const std::string kept = outer_.write("kept", "as it was");
  const auto time = std::filesystem::last_write_time(kept);
  must_fail({"os.chmod('../kept', 0o777)", "os.chmod('..', 0)", "os.utime('../kept', (1, 1))",
             "os.chmod('/dev/null', 0o600)", "os.fchmod(0, 0o600)",
             "os.setxattr('../kept', 'user.x', b'')"});
  EXPECT_EQ(std::filesystem::last_write_time(kept), time);
  EXPECT_EQ(std::filesystem::status(kept).permissions() & std::filesystem::perms::others_write,
            std::filesystem::perms::none);
}

TEST_F(ConfineTest, WorksInItsFolderAlsoWithModesAndLinks) {
  EXPECT_TRUE(shell("set -e; mkdir a b; echo x > a/x; chmod 700 a/x; mv a/x b/; ln b/x a/y; "
                    "touch -d 2001-01-01 a/y; : > b/x; echo x > /dev/null")
                  .ok())
      << log();
}

TEST_F(ConfineTest, SeesNoOtherProcess) {
  const Walls sandbox = possible_walls();
  if (!sandbox.processes) GTEST_SKIP() << sandbox.text();
  shell("for one in /proc/[0-9]*; do tr '\\0' ' ' < $one/cmdline; echo; done; ls -d /proc/" +
        std::to_string(::getpid()) + "/status");
  EXPECT_THAT(log(), HasSubstr("/status': No such file"));
  EXPECT_THAT(log(), HasSubstr("bash -c"));
}

TEST_F(ConfineTest, TakesNoWallDown) {
  const Walls sandbox = possible_walls();
  if (!sandbox.seccomp) GTEST_SKIP() << sandbox.text();
  // Numbers of calls that x86-64 and AArch64 share: mount_setattr, move_mount, open_tree, fsopen.
  const std::string script =
      "import ctypes, platform\nlibc = ctypes.CDLL(None, use_errno=True)\n"
      "for call in [442, 429, 428, 430] + ([0x40000000 + 39, 250, 323, 298, 272] if "
      "platform.machine() == 'x86_64' else []):\n"
      "    code = libc.syscall(call, 0, 0, 0, 0, 0), ctypes.get_errno()\n"
      "    print(call, 'refused' if code == (-1, 13) else 'NOT REFUSED ' + str(code))\n"
      "print([line for line in open('/proc/self/status') if line.startswith('CapEff')])\n";
  EXPECT_TRUE(python(script).ok()) << log();
  EXPECT_THAT(log(), Not(HasSubstr("NOT REFUSED")));
  EXPECT_THAT(log(), HasSubstr("CapEff:\\t0000000000000000"));
}

TEST_F(ConfineTest, CannotTypeIntoTheTerminal) {
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(shell("exec 3<>/dev/tty").exit_code == 0 ? 1 : 0);
  int status = -1;
  ::waitpid(child, &status, 0);
  ::close(terminal);
  EXPECT_EQ(status, 0) << "it could open the terminal";
}

TEST_F(ConfineTest, IsHandedNoOpenFiles) {
  outer_.write("secret", "the key");
  const int open = ::open((outer_ / "secret").c_str(), O_RDONLY);
  ASSERT_GE(open, 0);
  shell("ls /proc/self/fd; cat <&" + std::to_string(open));
  ::close(open);
  EXPECT_THAT(log(), Not(HasSubstr("the key")));
}

TEST_F(ConfineTest, FillsNoDisk) {
  const ConfinedEnd end = shell("head -c 200M /dev/zero > large; sleep 1000");
  EXPECT_FALSE(end.ok());
  EXPECT_THAT(end.text(), HasSubstr("killed, since it had written "));
  EXPECT_THAT(end.text(), HasSubstr("more than it may"));
}

TEST_F(ConfineTest, FillsNoDiskWithFilesThatHaveNoNameAnyMore) {
  const ConfinedEnd end = shell("exec 7> large; rm large; head -c 200M /dev/zero >&7; sleep 1000");
  EXPECT_THAT(end.text(), HasSubstr("more than it may"));
}

TEST_F(ConfineTest, FillsNoDiskInAFolderThatItCloses) {
  const ConfinedEnd end =
      shell("mkdir closed; head -c 200M /dev/zero > closed/x; chmod 0 closed; sleep 1000");
  EXPECT_THAT(end.text(), HasSubstr("more than it may"));
}

TEST_F(ConfineTest, MakesNoFoldersWithoutEndWithinEachOther) {
  const ConfinedEnd end =
      shell("for i in $(seq 300); do mkdir a && cd -P a || exit; done; sleep 1000");
  EXPECT_THAT(end.text(), HasSubstr("folders within each other"));
}

TEST_F(ConfineTest, StartsNoProcessesWithoutEnd) {
  const ConfinedEnd end = shell("for i in $(seq 60); do sleep 1004 & done; wait", 600, 50);
  EXPECT_THAT(end.text(), HasSubstr("processes, more than it may"));
}

TEST_F(ConfineTest, GivesNoFileItsOwnersRights) {
  if (!possible_walls().seccomp) GTEST_SKIP() << possible_walls().text();
  must_fail({"os.chmod('.', 0o2755)", "os.open('x', os.O_CREAT | os.O_WRONLY, 0o4755)",
             "os.fchmod(os.open('y', os.O_CREAT | os.O_WRONLY), 0o6755)", "os.mknod('z', 0o104755)",
             "os.chmod('y', 0o4755, dir_fd=os.open('.', 0))"});
  EXPECT_TRUE(shell("umask 0; touch a; chmod 1777 .; chmod 755 a; mkdir -m 700 b").ok()) << log();
}

TEST_F(ConfineTest, HasLimits) {
  shell("ulimit -n; ulimit -c; ulimit -u");
  EXPECT_THAT(log(), HasSubstr("4096\n0\n"));
  EXPECT_THAT(log(), Not(HasSubstr("unlimited")));
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
  EXPECT_TRUE(end.sandbox.network());
  EXPECT_THAT(log(), Not(HasSubstr("Connection refused")));
}

TEST_F(ConfineTest, EndsWithAllThatItStartedWhenItsTimeIsUp) {
  const ConfinedEnd end = shell("sleep 1000 & setsid sleep 1001 & echo started; wait", 0.5);
  EXPECT_TRUE(end.timed_out);
  EXPECT_TRUE(wait_for([] {
    return testing::run({{"sh", "-c", "ps ax -o args | grep -c '^sleep 100[01]$'"}}).out == "0\n";
  }));
}

/// From here on this process gets no namespace, as on machines that refuse them.
bool lose_namespaces() {
  sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{std::size(code), code};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

/// How many processes were started by `sleep SECONDS`.
std::string sleeping(const std::string& seconds) {
  return testing::run({{"sh", "-c", "ps ax -o args | grep -c '^sleep " + seconds + "$'"}}).out;
}

TEST_F(ConfineTest, EndsWithAllThatItStartedAlsoWithoutNamespaces) {
  for (const bool in_time : {true, false}) {
    const std::string end = in_time ? "exit 3" : "wait";
    const pid_t installer = ::fork();
    if (installer == 0) {
      if (!lose_namespaces()) ::_exit(99);
      const ConfinedEnd ended =
          shell("sleep 1005 & setsid sleep 1005 & (setsid sleep 1005 &); " + end, 2);
      ::_exit(ended.sandbox.network_namespace ? 98 : ended.timed_out ? 97 : ended.exit_code);
    }
    int status = 0;
    ::waitpid(installer, &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), in_time ? 3 : 97);
    EXPECT_EQ(sleeping("1005"), "0\n");
  }
}

TEST_F(ConfineTest, EndsNoProcessAboveItAlsoWithoutNamespaces) {
  if (!possible_walls().seccomp) GTEST_SKIP() << possible_walls().text();
  const std::string installer = std::to_string(::getpid());
  const pid_t child = ::fork();
  if (child == 0) {
    if (!lose_namespaces()) ::_exit(99);
    // (Signal 0 asks whether a signal would be sent, and sends none.)
    must_fail({"os.kill(os.getppid(), 0)", "os.killpg(os.getppid(), 0)", "os.kill(-1, 0)",
               "os.kill(" + installer + ", 0)", "os.killpg(os.getpgid(" + installer + "), 0)",
               "import signal; signal.pidfd_send_signal(os.pidfd_open(os.getppid()), 0)",
               "import resource; resource.prlimit(os.getppid(), resource.RLIMIT_CPU)",
               "import fcntl; fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid())"});
    ::_exit(HasFailure() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << log();
}

TEST_F(ConfineTest, EndsWhatItStartedAlsoWithoutNamespaces) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (!lose_namespaces()) ::_exit(99);
    const ConfinedEnd end = shell(
        "sleep 1007 & kill $! && timeout 0.1 sleep 1007; [ $? = 124 ] || exit 4\n"
        "kill -9 0");
    ::_exit(end.signal == SIGKILL ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << log();
  EXPECT_EQ(sleeping("1007"), "0\n");
}

TEST_F(ConfineTest, EndsNoOtherProcessOfTheUserAlsoWithoutNamespaces) {
  constexpr int kKnowsSignals = 6;
  if (sandbox::landlock_version() < kKnowsSignals) GTEST_SKIP() << "Landlock of Linux 6.12";
  Process other({{"sleep", "1008"}});
  const pid_t child = ::fork();
  if (child == 0) {
    if (!lose_namespaces()) ::_exit(99);
    must_fail({"os.kill(" + std::to_string(other.id()) + ", 0)"});
    ::_exit(HasFailure() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << log();
}

TEST_F(ConfineTest, DiesWithAllThatItStartedWhenTheInstallerIsKilledAlsoWithoutNamespaces) {
  const pid_t installer = ::fork();
  if (installer == 0) {
    if (!lose_namespaces()) ::_exit(99);
    shell("sleep 1006 & setsid sleep 1006 & echo x > started; wait");
    ::_exit(0);
  }
  EXPECT_TRUE(wait_for([&] { return std::filesystem::exists(outer_ / "work/started"); }));
  ::kill(installer, SIGKILL);
  int status = 0;
  ::waitpid(installer, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(wait_for([] { return sleeping("1006") == "0\n"; }));
}

TEST_F(ConfineTest, DiesWithAllThatItStartedWhenTheInstallerIsKilled) {
  if (!possible_walls().network_namespace) GTEST_SKIP() << possible_walls().text();
  const pid_t installer = ::fork();
  if (installer == 0) {
    shell("sleep 1002 & setsid sleep 1003 & echo x > started; wait");
    ::_exit(0);
  }
  EXPECT_TRUE(wait_for([&] { return std::filesystem::exists(outer_ / "work/started"); }));
  ::kill(installer, SIGKILL);
  int status = 0;
  ::waitpid(installer, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(wait_for([] {
    return testing::run({{"sh", "-c", "ps ax -o args | grep -c '^sleep 100[23]$'"}}).out == "0\n";
  }));
}

TEST_F(ConfineTest, SeesNoSecretsInItsEnvironment) {
  const char* const names[] = {"ATTNLAB_KEY_PASSWORD", "VAULT_ROOT", "CMAKE_TOKEN", "ASAN_TOKEN"};
  for (const char* name : names) ::setenv(name, "sesame", 1);
  shell("env; cat /proc/[0-9]*/environ");
  for (const char* name : names) ::unsetenv(name);
  EXPECT_THAT(log(), Not(HasSubstr("sesame")));
  EXPECT_THAT(log(), HasSubstr("PATH="));
}

TEST_F(ConfineTest, TellsSignalsFromExitCodes) {
  EXPECT_EQ(shell("kill -SEGV $BASHPID").ok(), false);
  EXPECT_EQ(shell("true").ok(), true);
  EXPECT_EQ(shell("exec /no/such/program").exit_code, 127);
}

}  // namespace
}  // namespace attnlab::testing::confine_test
