#include "framework/base/links.h"

#include <fmt/format.h>

#include <filesystem>

#include "framework/base/error.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 8;  // a run's folder has three; each level that is open takes a descriptor

/// Gives what lies in a folder to `look`.
template <class Look>
void each_entry(const std::string& folder, Look look) {
  std::error_code error;
  fs::directory_iterator at(folder, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    if (!at->path().filename().string().starts_with('.')) look(*at);
  }
  const bool none =
      error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
  if (!error || none) return;
  throw FileError(
      fmt::format("{}: cannot be looked through for links before it is written to: {}; "
                  "check the permissions",
                  folder, error.message()));
}

void refuse_below(const std::string& folder, int depth) {
  if (depth > kDeepest) {
    throw FileError(fmt::format(
        "{}: lies deeper than folders of attnlab do; remove what does not belong there", folder));
  }
  each_entry(folder, [&](const fs::directory_entry& entry) {
    std::error_code unknown;  // what has gone meanwhile is not a link
    refuse_link(entry.path().string());
    if (entry.is_directory(unknown)) refuse_below(entry.path().string(), depth + 1);
  });
}

}  // namespace

void refuse_link(const std::string& path) {
  std::error_code unknown;
  if (!fs::is_symlink(path, unknown)) return;
  throw FileError(fmt::format(
      "{}: cannot write: it is a link, and attnlab's files stay in their folder; put a copy of "
      "what it leads to in its place, or remove it",
      path));
}

void refuse_links(const std::string& folder) { refuse_below(folder, 1); }

}  // namespace attnlab
