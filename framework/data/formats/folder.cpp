#include "framework/data/formats/folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "framework/base/error.h"

namespace attnlab {

namespace fs = std::filesystem;

bool is_hidden(std::string_view name) {
  if (name.starts_with('.')) return true;
  const auto is = [&](std::string_view known) {
    return std::equal(name.begin(), name.end(), known.begin(), known.end(),
                      [](unsigned char a, char b) { return std::tolower(a) == b; });
  };
  return is("__macosx") || is("thumbs.db") || is("desktop.ini") || is("@eadir");
}

std::vector<fs::directory_entry> visible_entries(const std::string& folder) try {
  std::vector<fs::directory_entry> entries;
  if (fs::symlink_status(folder).type() == fs::file_type::not_found) return entries;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!is_hidden(entry.path().filename().native())) entries.push_back(entry);
  }
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.path().filename().native() < b.path().filename().native();
  });
  return entries;
} catch (const fs::filesystem_error& error) {
  cannot_list(folder, error);
}

void refuse_link_to_nothing(const fs::directory_entry& entry) {
  if (!entry.is_symlink() || entry.exists()) return;
  throw DataError(
      fmt::format("{}: is a link to nothing: what it leads to was not fetched, or moved",
                  entry.path().string()));
}

void cannot_list(const std::string& folder, const fs::filesystem_error& error) {
  throw FileError(fmt::format("{}: cannot be listed: {}; check its permissions, and where it leads",
                              folder, error.code().message()));
}

}  // namespace attnlab
