// Asking whether a dataset's files are on this machine, without reading them. For `attnlab doctor`.
#pragma once

#include <string>

namespace attnlab {

/// Thrown by `find_data_folder` (formats/files.h) in place of its result while a `LookOnly` lives:
/// the files are there. No std::exception, so that no handler takes it for an error.
struct DataFound {
  std::string folder;
};

/// While it lives, a dataset that is being built ends at its first search: with `DataFound`, or
/// with the `DataMissingError` that a run would end with. For one thread.
class LookOnly {
 public:
  LookOnly();
  ~LookOnly();
  LookOnly(const LookOnly&) = delete;
  LookOnly& operator=(const LookOnly&) = delete;
};

}  // namespace attnlab
