// One process at a time runs a folder.
//
// The lock is the kernel's, on RUN/lock: it ends with the process that holds it, however that ends
// (kill -9, power cut), and it holds across machines where the file system hands locks on. The
// file's text says who holds it. Where a file system knows no locks, the text alone decides: a
// process of this machine that is gone holds nothing, and of several that begin at once one goes
// on. Taking it lasts 0.2 s there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "framework/base/error.h"
#include "framework/base/file_lock.h"

namespace attnlab {

/// A process that runs a folder.
struct Holder {
  std::int64_t pid = 0;
  std::string host, boot;  ///< boot: changes with each start of the machine

  bool operator==(const Holder&) const = default;
  /// "process 123 on host lab7".
  std::string text() const;
};

/// A folder is run by another process.
class BusyError : public Error {
 public:
  using Error::Error;
};

class RunLock {
 public:
  /// @throws BusyError naming the other process; FileError when the folder cannot be written, or
  ///         holds links.
  explicit RunLock(const std::string& run_folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  FileLock lock_;
};

/// What the lock would refuse before it is taken. @throws BusyError, FileError.
void check_free(const std::string& run_folder);

/// Who runs a folder now; empty where nobody does.
std::optional<Holder> holder_of(const std::string& run_folder);

}  // namespace attnlab
