// A file of the user's cache that holds what was read of runs, so that the next call need not.
//
//   $XDG_CACHE_HOME/attnlab/runs, else $HOME/.cache/attnlab/runs;   HASH.KIND
//
// HASH is of what the file is of and of this build of attnlab. Files appear whole or not at all,
// hold a hash of their content, take 1 GiB together at most, and may be removed at any time.
// Without a folder that can be written to, or with ATTNLAB_RUN_INDEX=off, nothing is kept.
#pragma once

#include <string>
#include <string_view>

namespace attnlab {

class KeptFile {
 public:
  /// @param key  what it is of
  KeptFile(const std::string& kind, const std::string& key);

  /// Whether anything is kept.
  bool is_on() const { return !path_.empty(); }
  /// Its content; empty where there is none, or it is damaged.
  std::string read() const;
  /// Does nothing where it cannot be written.
  void write(std::string_view content) const;

 private:
  std::string path_;
};

}  // namespace attnlab
