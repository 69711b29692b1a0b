#include "framework/sharing/sandbox.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ATTNLAB_SANITIZED
#endif

namespace attnlab::sharing::sandbox {
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

// Sockets, and io_uring, which opens them too; what reaches into other processes; what takes a
// mount or a namespace away; what the kernel keeps beside files: keys, counters, handles.
constexpr auto kRefused = std::to_array<std::uint32_t>({
    SYS_socket,
    SYS_io_uring_setup,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_bpf,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_unshare,
    SYS_setns,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_open_by_handle_at,
#ifdef SYS_pidfd_getfd
    SYS_pidfd_getfd,
#endif
#ifdef SYS_fsopen
    SYS_fsopen,
    SYS_fspick,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_move_mount,
    SYS_open_tree,
#endif
#ifdef SYS_mount_setattr
    SYS_mount_setattr,
#endif
});
constexpr std::uint32_t kFirstOfX32 = 0x40000000;

/// Calls that give a file its mode, and which argument that is.
struct GivesMode {
  std::uint32_t call;
  std::uint32_t argument;
};
constexpr auto kGiveModes = std::to_array<GivesMode>({
#ifdef SYS_chmod
    {SYS_chmod, 1},
    {SYS_creat, 1},
    {SYS_mknod, 1},
#endif
    {SYS_fchmod, 1},
    {SYS_fchmodat, 2},
    {452, 2},  // fchmodat2
    {SYS_mknodat, 2},
});
/// Calls that make a file where their flags say so: the argument of the flags; the mode follows.
constexpr auto kOpen = std::to_array<GivesMode>({
#ifdef SYS_open
    {SYS_open, 1},
#endif
    {SYS_openat, 2},
});
/// Calls whose first argument is the process that they end, or whose limits they change: a limit of
/// the processor's time ends it, too.
constexpr auto kReachProcess = std::to_array<std::uint32_t>({
    SYS_kill,
    SYS_tkill,
    SYS_tgkill,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_prlimit64,
});
constexpr std::uint32_t kPidfdSendSignal = 424;
constexpr std::array<std::uint32_t, 2> kChooseReceiver = {8, 15};  // F_SETOWN, F_SETOWN_EX
constexpr std::uint32_t kOpenat2 = 437;  // its mode stands in memory, which no filter reads
constexpr std::uint32_t kSetIds = S_ISUID | S_ISGID;
constexpr std::uint32_t kMakesFile = O_CREAT | (O_TMPFILE & ~O_DIRECTORY);

/// A program for the kernel's filter, written instruction by instruction.
class Filter {
 public:
  void load(std::size_t offset) { add({BPF_LD | BPF_W | BPF_ABS, 0, 0, std::uint32_t(offset)}); }
  /// The low half of an argument, which is where modes and flags stand.
  void load_argument(std::uint32_t n) {
    load(offsetof(seccomp_data, args) + n * sizeof(seccomp_data::args[0]));
  }
  /// Passes over so many instructions where the test fails.
  void unless_equal(std::uint32_t k, std::uint8_t over) { test(BPF_JEQ, k, over); }
  void unless_at_least(std::uint32_t k, std::uint8_t over) { test(BPF_JGE, k, over); }
  void unless_any_of(std::uint32_t bits, std::uint8_t over) { test(BPF_JSET, bits, over); }
  void jump(std::uint32_t over) { add({BPF_JMP | BPF_JA, 0, 0, over}); }
  void allow() { add({BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}); }
  void refuse(int error) {
    add({BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error)});
  }
  bool put_up() {
    const sock_fprog program{static_cast<unsigned short>(size_), code_.data()};
    return size_ <= code_.size() &&
           ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
  }

 private:
  void test(std::uint16_t how, std::uint32_t k, std::uint8_t over) {
    add({static_cast<std::uint16_t>(BPF_JMP | how | BPF_K), 0, over, k});
  }
  void add(sock_filter instruction) {
    if (size_ < code_.size()) code_[size_] = instruction;
    ++size_;
  }

  std::array<sock_filter, 1024> code_{};
  std::size_t size_ = 0;
};

/// Refuses what would end processes above this one.
void refuse_reaching(const std::vector<int>& above, Filter& filter) {
  if (above.empty()) return;
  filter.unless_equal(kPidfdSendSignal, 1);
  filter.refuse(
      ENOSYS);  // a filter cannot see whose descriptor it is; programs have kill() instead
  for (const std::uint32_t call : kReachProcess) {
    filter.unless_equal(call, static_cast<std::uint8_t>(2 + 2 * above.size()));
    filter.load_argument(0);
    for (const int process : above) {
      filter.unless_equal(static_cast<std::uint32_t>(process), 1);
      filter.refuse(EPERM);
    }
    filter.allow();
  }
  // A signal that tells of input can be any signal, to any process of the user's.
  filter.unless_equal(SYS_fcntl, 2 + 2 * std::uint8_t(std::size(kChooseReceiver)));
  filter.load_argument(1);
  for (const std::uint32_t command : kChooseReceiver) {
    filter.unless_equal(command, 1);
    filter.refuse(EPERM);
  }
  filter.allow();
}

constexpr std::uint64_t kReads =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr std::uint64_t kFirstVersion = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;
// Rights of later versions, by their numbers: the system's header may be older than its kernel.
constexpr std::uint64_t kRefer = 1U << 13, kTruncate = 1U << 14, kDeviceControl = 1U << 15;
constexpr std::uint64_t kScopes = 3;  // neither signals nor abstract sockets of those outside

std::uint64_t all_rights(int version) {
  return kFirstVersion | (version >= 2 ? kRefer : 0) | (version >= 3 ? kTruncate : 0) |
         (version >= 5 ? kDeviceControl : 0);
}

constexpr std::uint64_t kOfFiles = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE |
                                   LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate | kDeviceControl;

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

constexpr std::uint64_t kReadOnly = 1;  // MOUNT_ATTR_RDONLY

/// mount_setattr(), which the C library may not have.
bool change_mount(const char* path, unsigned flags, std::uint64_t set, std::uint64_t clear) {
#ifdef SYS_mount_setattr
  const struct { std::uint64_t set, clear, propagation, users; } change{set, clear, 0, 0};
  return ::syscall(SYS_mount_setattr, AT_FDCWD, path, flags, &change, sizeof change) == 0;
#else
  (void)path, (void)flags, (void)set, (void)clear;
  return false;
#endif
}

/// Down to so much; a lower limit that stands already is kept.
template <typename Resource>
void limit(Resource resource, rlim_t most) {
  rlimit now{};
  if (::getrlimit(resource, &now) != 0) return;
  now.rlim_max = now.rlim_max < most ? now.rlim_max : most;
  now.rlim_cur = now.rlim_cur < most ? now.rlim_cur : most;
  ::setrlimit(resource, &now);
}

}  // namespace

LeftNamespaces leave_namespaces() {
  constexpr int kSome = CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWIPC;
  const uid_t user = ::geteuid();
  const gid_t group = ::getegid();
  LeftNamespaces left = LeftNamespaces::mounts_too;
  if (::unshare(kSome | CLONE_NEWNS) != 0) {
    if (::unshare(kSome) != 0) return LeftNamespaces::nothing;
    left = LeftNamespaces::some;
  }
  keep_user(user, group);  // without it the user is nobody, who may still do all that is needed
  return left;
}

bool keep_only_writable(const std::string& folder) {
  const char* const path = folder.c_str();
  // What is mounted from here on stays in this namespace.
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount(path, path, nullptr, MS_BIND | MS_REC, nullptr) != 0) {
    return false;
  }
  if (!change_mount("/", AT_RECURSIVE, kReadOnly, 0)) return false;
  if (change_mount(path, 0, 0, kReadOnly)) return true;
  change_mount("/", AT_RECURSIVE, 0, kReadOnly);
  return false;
}

bool hide_other_processes() {
  return ::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0;
}

int landlock_version() {
  const long version =
      ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return version < 0 ? 0 : static_cast<int>(version);
}

bool keep_to_folders(const std::vector<std::string>& readable,
                     const std::vector<std::string>& writable) {
  constexpr int kKnowsSignals = 6;
  const int version = landlock_version();
  // (As the newest kernel that matters here has it; older ones are given the first field alone.)
  const struct { std::uint64_t files, network, scopes; } handled{all_rights(version), 0, kScopes};
  const long made = ::syscall(SYS_landlock_create_ruleset, &handled,
                              version < kKnowsSignals ? sizeof handled.files : sizeof handled, 0);
  if (made < 0) return false;
  const int ruleset = static_cast<int>(made);
  for (const std::string& path : readable) allow(ruleset, path.c_str(), kReads);
  for (const std::string& path : writable) {
    allow(ruleset, path.c_str(), handled.files);
  }
  const bool kept = ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                    ::syscall(SYS_landlock_restrict_self, ruleset, 0) == 0;
  ::close(ruleset);
  return kept;
}

std::vector<int> processes_above() {
  constexpr std::size_t kMost = 64;  // also of a filter's jump over them
  std::vector<int> above = {-1};     // every process of the user's
  for (int process = ::getpid(); process > 0 && above.size() + 2 < kMost;) {
    std::ifstream in(fmt::format("/proc/{}/stat", process));
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    // "1 (a name (of any kind)) S parent group ..."
    std::istringstream numbers(text.substr(std::min(text.rfind(')') + 1, text.size())));
    std::string state;
    int parent = 0, group = 0;
    numbers >> state >> parent >> group;
    above.push_back(process);
    if (group > 0) above.push_back(-group);
    process = parent;
  }
  std::sort(above.begin(), above.end());
  above.erase(std::unique(above.begin(), above.end()), above.end());
  return above;
}

bool refuse_calls(bool truncate, const std::vector<int>& above) {
  if (kArchitecture == 0 || ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  Filter filter;
  filter.load(offsetof(seccomp_data, arch));
  filter.unless_equal(kArchitecture, 1);
  filter.jump(1);
  filter.refuse(EACCES);  // 32-bit calls have other numbers
  filter.load(offsetof(seccomp_data, nr));
  filter.unless_at_least(kFirstOfX32, 1);
  filter.refuse(EACCES);  // so have those of x32, which the architecture does not tell apart
  for (const std::uint32_t call : kRefused) {
    filter.unless_equal(call, 1);
    filter.refuse(EACCES);
  }
  if (truncate) {
    filter.unless_equal(SYS_truncate, 1);
    filter.refuse(EACCES);
  }
  refuse_reaching(above, filter);
  filter.unless_equal(kOpenat2, 1);
  filter.refuse(ENOSYS);  // who knows it can do without it
  for (const auto& [call, mode] : kGiveModes) {
    filter.unless_equal(call, 4);
    filter.load_argument(mode);
    filter.unless_any_of(kSetIds, 1);
    filter.refuse(EPERM);
    filter.allow();
  }
  for (const auto& [call, flags] : kOpen) {
    filter.unless_equal(call, 6);
    filter.load_argument(flags);
    filter.unless_any_of(kMakesFile, 3);
    filter.load_argument(flags + 1);
    filter.unless_any_of(kSetIds, 1);
    filter.refuse(EPERM);
    filter.allow();
  }
  filter.allow();
  return filter.put_up();
}

bool drop_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none{};
  // Without new privileges a program of the superuser does not get them back.
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_capset, &header, none.data()) == 0;
}

void limit_sizes(unsigned long processes) {
  limit(RLIMIT_FSIZE, rlim_t{4} << 30);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_NOFILE, 4096);
  limit(RLIMIT_NPROC, processes);
#ifndef ATTNLAB_SANITIZED  // a sanitizer's shadow of the memory counts as data
  const auto pages = static_cast<rlim_t>(::sysconf(_SC_PHYS_PAGES));
  limit(RLIMIT_DATA, pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) / 4 * 3);
#endif
}

}  // namespace attnlab::sharing::sandbox
