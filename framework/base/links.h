// Folders of results may be somebody else's, copied with their links. What attnlab names itself is
// never written through one of them to another place; a file that the user names is
// (`AtomicFile`).
#pragma once

#include <string>

namespace attnlab {

/// @throws FileError where a link has that name, whether or not it leads anywhere.
void refuse_link(const std::string& path);

/// Looks through a folder as attnlab makes it, of a run or of Slurm's jobs, and what is below it;
/// what has a point before its name is not attnlab's (an editor's lock). No error where there is no
/// folder.
/// @throws FileError naming a link; where it cannot be looked through, or is deeper than 8 levels
void refuse_links(const std::string& folder);

}  // namespace attnlab
