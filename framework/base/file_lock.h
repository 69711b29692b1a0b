// A lock on a file that ends with the process that holds it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "framework/base/error.h"

namespace attnlab {

/// The kernel's lock on a whole file. It goes with the object or the process, however that ends
/// (kill -9, power cut), and holds across machines where the file system hands locks on.
class FileLock {
 public:
  enum class State {
    held,    ///< by this object
    taken,   ///< by another
    unknown  ///< this file system knows no locks
  };

  /// Takes the lock if it is free; makes the file where there is none.
  /// @throws FileError when the file cannot be opened for writing.
  explicit FileLock(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  State state() const { return state_; }
  /// Replaces what the file says; where the file system knows no locks, for other machines, too.
  /// @returns whether it says so, else with errno: beside a lock it is for people alone, and a full
  ///          disk is not an error.
  bool write(std::string_view text) const;

 private:
  int descriptor_ = -1;
  State state_ = State::unknown;
};

/// Whether a file is locked by another; empty where there is no file, or no lock can be asked for.
std::optional<bool> is_locked(const std::string& path);

}  // namespace attnlab
