#include "runner/fork_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "framework/base/error.h"
#include "runner/process.h"

namespace attnlab {
namespace {

constexpr const char* kWord = "fork-server";
constexpr int kSocket = 3;           // the server's end
constexpr std::size_t kRoom = 4000;  // bytes in which a job's words are shown
constexpr int kWait = 500;           // milliseconds between looks at whether to stop

/// Words in one message, each with a zero byte behind it, and a job's two descriptors.
struct Message {
  explicit Message(std::string& text) : part{text.data(), text.size()} {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  iovec part;
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr header{};
};

bool send_job(int socket, const std::vector<std::string>& words, const std::array<int, 2>& files) {
  std::string text;
  for (const std::string& word : words) text.append(word.c_str(), word.size() + 1);
  Message message(text);
  cmsghdr* control = CMSG_FIRSTHDR(&message.header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof files);
  std::memcpy(CMSG_DATA(control), files.data(), sizeof files);
  ssize_t sent = 0;
  while ((sent = ::sendmsg(socket, &message.header, MSG_NOSIGNAL)) < 0 && errno == EINTR) continue;
  return sent == static_cast<ssize_t>(text.size());
}

struct Job {
  std::vector<std::string> words;
  std::array<int, 2> files{};
};

/// @returns nothing when the other end is closed
std::optional<Job> receive_job() {
  ssize_t size = 0;
  while ((size = ::recv(kSocket, nullptr, 0, MSG_PEEK | MSG_TRUNC)) < 0 && errno == EINTR) continue;
  if (size <= 0) return std::nullopt;
  std::string text(static_cast<std::size_t>(size), '\0');
  Message message(text);
  if (::recvmsg(kSocket, &message.header, MSG_CMSG_CLOEXEC) != size) return std::nullopt;
  const cmsghdr* control = CMSG_FIRSTHDR(&message.header);
  Job job;
  if (control == nullptr || control->cmsg_len != CMSG_LEN(sizeof job.files)) return std::nullopt;
  std::memcpy(job.files.data(), CMSG_DATA(control), sizeof job.files);
  for (std::size_t at = 0; at < text.size(); at = text.find('\0', at) + 1) {
    job.words.emplace_back(text.c_str() + at);
  }
  return job;
}

/// Pages of files, such as libraries, that this process has read. A fork begins without them, and
/// would seem to hold less memory than a process that loaded them itself.
class PagesOfFiles {
 public:
  PagesOfFiles() : page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))) {
    std::ifstream maps("/proc/self/maps");
    const int present = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    for (std::string line; present >= 0 && std::getline(maps, line);) {
      std::uintptr_t begin = 0, end = 0;
      char readable = 0;
      std::uint64_t inode = 0;
      const int found =
          std::sscanf(line.c_str(), "%lx-%lx %c%*s %*s %*s %lu", &begin, &end, &readable, &inode);
      if (found == 4 && readable == 'r' && inode != 0) note(present, begin, end);
    }
    if (present >= 0) ::close(present);
  }

  /// Without the sanitizers' checks: a page of global variables may begin between two of them.
  [[gnu::no_sanitize_address, gnu::no_sanitize_thread]] void read() const {
    for (const std::uintptr_t page : pages_) *reinterpret_cast<const volatile char*>(page);
  }

 private:
  void note(int present, std::uintptr_t begin, std::uintptr_t end) {
    constexpr std::uint64_t kPresent = std::uint64_t{1} << 63;
    std::vector<std::uint64_t> entries((end - begin) / page_);
    const ssize_t bytes = static_cast<ssize_t>(entries.size() * sizeof entries[0]);
    const off_t at = static_cast<off_t>(begin / page_ * sizeof entries[0]);
    if (::pread(present, entries.data(), static_cast<std::size_t>(bytes), at) != bytes) return;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if ((entries[i] & kPresent) != 0) pages_.push_back(begin + i * page_);
    }
  }

  std::size_t page_;
  std::vector<std::uintptr_t> pages_;
};

std::int64_t count_threads() {
  std::error_code error;
  const std::filesystem::directory_iterator all("/proc/self/task", error);
  return error ? 0 : std::distance(begin(all), end(all));
}

/// Writes a job's words, as many as there is room for, over the arguments of this process.
void show(const std::vector<std::string>& words, std::span<char*> arguments) {
  char* const begin = arguments.front();
  const std::size_t room = std::strlen(arguments.back()) + std::size_t(arguments.back() - begin);
  std::string text = "attnlab";
  for (const std::string& word : words) text += '\0' + word;
  text.resize(room);  // cut, or with zeros behind it
  text.copy(begin, room);
}

/// Makes this process, which a fork just gave, the job.
void become(const Job& job) {
  ::setpgid(0, 0);
  ::dup2(job.files[0], STDOUT_FILENO);
  ::dup2(job.files[1], STDERR_FILENO);
  for (const int file : {job.files[0], job.files[1], kSocket}) ::close(file);
}

/// Forks twice: what the process between leaves behind when it ends becomes a child of the one that
/// started the server (PR_SET_CHILD_SUBREAPER), which waits for it as for any other.
/// @param pid  of the job, in the server; 0: there is none
/// @returns whether this is the job
bool fork_job(const Job& job, pid_t& pid) {
  int pipe[2];
  pid = 0;
  if (::pipe2(pipe, O_CLOEXEC) != 0) return false;
  const pid_t between = ::fork();
  if (between == 0) {
    pid_t inner = ::fork();
    if (inner == 0) {
      for (const int end : pipe) ::close(end);
      become(job);
      return true;
    }
    if (inner < 0) inner = 0;
    const bool told = ::write(pipe[1], &inner, sizeof inner) == sizeof inner;
    ::_exit(told ? 0 : 1);
  }
  ::close(pipe[1]);
  if (between > 0) {
    if (::read(pipe[0], &pid, sizeof pid) != sizeof pid) pid = 0;
    while (::waitpid(between, nullptr, 0) < 0 && errno == EINTR) continue;
  }
  ::close(pipe[0]);
  return false;
}

}  // namespace

ForkServer::ForkServer(std::map<std::string, std::string> environment)
    : environment_(std::move(environment)) {}

ForkServer::~ForkServer() { end(); }

void ForkServer::begin() {
  if (pid_ > 0 || failed_) return;
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return;
  socket_ = ends[0];
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  try {
    if (nowhere >= 0 && ::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0) {
      const std::map<int, int> files = {
          {STDOUT_FILENO, nowhere}, {STDERR_FILENO, nowhere}, {kSocket, ends[1]}};
      pid_ = start_self({kWord, std::string(kRoom, ' ')}, files, environment_);
    }
  } catch (const Error&) {  // the job itself says so
  }
  if (nowhere >= 0) ::close(nowhere);
  ::close(ends[1]);
}

void ForkServer::end() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
  pid_ = 0;
}

std::optional<pid_t> ForkServer::answer() const {
  pollfd ready{socket_, POLLIN, 0};
  int events = 0;
  while (events == 0 || (events < 0 && errno == EINTR)) {
    if (interrupted()) return std::nullopt;
    events = ::poll(&ready, 1, kWait);
  }
  pid_t pid = 0;
  if (events < 0 || ::recv(socket_, &pid, sizeof pid, 0) != sizeof pid) return std::nullopt;
  return pid > 0 ? std::optional<pid_t>(pid) : std::nullopt;
}

std::optional<pid_t> ForkServer::start(const std::vector<std::string>& words, int output,
                                       int errors) {
  if (failed_) return std::nullopt;
  begin();
  if (pid_ > 0 && send_job(socket_, words, {output, errors})) {
    if (const auto job = answer()) return job;
  }
  end();
  failed_ = true;
  return std::nullopt;
}

bool is_fork_server(const std::vector<std::string>& words) {
  int type = 0;
  socklen_t size = sizeof type;
  return words.size() == 2 && words[0] == kWord &&
         ::getsockopt(kSocket, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
}

std::vector<std::string> words_of_job(std::span<char*> arguments,
                                      const std::function<void()>& load) {
  try {
    load();
  } catch (const Error&) {  // each job will meet it, and say so
    std::_Exit(0);
  }
  const PagesOfFiles pages;
  while (const std::optional<Job> job = receive_job()) {
    pid_t pid = 0;
    if (count_threads() == 1 && fork_job(*job, pid)) {
      pages.read();
      show(job->words, arguments);
      return job->words;
    }
    for (const int file : job->files) ::close(file);
    if (::send(kSocket, &pid, sizeof pid, MSG_NOSIGNAL) < 0) break;
  }
  std::_Exit(0);
}

}  // namespace attnlab
