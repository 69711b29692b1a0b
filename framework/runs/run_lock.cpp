#include "framework/runs/run_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace attnlab {
namespace {

using nlohmann::json;

struct flock whole_file() {
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  return range;
}

Holder this_process() {
  char host[HOST_NAME_MAX + 1] = {};
  ::gethostname(host, HOST_NAME_MAX);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return {::getpid(), host, boot};
}

Holder read_holder(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  const json record = json::parse(text.str(), nullptr, false);
  if (!record.is_object()) return {};
  return {record.value("pid", std::int64_t{0}), record.value("host", ""), record.value("boot", "")};
}

/// Whether the process of a record lives, as far as this machine can tell.
bool is_alive(const Holder& holder) {
  if (holder.pid <= 0) return false;
  const Holder here = this_process();
  if (holder.host != here.host) return true;  // another machine's: nothing says that it ended
  if (holder.boot != here.boot) return false;
  return ::kill(static_cast<pid_t>(holder.pid), 0) == 0 || errno == EPERM;
}

void write_holder(int descriptor, const Holder& holder) {
  const std::string text =
      json({{"pid", holder.pid}, {"host", holder.host}, {"boot", holder.boot}}).dump() + "\n";
  // Only for messages: a full disk must not keep the run from going on.
  if (::ftruncate(descriptor, 0) != 0) return;
  [[maybe_unused]] const ssize_t written = ::pwrite(descriptor, text.data(), text.size(), 0);
}

std::string lock_file(const std::string& run_folder) { return run_folder + "/lock"; }

}  // namespace

std::string Holder::text() const {
  if (pid == 0) return "another process";  // it has not written its name yet
  return "process " + std::to_string(pid) + (host.empty() ? "" : " on host " + host);
}

RunLock::RunLock(const std::string& run_folder) {
  const std::string path = lock_file(run_folder);
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    throw FileError(path + ": cannot write: " + std::strerror(errno) + "; check the permissions");
  }
  struct flock range = whole_file();
  const bool locked = ::fcntl(descriptor_, F_OFD_SETLK, &range) == 0;
  const bool taken = !locked && (errno == EAGAIN || errno == EACCES);
  const Holder other = read_holder(path);
  if (taken || (!locked && is_alive(other))) {
    ::close(descriptor_);
    throw BusyError(run_folder + ": is being run by " + other.text() +
                    "; wait for its end, or stop it");
  }
  write_holder(descriptor_, this_process());
}

RunLock::~RunLock() {
  [[maybe_unused]] const int emptied = ::ftruncate(descriptor_, 0);
  ::close(descriptor_);
}

std::optional<Holder> holder_of(const std::string& run_folder) {
  const std::string path = lock_file(run_folder);
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return std::nullopt;
  struct flock range = whole_file();
  const bool asked = ::fcntl(descriptor, F_OFD_GETLK, &range) == 0;
  ::close(descriptor);
  const Holder holder = read_holder(path);
  const bool held = asked ? range.l_type != F_UNLCK : is_alive(holder);
  return held ? std::optional(holder) : std::nullopt;
}

}  // namespace attnlab
