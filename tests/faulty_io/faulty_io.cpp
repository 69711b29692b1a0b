// A disk that fails, for tests: preloaded into a program (LD_PRELOAD), it stands below all that the
// program reads and writes, counts the calls on files below one folder, and lets the n-th fail.
//
//   ATTNLAB_FAULT=KIND:N[+]   which call fails, from 1 on (+: and all later ones); 0: none, the
//                             calls are counted alone
//   ATTNLAB_FAULT_BELOW=DIR   whose files count; absolute
//   ATTNLAB_FAULT_CALLS=FILE  8 bytes in which a program and its children count together
//   ATTNLAB_FAULT_LOG=FILE    what happened, in its order: a line "write PATH", "fsync PATH" (of a
//                             file or folder) or "rename PATH" (the new one) for each that
//                             succeeded
//   ATTNLAB_FAULT_HOLD=NAME   the first file of this name that is opened waits: CALLS.held is made
//                             (CALLS as above), and the program goes on when that is removed
//
//   short   a read or write does half of what it was asked
//   eintr   a read or write is interrupted by a signal
//   eio     the call fails: read, write, open, fsync, ftruncate, mkdir, rename
//   enospc  a call that needs room fails: write, open, mkdir, rename
//   fsync, rename, lock  that call fails
#undef _FORTIFY_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

enum Kind : unsigned {
  kNone = 0,
  kShort = 1,
  kEintr = 2,
  kEio = 4,
  kEnospc = 8,
  kFsync = 16,
  kRename = 32,
  kLock = 64
};

struct Setting {
  unsigned kind = kNone;
  std::int64_t at = 0;
  bool later_too = false;
  std::string below;
  std::atomic<std::int64_t>* calls = nullptr;
  int log = -1;
  std::string hold, held;  ///< the name, and the file that says so
};

/// The function of this name behind this library.
template <class Function>
Function* real(const char* symbol) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, symbol));
}

std::atomic<std::int64_t>* shared_counter(const char* path) {
  static const auto open_file = real<int(const char*, int, ...)>("open");
  const int file = open_file(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (::ftruncate(file, 8) != 0) std::abort();  // else the test would pass without a fault
  void* memory = ::mmap(nullptr, 8, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) std::abort();
  return static_cast<std::atomic<std::int64_t>*>(memory);
}

Setting read_setting() {
  Setting setting;
  const char* fault = std::getenv("ATTNLAB_FAULT");
  const char* below = std::getenv("ATTNLAB_FAULT_BELOW");
  const char* calls = std::getenv("ATTNLAB_FAULT_CALLS");
  if (fault == nullptr || below == nullptr || calls == nullptr) return setting;
  const std::string text = fault;
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  constexpr std::pair<const char*, unsigned> kKinds[] = {
      {"short", kShort}, {"eintr", kEintr},   {"eio", kEio},  {"enospc", kEnospc},
      {"fsync", kFsync}, {"rename", kRename}, {"lock", kLock}};
  for (const auto& [word, value] : kKinds) {
    if (kind == word) setting.kind = value;
  }
  if (setting.kind == kNone || colon == std::string::npos) std::abort();
  setting.at = std::atoll(text.c_str() + colon + 1);
  setting.later_too = text.back() == '+';
  setting.below = std::string(below) + "/";
  setting.calls = shared_counter(calls);
  if (const char* hold = std::getenv("ATTNLAB_FAULT_HOLD"); hold != nullptr) {
    setting.hold = std::string("/") + hold;
    setting.held = std::string(calls) + ".held";
  }
  if (const char* log = std::getenv("ATTNLAB_FAULT_LOG"); log != nullptr) {
    static const auto open_file = real<int(const char*, int, ...)>("open");
    setting.log = open_file(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (setting.log < 0) std::abort();
  }
  return setting;
}

const Setting& setting() {
  static const Setting read = read_setting();
  return read;
}

/// Descriptors of files and folders below the folder.
constexpr int kMostFiles = 4096;
std::atomic<bool> ours[kMostFiles];

bool is_ours(int file) { return file >= 0 && file < kMostFiles && ours[file]; }

std::string absolute(const char* path) {
  char here[4096];
  if (path[0] == '/' || ::getcwd(here, sizeof here) == nullptr) return path;
  return std::string(here) + "/" + path;
}

bool is_below(const char* path) {
  if (setting().kind == kNone || path == nullptr) return false;
  return absolute(path).compare(0, setting().below.size(), setting().below) == 0;
}

void tell(const char* what, const std::string& path) {
  static const auto write_file = real<ssize_t(int, const void*, std::size_t)>("write");
  const std::string line = std::string(what) + " " + path + "\n";
  if (write_file(setting().log, line.data(), line.size()) < 0) std::abort();
}

/// @returns the result of a call on a descriptor, which is told where it succeeded
template <class Result>
Result told(const char* what, int file, Result result) {
  if (setting().log < 0 || result < 0 || !is_ours(file)) return result;
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  const ssize_t length = ::readlink(link.c_str(), path, sizeof path);
  if (length > 0) tell(what, std::string(path, static_cast<std::size_t>(length)));
  return result;
}

/// Waits where a file is opened that another process is to change first.
void wait_where_held(const char* path) {
  static std::atomic<bool> done{false};
  const std::string& name = setting().hold;
  if (name.empty() || !is_below(path) || !absolute(path).ends_with(name) || done.exchange(true)) {
    return;
  }
  static const auto open_file = real<int(const char*, int, ...)>("open");
  static const auto close_file = real<int(int)>("close");
  const int mark = open_file(setting().held.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (mark < 0) std::abort();
  close_file(mark);
  while (::access(setting().held.c_str(), F_OK) == 0) ::usleep(1000);
}

/// Counts a call that faults of these kinds can befall. @returns the kind where it is to fail now.
unsigned fault(unsigned kinds) {
  const Setting& given = setting();
  if ((given.kind & kinds) == 0) return kNone;
  const std::int64_t call = ++*given.calls;
  const bool now = call == given.at || (given.later_too && call > given.at);
  if (!now) return kNone;
  errno = given.kind == kEnospc  ? ENOSPC
          : given.kind == kEintr ? EINTR
          : given.kind == kLock  ? ENOLCK
                                 : EIO;
  return given.kind;
}

int noted(int file, bool below) {
  if (file >= 0 && file < kMostFiles) ours[file] = below;
  return file;
}

template <class Open>
int opened(const char* path, int flags, const Open& open) {
  wait_where_held(path);
  const bool below = is_below(path), folder = (flags & O_DIRECTORY) != 0;
  const bool creates = (flags & O_CREAT) != 0 && ::access(path, F_OK) != 0;
  if (below && !folder && fault(kEio | (creates ? unsigned{kEnospc} : 0U)) != kNone) return -1;
  return noted(open(), below);
}

template <class Open>
std::FILE* stream_of(const char* path, const char* mode, const Open& open) {
  const bool below = is_below(path);
  const bool creates = mode[0] != 'r' && ::access(path, F_OK) != 0;
  if (below && fault(kEio | (creates ? unsigned{kEnospc} : 0U)) != kNone) return nullptr;
  std::FILE* stream = open();
  if (stream != nullptr) noted(::fileno(stream), below);
  return stream;
}

/// @returns whether the call fails. @param size  becomes what a short one does
bool transfer_fails(int file, unsigned kinds, std::size_t& size) {
  if (!is_ours(file)) return false;
  const unsigned kind = fault(kinds);
  if (kind == kShort && size > 1) size /= 2;
  return kind != kNone && kind != kShort;
}

constexpr unsigned kReading = kShort | kEintr | kEio, kWriting = kReading | kEnospc;

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  static const auto next = real<int(const char*, int, ...)>("open");
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return opened(path, flags, [&] { return next(path, flags, mode); });
}

int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open(path, flags, mode);
}

int __open_2(const char* path, int flags) { return open(path, flags); }
int __open64_2(const char* path, int flags) { return open(path, flags); }

std::FILE* fopen(const char* path, const char* mode) {
  static const auto next = real<std::FILE*(const char*, const char*)>("fopen");
  return stream_of(path, mode, [&] { return next(path, mode); });
}

std::FILE* fopen64(const char* path, const char* mode) { return fopen(path, mode); }

int close(int file) {
  static const auto next = real<int(int)>("close");
  noted(file, false);
  return next(file);
}

int fclose(std::FILE* stream) {
  static const auto next = real<int(std::FILE*)>("fclose");
  noted(::fileno(stream), false);
  return next(stream);
}

ssize_t read(int file, void* to, std::size_t size) {
  static const auto next = real<ssize_t(int, void*, std::size_t)>("read");
  return transfer_fails(file, kReading, size) ? -1 : next(file, to, size);
}

ssize_t write(int file, const void* from, std::size_t size) {
  static const auto next = real<ssize_t(int, const void*, std::size_t)>("write");
  return transfer_fails(file, kWriting, size) ? -1 : told("write", file, next(file, from, size));
}

ssize_t pwrite(int file, const void* from, std::size_t size, off_t at) {
  static const auto next = real<ssize_t(int, const void*, std::size_t, off_t)>("pwrite");
  return transfer_fails(file, kWriting, size) ? -1 : next(file, from, size, at);
}

std::size_t fread(void* to, std::size_t size, std::size_t count, std::FILE* stream) {
  static const auto next = real<std::size_t(void*, std::size_t, std::size_t, std::FILE*)>("fread");
  if (!is_ours(::fileno(stream)) || fault(kEio) == kNone) return next(to, size, count, stream);
  stream->_flags |= 0x20;  // what ferror looks at
  return 0;
}

int fcntl(int file, int command, ...) {
  static const auto next = real<int(int, int, ...)>("fcntl");
  va_list rest;
  va_start(rest, command);
  void* argument = va_arg(rest, void*);
  va_end(rest);
  const bool locks = command == F_OFD_SETLK || command == F_OFD_GETLK;
  return locks && is_ours(file) && fault(kLock) != kNone ? -1 : next(file, command, argument);
}

int fcntl64(int file, int command, ...) {
  va_list rest;
  va_start(rest, command);
  void* argument = va_arg(rest, void*);
  va_end(rest);
  return fcntl(file, command, argument);
}

int fsync(int file) {
  static const auto next = real<int(int)>("fsync");
  return is_ours(file) && fault(kEio | kFsync) != kNone ? -1 : told("fsync", file, next(file));
}

int ftruncate(int file, off_t size) noexcept {
  static const auto next = real<int(int, off_t)>("ftruncate");
  return is_ours(file) && fault(kEio) != kNone ? -1 : next(file, size);
}

int mkdir(const char* path, mode_t mode) noexcept {
  static const auto next = real<int(const char*, mode_t)>("mkdir");
  return is_below(path) && fault(kEio | kEnospc) != kNone ? -1 : next(path, mode);
}

int rename(const char* from, const char* to) noexcept {
  static const auto next = real<int(const char*, const char*)>("rename");
  if (is_below(to) && fault(kEio | kEnospc | kRename) != kNone) return -1;
  const int result = next(from, to);
  if (setting().log >= 0 && result == 0 && is_below(to)) tell("rename", absolute(to));
  return result;
}

}  // extern "C"
