// Finding and reading the files of datasets.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/error.h"

namespace attnlab {

/// What a dataset looks for on this machine.
struct DataSearch {
  std::string name;                ///< of the folder: "fashion-mnist"
  std::vector<std::string> files;  ///< or folders in it; all needed
  std::string root;                ///< the user's own folder, or the one above it; empty: not given
  std::string hint;  ///< how to get the data: "install the Debian package dataset-fashion-mnist"
  /// Whether each of the files may be there with ".gz" added: for readers that take both.
  bool packed = true;
  const char* option = "root";  ///< what the user calls `root`
};

/// From here on, relative paths of data that lead nowhere from the working folder are looked for in
/// this one: that in which a run was begun, when it goes on or is evaluated. Empty: in none.
void look_for_data_in(const std::string& folder);
/// A path as it is found by that rule.
std::string data_path(const std::string& path);

/// The folder that holds all the files: `root` (or its subfolder `name`) where that is given, else
/// $ATTNLAB_DATA/<name>, /usr/share/datasets/<name>, /usr/local/share/datasets/<name>.
/// @throws DataMissingError that lists every place with what is missing there, and the hint;
///         OptionError where the files are in the subfolder, and some in `root` itself.
std::string find_data_folder(const DataSearch& search);

/// The path of a file, or of that file with ".gz" added where only that exists.
std::string with_or_without_gz(const std::string& path);

/// A whole file, decompressed when it begins as gzip does (1f 8b), whatever its name.
/// @throws FileError when it cannot be read, DataError with path where the compressed stream is cut
///         off, damaged, followed by other bytes, or gives 100 times its size and above 256 MiB.
std::string read_data_file(const std::string& path);

/// 64 bits that change whenever any byte does; some GB/s, so everything is read, nothing sampled.
/// Not for secrets.
std::uint64_t content_fingerprint(std::string_view bytes, std::uint64_t seed = 0);

}  // namespace attnlab
