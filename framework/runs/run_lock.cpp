#include "framework/runs/run_lock.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "framework/base/files.h"
#include "framework/base/json.h"
#include "framework/base/links.h"
#include "framework/base/process_alive.h"

namespace attnlab {
namespace {

using nlohmann::json;

Holder this_process() {
  char host[HOST_NAME_MAX + 1] = {};
  ::gethostname(host, HOST_NAME_MAX);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return {::getpid(), host, boot};
}

Holder read_holder(const std::string& path) {
  std::string text;
  try {
    text = read_text(path, kLargestRecord);
  } catch (const FileError&) {  // there is none, or something else has its name
    return {};
  }
  const json record = json::parse(text, nullptr, false);
  if (!record.is_object()) return {};
  try {
    return {record.value("pid", std::int64_t{0}), record.value("host", ""),
            record.value("boot", "")};
  } catch (const json::exception&) {  // what this program does not write
    return {};
  }
}

/// Whether the process of a record lives, as far as this machine can tell.
bool is_alive(const Holder& holder) {
  if (holder.pid <= 0) return false;
  const Holder here = this_process();
  if (holder.host != here.host) return true;  // another machine's: nothing says that it ended
  if (holder.boot != here.boot) return false;
  return attnlab::is_alive(static_cast<pid_t>(holder.pid));
}

/// Of one length, so that of two that are written at the same time one is left.
std::string text_of(const Holder& holder) {
  const json record = {{"pid", holder.pid}, {"host", holder.host}, {"boot", holder.boot}};
  return fmt::format("{:<255}\n", json_text(record, -1));
}

std::string lock_file(const std::string& run_folder) { return run_folder + "/lock"; }

}  // namespace

std::string Holder::text() const {
  if (pid == 0) return "another process";  // it has not written its name yet
  return fmt::format("process {}{}", pid, host.empty() ? "" : " on host " + host);
}

std::optional<Holder> holder_of(const std::string& run_folder) {
  const std::string path = lock_file(run_folder);
  const std::optional<bool> locked = is_locked(path);
  if (locked && !*locked) return std::nullopt;
  std::error_code error;
  if (!locked && !std::filesystem::exists(path, error)) return std::nullopt;
  const Holder holder = read_holder(path);
  return locked || is_alive(holder) ? std::optional(holder) : std::nullopt;
}

namespace {

BusyError busy(const std::string& run_folder, const Holder& other) {
  return BusyError(fmt::format("{}: is being run by {}; wait for its end, or stop it", run_folder,
                               other.text()));
}

/// The folder's lock file, which nobody held a moment ago.
FileLock open_lock(const std::string& run_folder) {
  check_free(run_folder);
  return FileLock(lock_file(run_folder));
}

/// Where there are no locks: of several that found nobody, the one that wrote last has the folder.
/// Who writes has looked directly before, so that all have written when they look again.
void claim(const std::string& run_folder, const FileLock& lock) {
  const std::string path = lock_file(run_folder);
  if (const Holder other = read_holder(path); is_alive(other)) throw busy(run_folder, other);
  const Holder self = this_process();
  if (!lock.write(text_of(self))) {
    throw FileError(fmt::format("{}: cannot write: {}", path, std::strerror(errno)));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  if (const Holder last = read_holder(path); last != self) throw busy(run_folder, last);
}

}  // namespace

void check_free(const std::string& run_folder) {
  refuse_links(run_folder);
  if (const auto other = holder_of(run_folder)) throw busy(run_folder, *other);
}

RunLock::RunLock(const std::string& run_folder) : lock_(open_lock(run_folder)) {
  switch (lock_.state()) {
    case FileLock::State::held:
      lock_.write(text_of(this_process()));
      break;
    case FileLock::State::taken:
      throw busy(run_folder, read_holder(lock_file(run_folder)));
    case FileLock::State::unknown:
      claim(run_folder, lock_);
  }
}

RunLock::~RunLock() { lock_.write(""); }

}  // namespace attnlab
