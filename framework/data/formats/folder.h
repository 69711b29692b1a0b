// What a folder of data holds: what people put there, not what programs left in it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace attnlab {

/// Whether a file or folder of this name is nobody's data: one that begins with a dot
/// (.ipynb_checkpoints, macOS's ._a.jpg and .DS_Store), macOS's __MACOSX, Windows' Thumbs.db and
/// desktop.ini (in any case), Synology's @eaDir.
bool is_hidden(std::string_view name);

/// What a folder holds, in order of names, without what is hidden; nothing where the folder is not
/// there. (A link to nothing is there: what it leads to was not fetched, or moved.)
/// @throws FileError where the folder cannot be listed.
std::vector<std::filesystem::directory_entry> visible_entries(const std::string& folder);

/// @throws DataError where what a link leads to is missing: it would be left out without a word.
void refuse_link_to_nothing(const std::filesystem::directory_entry& entry);

/// @throws FileError that says so, with the reason.
[[noreturn]] void cannot_list(const std::string& folder,
                              const std::filesystem::filesystem_error& error);

}  // namespace attnlab
