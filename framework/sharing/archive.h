// Archives: tar in zstd, by libarchive, with limits. An archive holds regular files and nothing
// else, sorted by name, without times, owners and links, so that the same files give the same
// bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/sharing/errors.h"

namespace attnlab::sharing {

struct ArchiveFile {
  std::string path;  ///< relative, with '/'
  std::string bytes;
  bool executable = false;
};

/// What is refused beyond: a small file can hold terabytes of zeros.
struct ArchiveLimits {
  std::size_t files = 100'000;  ///< a suite of 10,000 runs
  std::int64_t file_bytes = std::int64_t{512} << 20;
  std::int64_t all_bytes = std::int64_t{1} << 30;
};

/// Whether a path may stand in an archive: relative, at most 200 bytes and 20 folders deep, of
/// A-Z, a-z, 0-9 and "._+=@,-", no part of it "." or "..", none that begins with "-".
/// @throws BundleError saying why not.
void check_path(const std::string& path);

/// @param files  in any order. @throws BundleError for a path that may not be, for two that are
/// the same to a file system without upper case, and for what is beyond the limits.
std::string write_archive(std::vector<ArchiveFile> files, const ArchiveLimits& limits = {});

/// Reads an archive from memory; refuses what is not a regular file, paths that leave the folder,
/// paths out of order or twice, and what is beyond the limits, before it takes memory for it.
/// @param on_file  gets each file in its turn; may throw
/// @throws BundleError.
void read_archive(std::string_view bytes, const std::function<void(ArchiveFile)>& on_file,
                  const ArchiveLimits& limits = {});

}  // namespace attnlab::sharing
