// Parts of data that an option asks for: a share of the examples, or a number of them.
#pragma once

#include <cstdint>

namespace attnlab {

/// How many of `count` examples a share is, rounded. 0 means no example.
/// @param option  for messages
/// @throws OptionError where a share above 0 comes to less than one example.
std::int64_t share_of(const char* option, double share, std::int64_t count);

/// So many of `count`: below 1 a share of them as above, from 1 on a number of examples.
/// @throws OptionError also for what is neither, or more than there are.
std::int64_t wanted_of(const char* option, double wanted, std::int64_t count);

/// @param least  the smallest share that comes to one example
/// @throws OptionError that says so.
[[noreturn]] void refuse_share(const char* option, double share, std::int64_t count, double least);

}  // namespace attnlab
