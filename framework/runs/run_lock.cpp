#include "framework/runs/run_lock.h"

#include <fmt/format.h>
#include <unistd.h>

#include <climits>
#include <filesystem>
#include <fstream>

#include "framework/base/files.h"
#include "framework/base/json.h"
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
    text = read_text(path);
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

std::string text_of(const Holder& holder) {
  return json_text(json({{"pid", holder.pid}, {"host", holder.host}, {"boot", holder.boot}}), -1);
}

std::string lock_file(const std::string& run_folder) { return run_folder + "/lock"; }

}  // namespace

std::string Holder::text() const {
  if (pid == 0) return "another process";  // it has not written its name yet
  return fmt::format("process {}{}", pid, host.empty() ? "" : " on host " + host);
}

RunLock::RunLock(const std::string& run_folder) : lock_(lock_file(run_folder)) {
  const Holder other = read_holder(lock_file(run_folder));
  const bool taken = lock_.state() == FileLock::State::taken;
  if (taken || (lock_.state() == FileLock::State::unknown && is_alive(other))) {
    throw BusyError(fmt::format("{}: is being run by {}; wait for its end, or stop it", run_folder,
                                other.text()));
  }
  lock_.write(text_of(this_process()));
}

RunLock::~RunLock() { lock_.write(""); }

std::optional<Holder> holder_of(const std::string& run_folder) {
  const std::string path = lock_file(run_folder);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  const Holder holder = read_holder(path);
  const bool held = is_locked(path).value_or(is_alive(holder));
  return held ? std::optional(holder) : std::nullopt;
}

}  // namespace attnlab
