// Results are filed by paths that may begin in the working folder: it must stay where it is.
#pragma once

#include <cstdint>
#include <string>

namespace attnlab {

/// The working folder of a scope: it is gone back to at its end, also by an exception.
class WorkingFolder {
 public:
  /// Notes the present one.
  WorkingFolder();
  ~WorkingFolder() { go_back(); }
  WorkingFolder(const WorkingFolder&) = delete;
  WorkingFolder& operator=(const WorkingFolder&) = delete;

  /// Goes back to it, as far as that is possible. (Where it is still here: one system call.)
  void go_back() const noexcept;
  /// Goes back, too, and complains.
  /// @param what  what ran since: "the model"
  /// @throws PluginError where the folder was another; FileError where it is still.
  void check(const std::string& what) const;

 private:
  bool is_here() const noexcept;

  std::string path_;
  std::uint64_t device_ = 0, file_ = 0;
};

}  // namespace attnlab
