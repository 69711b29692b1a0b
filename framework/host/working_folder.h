// Results are filed by paths that may begin in the working folder: it must stay where it is.
#pragma once

#include <cstdint>
#include <string>

namespace attnlab {

class WorkingFolder {
 public:
  /// Notes the present one.
  WorkingFolder();
  /// A system call. Where the folder is another now, goes back to the first.
  /// @param what  what ran since: "the model"
  /// @throws PluginError then.
  void check(const std::string& what) const;

 private:
  std::string path_;
  std::uint64_t device_ = 0, file_ = 0;
};

}  // namespace attnlab
