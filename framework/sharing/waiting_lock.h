// A lock on a file for which is waited: lists that several processes of a user change.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "framework/base/file_lock.h"

namespace attnlab::sharing {

/// Held from its making on, until it goes; on file systems without locks nothing holds.
class WaitingLock {
 public:
  /// @throws FileError when the file cannot be opened for writing.
  explicit WaitingLock(const std::string& path) {
    for (lock_.emplace(path); lock_->state() == FileLock::State::taken; lock_.emplace(path)) {
      lock_.reset();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

 private:
  std::optional<FileLock> lock_;
};

}  // namespace attnlab::sharing
