#include "framework/sharing/walls.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace attnlab::sharing::walls {
namespace {

bool write_to(const char* path, const char* text) {
  const int descriptor = ::open(path, O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const auto size = static_cast<ssize_t>(std::strlen(text));
  const bool written = ::write(descriptor, text, static_cast<std::size_t>(size)) == size;
  ::close(descriptor);
  return written;
}

/// In a new namespace of users this user keeps the number that it had.
bool keep_user(uid_t user, gid_t group) {
  char text[64];
  std::snprintf(text, sizeof text, "%u %u 1", user, user);
  if (!write_to("/proc/self/uid_map", text)) return false;
  write_to("/proc/self/setgroups", "deny");
  std::snprintf(text, sizeof text, "%u %u 1", group, group);
  return write_to("/proc/self/gid_map", text);
}

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t kArchitecture = 0;
#endif

constexpr sock_filter statement(std::uint16_t code, std::uint32_t k) { return {code, 0, 0, k}; }
constexpr sock_filter jump(std::uint32_t k, std::uint8_t yes, std::uint8_t no) {
  return {BPF_JMP | BPF_JEQ | BPF_K, yes, no, k};
}

constexpr std::uint64_t kReads =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr std::uint64_t kAll =
    (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;  // those of the first version
constexpr std::uint64_t kOfFiles =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE;

/// What is not there needs no rule.
void allow(int ruleset, const char* path, std::uint64_t access) {
  landlock_path_beneath_attr rule{};
  rule.parent_fd = ::open(path, O_PATH | O_CLOEXEC);
  if (rule.parent_fd < 0) return;
  struct stat status {};
  const bool folder = ::fstat(rule.parent_fd, &status) == 0 && S_ISDIR(status.st_mode);
  rule.allowed_access = folder ? access : access & kOfFiles;
  ::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
  ::close(rule.parent_fd);
}

}  // namespace

bool leave_network_and_processes() {
  const uid_t user = ::geteuid();
  const gid_t group = ::getegid();
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWIPC) != 0) return false;
  keep_user(user, group);  // without it the user is nobody, who may still do all that is needed
  return true;
}

bool refuse_sockets() {
  if (kArchitecture == 0 || ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  constexpr std::uint32_t kRefuse = SECCOMP_RET_ERRNO | 13;  // EACCES
  // io_uring opens sockets too; ptrace and process_vm_* reach into other processes.
  constexpr std::array<std::uint32_t, 7> kRefused = {
      SYS_socket, SYS_io_uring_setup, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev,
      SYS_bpf,    SYS_mount};
  constexpr std::size_t kHead = 4;
  std::array<sock_filter, kHead + kRefused.size() + 2> filter{};
  filter[0] = statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch));
  filter[1] = jump(kArchitecture, 1, 0);
  filter[2] = statement(BPF_RET | BPF_K, kRefuse);  // 32-bit calls have other numbers
  filter[3] = statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  for (std::size_t i = 0; i < kRefused.size(); ++i) {
    filter[kHead + i] = jump(kRefused[i], static_cast<std::uint8_t>(kRefused.size() - i), 0);
  }
  filter[kHead + kRefused.size()] = statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  filter[kHead + kRefused.size() + 1] = statement(BPF_RET | BPF_K, kRefuse);
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

bool keep_to_folders(const std::vector<std::string>& readable,
                     const std::vector<std::string>& writable) {
  landlock_ruleset_attr handled{};
  handled.handled_access_fs = kAll;
  const long made = ::syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0);
  if (made < 0) return false;
  const int ruleset = static_cast<int>(made);
  for (const std::string& path : readable) allow(ruleset, path.c_str(), kReads);
  for (const std::string& path : writable) allow(ruleset, path.c_str(), kAll);
  const bool kept = ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                    ::syscall(SYS_landlock_restrict_self, ruleset, 0) == 0;
  ::close(ruleset);
  return kept;
}

void limit_sizes() {
  const rlimit file{rlim_t{4} << 30, rlim_t{4} << 30}, core{0, 0};
  ::setrlimit(RLIMIT_FSIZE, &file);
  ::setrlimit(RLIMIT_CORE, &core);
}

}  // namespace attnlab::sharing::walls
