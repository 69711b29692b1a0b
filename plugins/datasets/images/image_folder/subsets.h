// Parts of a list of images, drawn at random.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/base/random.h"

namespace attnlab {

/// Takes `count` of the indices at random out of them. @returns those, sorted.
std::vector<std::int64_t> take(std::vector<std::int64_t>& indices, std::int64_t count,
                               Random random);

}  // namespace attnlab
