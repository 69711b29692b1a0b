#include "framework/data/points/scan_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/data/formats/files.h"
#include "framework/data/points/byte_reader.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMostRead = std::uintmax_t{1} << 30;
constexpr std::uintmax_t kLargestScan = std::uintmax_t{1} << 30;

void expect_readable_whole(std::uintmax_t bytes, const std::string& path) {
  if (bytes <= kLargestScan) return;
  throw DataError(
      fmt::format("{}: {} bytes are more than a scan may have ({}, 1 GiB), which is read whole; "
                  "cut it into smaller scans, each with its labels, or remove it from the set",
                  printable(path), bytes, kLargestScan));
}

std::int64_t rows_in(std::uintmax_t bytes, std::int64_t columns, const std::string& path) {
  const auto row = static_cast<std::uintmax_t>(columns) * sizeof(float);
  if (bytes == 0 || bytes % row != 0) {
    throw DataError(fmt::format(
        "{}: {} bytes are {}; remove it from the set, or fetch it again", printable(path), bytes,
        bytes == 0 ? "a scan without points" : fmt::format("no whole points of {} bytes", row)));
  }
  expect_readable_whole(bytes, path);
  return static_cast<std::int64_t>(bytes / row);
}

std::uintmax_t size_of(const std::string& path) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (error) {
    throw DataError(
        fmt::format("{}: {}; the set is not complete", printable(path), error.message()));
  }
  return size;
}

}  // namespace

Tensor read_scan(const std::string& path, std::int64_t columns) {
  rows_of_scan(path, columns);  // before anything is read
  const std::string bytes = read_text(path);
  const Tensor scan = at::empty({rows_in(bytes.size(), columns, path), columns});
  std::memcpy(scan.data_ptr<float>(), bytes.data(), bytes.size());
  return scan;
}

std::int64_t rows_of_scan(const std::string& path, std::int64_t columns) {
  return rows_in(size_of(path), columns, path);
}

std::int64_t size_of_file(const std::string& path) {
  return static_cast<std::int64_t>(size_of(path));
}

void expect_readable_whole(const std::string& path) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (!error) expect_readable_whole(size, path);
}

std::uint64_t files_fingerprint(const std::vector<std::string>& paths) {
  std::uintmax_t total = 0;
  for (const std::string& path : paths) total += size_of(path);
  std::uint64_t hash = 0;
  for (const std::string& path : paths) {
    const std::string name = fs::path(path).filename().string();
    hash = content_fingerprint(name, hash);
    if (total <= kMostRead) {
      hash = content_fingerprint(read_text(path), hash);
    } else {
      const auto time = fs::last_write_time(path).time_since_epoch().count();
      hash = content_fingerprint(fmt::format("{} {}", size_of(path), time), hash);
    }
  }
  return hash;
}

std::vector<std::string> listed_names(const std::string& path) {
  std::vector<std::string> names;
  const std::string text = read_data_file(path);
  WordReader lines(text, path);
  while (!lines.at_end()) {
    std::string_view line = lines.line();
    const std::string_view word = take_word(line);
    if (word.empty()) continue;
    const bool has_control = std::any_of(word.begin(), word.end(),
                                         [](unsigned char c) { return c < 0x80 && is_control(c); });
    if (has_control) lines.fail(fmt::format("{} is not a name; repair the line", excerpt(word)));
    names.emplace_back(word);
  }
  return names;
}

std::vector<std::string> names_in(const std::string& folder, const std::string& ending) try {
  std::vector<std::string> names;
  // A link to nothing is there: what it should lead to is missing, on a disk that is not mounted.
  if (fs::symlink_status(folder).type() == fs::file_type::not_found) return names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.') || !name.ends_with(ending)) continue;
    if (entry.is_symlink() && !entry.exists()) {
      throw DataError(entry.path().string() +
                      ": is a link to nothing; fetch what it leads to, or remove it");
    }
    names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
} catch (const fs::filesystem_error& error) {
  throw FileError(fmt::format("{}: cannot be listed: {}; check its permissions, and where it leads",
                              folder, error.code().message()));
}

}  // namespace attnlab
