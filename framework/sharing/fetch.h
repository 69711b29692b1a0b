// Files from the web, with limits; and from folders, by the same name.
#pragma once

#include <cstdint>
#include <string>

namespace attnlab::sharing {

/// Whether a word is an address that is fetched: http://, https:// or file://.
bool is_url(const std::string& word);

/// The address or path of a file beside others: "http://host/folder" and "a.json".
std::string beside(const std::string& place, const std::string& name);

/// An address as people are shown it: without the user and password that may stand in it.
std::string shown(const std::string& place);

/// How long a server is waited for.
struct Pace {
  long least = 1000, seconds = 30;  ///< fewer bytes a second for so many seconds end a try
  double in_all = 3600;             ///< seconds for a file, with all tries
  int tries = 5;                    ///< of a transfer that began and broke off
  double pause = 1;                 ///< seconds before the second try; longer before each further
};

/// Fetches a file. A transfer that breaks off goes on where it ended, if the server can give the
/// rest of the same file (a range, `If-Range`), and otherwise begins anew. What servers send in all
/// is limited to twice `most`.
/// @param from    an address, or a path
/// @param most    bytes; more are refused before they are read
/// @param sha256  of the file, where it is known: one that was put together of parts and does not
///                have it is fetched anew, in one piece; who calls checks what comes then
/// @throws FileError naming what could not be fetched, why, and how far it came.
std::string fetch(const std::string& from, std::int64_t most, const Pace& pace = {},
                  const std::string& sha256 = "");

}  // namespace attnlab::sharing
