// Work that a process asked to stop brings to an end, since it can be saved then.
#pragma once

namespace attnlab {

/// While one lives, somebody is between a step of training and the checkpoint that saves it.
/// Without any, a process that was asked to stop loses nothing by ending at once.
class WorkToSave {
 public:
  WorkToSave();
  ~WorkToSave();
  WorkToSave(const WorkToSave&) = delete;
  WorkToSave& operator=(const WorkToSave&) = delete;

  /// Whether one lives. May be asked in a signal handler.
  static bool any();
};

}  // namespace attnlab
