// Parts of a list of images, drawn at random.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/base/random.h"

namespace attnlab {

/// So many of `count`: below 1 a share of them. @param option  for messages
/// @throws OptionError for what is neither a share nor a whole number, or more than there are.
std::int64_t wanted_of(const char* option, double wanted, std::size_t count);

/// Takes `count` of the indices at random out of them. @returns those, sorted.
std::vector<std::int64_t> take(std::vector<std::int64_t>& indices, std::int64_t count,
                               Random random);

}  // namespace attnlab
