// Results are filed after a failure, too: the working folder is as it was whatever is thrown.
#pragma once

#include <exception>

#include "framework/host/working_folder.h"

namespace attnlab {

/// Goes back after an exception, which alone counts then.
inline void go_back(const WorkingFolder& folder) {
  try {
    folder.check("");
  } catch (const std::exception&) {
  }
}

/// A working folder that is gone back to at the end, also by an exception.
class KeptFolder : public WorkingFolder {
 public:
  KeptFolder() = default;
  ~KeptFolder() { go_back(*this); }
  KeptFolder(const KeptFolder&) = delete;
  KeptFolder& operator=(const KeptFolder&) = delete;
};

}  // namespace attnlab
