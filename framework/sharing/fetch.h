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

/// A server that gives fewer bytes a second for so many seconds is left.
struct Pace {
  long least = 1000, seconds = 30;
};

/// @param from   an address, or a path
/// @param most   bytes; more are refused before they are read
/// @throws FileError naming what could not be fetched, and why.
std::string fetch(const std::string& from, std::int64_t most, const Pace& pace = {});

}  // namespace attnlab::sharing
