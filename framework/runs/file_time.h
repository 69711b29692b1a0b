// When a file was written last, for records that do not say it themselves.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>

namespace attnlab {

/// In microseconds since 1970; 0 where that is not known.
inline std::int64_t microseconds_of_file(const std::filesystem::path& path) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(path, error);
  if (error) return 0;
  const auto since = std::chrono::file_clock::to_sys(time).time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(since).count();
}

}  // namespace attnlab
