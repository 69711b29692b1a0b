// Folders of scans, as lidar datasets come: many files of plain numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/tensor/tensor.h"

namespace attnlab {

/// Rows of float32 numbers, little-endian: KITTI's .bin has 4 (x, y, z, reflectance), nuScenes' 5.
/// @returns [N, columns] float32
/// @throws FileError; DataError for a file that is not there, an empty one, one that holds no whole
///         number of rows, and one of more than 1 GiB (before it is read).
Tensor read_scan(const std::string& path, std::int64_t columns);

/// How many rows such a file has, by its size. @throws as `read_scan`.
std::int64_t rows_of_scan(const std::string& path, std::int64_t columns);

/// Bytes of a file. @throws DataError where there is none.
std::int64_t size_of_file(const std::string& path);

/// @throws DataError for a file of more than 1 GiB, before any of it is read. One that is not there
///         passes.
void expect_readable_whole(const std::string& path);

/// A fingerprint of files: of every byte where they are 1 GiB at most, else of names, sizes and
/// times, since larger sets are not read when they are opened.
/// @throws DataError for a file that is not there.
std::uint64_t files_fingerprint(const std::vector<std::string>& paths);

/// The first word of each line of a list: frames, shapes. @throws FileError; DataError with the
/// line for a word with control characters, which is not a name.
std::vector<std::string> listed_names(const std::string& path);

/// Names in a folder that end so, sorted; none where there is no folder. Hidden ones (".name") are
/// nobody's data.
/// @throws FileError for one that cannot be listed; DataError for a link to nothing of such a name.
std::vector<std::string> names_in(const std::string& folder, const std::string& ending);

}  // namespace attnlab
